//! The response digest: are two bodies the same result?
//!
//! Push and poll may spell one result differently, so results are compared in a canonical form: a JSON text
//! without insignificant space, members sorted by the UTF-8 bytes of their keys, strings with the fewest escapes
//! (`\"`, `\\`, `\b \f \n \r \t`, other control characters as `\u00xx`), numbers exactly as sent. Python writes
//! it with `json.dumps(x, sort_keys=True, separators=(",", ":"), ensure_ascii=False)`, numbers aside.
//!
//! Where that form does not exist (half of a surrogate pair, a key twice in one object, deeper than
//! [`MAX_DEPTH`]) the bytes as sent are hashed.

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::json::{self, Piece, Pieces, Token, Tokens};

/// Deepest nesting that has a canonical form.
pub const MAX_DEPTH: usize = 512;

/// SHA-256 of a `response` in canonical form; of the empty string when there is none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResponseDigest([u8; 32]);

impl ResponseDigest {
    /// The digest of a response.
    pub fn of(response: Option<&RawValue>) -> Self {
        let text = response.map_or("", RawValue::get);
        match Outline::read(text) {
            Some(outline) => Self(outline.digest()),
            None => Self(Sha256::digest(text).into()),
        }
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A digest that was computed before.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for ResponseDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ResponseDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// A text cut into what stays as it stands and what moves: values in the order of the text, and the members of
/// each object sorted. Built in one pass and written in another, both without recursion.
struct Outline<'t> {
    text: &'t str,
    nodes: Vec<Node>,
    members: Vec<Member>,
}

/// A value. Positions are offsets in the text, or indices into `nodes` and `members`.
#[derive(Clone, Copy)]
enum Node {
    /// A number, a literal, or a string without escapes: canonical as it stands.
    Plain { start: u32, end: u32 },
    /// A string with escapes, its quotes included.
    Escaped { start: u32, end: u32 },
    /// Its elements are the nodes up to `end`.
    Array { end: u32 },
    /// Its members are `members[first..last]`, sorted; its values the nodes up to `end`.
    Object { first: u32, last: u32, end: u32 },
}

/// One member of an object: its key, as a string node, and the node of its value.
#[derive(Clone, Copy)]
struct Member {
    key: Node,
    value: u32,
}

/// A member whose object is still open.
struct OpenMember<'t> {
    key: Cow<'t, str>,
    member: Member,
}

/// A container that is still open.
struct Open {
    node: u32,
    /// Where its members begin among the open ones.
    first: usize,
}

impl<'t> Outline<'t> {
    /// None when there is no canonical form.
    fn read(text: &'t str) -> Option<Self> {
        u32::try_from(text.len()).ok()?; // so every position below fits as well
        let (nodes, members) = (Vec::with_capacity(text.len() / 16), Vec::new());
        let mut outline = Self { text, nodes, members };
        let mut open: Vec<Open> = Vec::new();
        let mut open_members: Vec<OpenMember<'t>> = Vec::new();
        let mut tokens = Tokens::new(text);
        while let Some((span, token)) = tokens.next_with_span() {
            let (start, end) = (position(span.start), position(span.end));
            let next = position(outline.nodes.len());
            match token {
                Token::Key(raw) => {
                    let key = string_node(raw, start, end)?;
                    let member = Member { key, value: next };
                    open_members.push(OpenMember {
                        key: json::unescape(raw).ok()?,
                        member,
                    });
                }
                Token::String(raw) => outline.nodes.push(string_node(raw, start, end)?),
                Token::Number(_) | Token::True | Token::False | Token::Null => {
                    outline.nodes.push(Node::Plain { start, end });
                }
                Token::BeginObject | Token::BeginArray => {
                    if open.len() == MAX_DEPTH {
                        return None;
                    }
                    open.push(Open {
                        node: next,
                        first: open_members.len(),
                    });
                    outline.nodes.push(Node::Array { end: next }); // set when it closes
                }
                Token::EndArray => {
                    let array = open.pop()?;
                    *outline.nodes.get_mut(array.node as usize)? = Node::Array { end: next };
                }
                Token::EndObject => {
                    let object = open.pop()?;
                    let members = open_members.get_mut(object.first..)?;
                    if !members.is_sorted_by(|a, b| a.key < b.key) {
                        members.sort_unstable_by(|a, b| a.key.cmp(&b.key));
                        if members.windows(2).any(|pair| pair[0].key == pair[1].key) {
                            return None;
                        }
                    }
                    let first = position(outline.members.len());
                    outline.members.extend(members.iter().map(|open| open.member));
                    open_members.truncate(object.first);
                    let last = position(outline.members.len());
                    *outline.nodes.get_mut(object.node as usize)? = Node::Object {
                        first,
                        last,
                        end: next,
                    };
                }
            }
        }
        Some(outline)
    }

    /// SHA-256 of the canonical form.
    fn digest(&self) -> [u8; 32] {
        let mut out = Sink::new(self.text);
        let mut stack: Vec<Rest> = Vec::new();
        if !self.nodes.is_empty() {
            stack.extend(self.begin(0, &mut out));
        }
        while let Some(rest) = stack.last_mut() {
            if rest.next == rest.end {
                out.byte(if rest.object { b'}' } else { b']' });
                stack.pop();
                continue;
            }
            if rest.begun {
                out.byte(b',');
            }
            rest.begun = true;
            let value = if rest.object {
                let member = self.members[rest.next as usize];
                rest.next += 1;
                out.scalar(member.key);
                out.byte(b':');
                member.value
            } else {
                let element = rest.next;
                rest.next = self.after(element);
                element
            };
            stack.extend(self.begin(value, &mut out));
        }
        out.finish()
    }

    /// Writes a value, or its opening bracket; then gives what is to be written inside.
    fn begin(&self, node: u32, out: &mut Sink<'t>) -> Option<Rest> {
        match self.nodes[node as usize] {
            Node::Array { end } => {
                out.byte(b'[');
                Some(Rest {
                    object: false,
                    next: node + 1,
                    end,
                    begun: false,
                })
            }
            Node::Object { first, last, .. } => {
                out.byte(b'{');
                Some(Rest {
                    object: true,
                    next: first,
                    end: last,
                    begun: false,
                })
            }
            scalar => {
                out.scalar(scalar);
                None
            }
        }
    }

    /// The node behind a value and all that is in it.
    fn after(&self, node: u32) -> u32 {
        match self.nodes[node as usize] {
            Node::Array { end } | Node::Object { end, .. } => end,
            Node::Plain { .. } | Node::Escaped { .. } => node + 1,
        }
    }
}

/// What is still to be written of a container: elements (indices of nodes) or members (indices of members).
struct Rest {
    object: bool,
    next: u32,
    end: u32,
    begun: bool,
}

fn position(at: usize) -> u32 {
    u32::try_from(at).expect("no more nodes and members than bytes, whose number was checked")
}

/// A string token as a node; None when it has no value that Unicode text can hold.
fn string_node(raw: &str, start: u32, end: u32) -> Option<Node> {
    if !raw.contains('\\') {
        return Some(Node::Plain { start, end });
    }
    let whole = Pieces::new(raw).all(|piece| piece != Piece::LoneSurrogate);
    whole.then_some(Node::Escaped { start, end })
}

/// Hashes the canonical form as it is written. What stands in the text as it is to be written, which is most of
/// it, is gathered into runs as long as possible: hashing a few long ones costs far less than many short ones.
struct Sink<'t> {
    text: &'t [u8],
    hasher: Sha256,
    run: (usize, usize),
}

impl<'t> Sink<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text: text.as_bytes(),
            hasher: Sha256::new(),
            run: (0, 0),
        }
    }

    fn finish(mut self) -> [u8; 32] {
        self.end_run();
        self.hasher.finalize().into()
    }

    fn end_run(&mut self) {
        self.hasher.update(&self.text[self.run.0..self.run.1]);
        self.run = (self.run.1, self.run.1);
    }

    fn byte(&mut self, byte: u8) {
        if self.text.get(self.run.1) == Some(&byte) {
            self.run.1 += 1;
        } else {
            self.bytes(&[byte]);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.end_run();
        self.hasher.update(bytes);
    }

    fn scalar(&mut self, node: Node) {
        match node {
            Node::Plain { start, end } => {
                let (start, end) = (start as usize, end as usize);
                if self.run.1 != start {
                    self.end_run();
                    self.run.0 = start;
                }
                self.run.1 = end;
            }
            Node::Escaped { start, end } => self.escaped(start as usize, end as usize),
            Node::Array { .. } | Node::Object { .. } => {}
        }
    }

    fn escaped(&mut self, start: usize, end: usize) {
        let raw = std::str::from_utf8(&self.text[start + 1..end - 1])
            .expect("what stands between two quotes of a text is text");
        self.bytes(b"\"");
        for piece in Pieces::new(raw) {
            match piece {
                Piece::Text(text) => self.bytes(text.as_bytes()),
                Piece::Char(c) => self.char(c),
                Piece::LoneSurrogate => {} // such a text has no outline
            }
        }
        self.bytes(b"\"");
    }

    fn char(&mut self, c: char) {
        match c {
            '"' => self.bytes(b"\\\""),
            '\\' => self.bytes(b"\\\\"),
            '\u{8}' => self.bytes(b"\\b"),
            '\u{c}' => self.bytes(b"\\f"),
            '\n' => self.bytes(b"\\n"),
            '\r' => self.bytes(b"\\r"),
            '\t' => self.bytes(b"\\t"),
            '\0'..='\u{1f}' => self.bytes(format!("\\u{:04x}", u32::from(c)).as_bytes()),
            c => self.bytes(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}
