//! What stays and what moves when a JSON text is written in canonical form.

use std::borrow::Cow;

use crate::json::{self, Piece, Pieces, Token, Tokens};

/// Deepest nesting that has a canonical form.
pub const MAX_DEPTH: usize = 512;

/// The values of a text in order, and the members of each object sorted by key. Flat, so that neither building it nor
/// walking it recurses; small, because it is built for every event.
pub(super) struct Outline<'t> {
    pub(super) text: &'t str,
    pub(super) nodes: Vec<Node>,
    pub(super) members: Vec<Member>,
}

/// A value. Positions are offsets in the text, or indices of nodes and members.
#[derive(Clone, Copy)]
pub(super) enum Node {
    /// A number, a literal, or a string: canonical as it stands.
    Plain { start: u32, end: u32 },
    /// A string with other escapes than the canonical form has. Its quotes included.
    Rewritten { start: u32, end: u32 },
    /// Its elements are the nodes behind it, up to `end`.
    Array { end: u32 },
    /// Its members are `members[first..last]`, its values the nodes behind it, up to `end`.
    Object { first: u32, last: u32, end: u32 },
}

/// One member of an object: its key, as a string, and the node of its value.
#[derive(Clone, Copy)]
pub(super) struct Member {
    pub(super) key: Node,
    pub(super) value: u32,
}

/// A member whose object is still open.
struct OpenMember<'t> {
    key: Cow<'t, str>,
    member: Member,
}

/// A container that is still open: its node, and where its members begin among the open ones.
struct Open {
    node: u32,
    first: usize,
}

impl<'t> Outline<'t> {
    /// The outline of a valid JSON text, or of no text at all; None when it has no canonical form.
    pub(super) fn read(text: &'t str) -> Option<Self> {
        u32::try_from(text.len()).ok()?; // so that every position fits as well
        let mut nodes = Vec::with_capacity(text.len() / 16);
        let mut members = Vec::new();
        let mut open: Vec<Open> = Vec::new();
        let mut open_members: Vec<OpenMember<'t>> = Vec::new();
        let mut tokens = Tokens::new(text);
        while let Some((span, token)) = tokens.next_with_span() {
            let (start, end) = (position(span.start), position(span.end));
            let next = position(nodes.len());
            match token {
                Token::Key(raw) => {
                    let member = Member {
                        key: string(raw, start, end)?,
                        value: next,
                    };
                    open_members.push(OpenMember {
                        key: json::unescape(raw).ok()?,
                        member,
                    });
                }
                Token::String(raw) => nodes.push(string(raw, start, end)?),
                Token::Number(_) | Token::True | Token::False | Token::Null => {
                    nodes.push(Node::Plain { start, end });
                }
                Token::BeginObject | Token::BeginArray => {
                    if open.len() == MAX_DEPTH {
                        return None;
                    }
                    open.push(Open {
                        node: next,
                        first: open_members.len(),
                    });
                    nodes.push(Node::Array { end: next }); // set when it closes
                }
                Token::EndArray => *nodes.get_mut(open.pop()?.node as usize)? = Node::Array { end: next },
                Token::EndObject => {
                    let object = open.pop()?;
                    let first = position(members.len());
                    close(&mut open_members, object.first, &mut members)?;
                    let last = position(members.len());
                    *nodes.get_mut(object.node as usize)? = Node::Object {
                        first,
                        last,
                        end: next,
                    };
                }
            }
        }
        Some(Self { text, nodes, members })
    }
}

/// Moves the members of an object that closes, sorted. None when two have the same key.
fn close(open: &mut Vec<OpenMember<'_>>, first: usize, members: &mut Vec<Member>) -> Option<()> {
    let own = open.get_mut(first..)?;
    if !own.is_sorted_by(|a, b| a.key < b.key) {
        own.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        if own.windows(2).any(|pair| pair[0].key == pair[1].key) {
            return None;
        }
    }
    members.extend(own.iter().map(|open| open.member));
    open.truncate(first);
    Some(())
}

/// A string value. None when Unicode text cannot hold what it says.
fn string(raw: &str, start: u32, end: u32) -> Option<Node> {
    if is_canonical(raw) {
        return Some(Node::Plain { start, end });
    }
    let whole = Pieces::new(raw).all(|piece| piece != Piece::LoneSurrogate);
    whole.then_some(Node::Rewritten { start, end })
}

/// Whether all escapes of a string are those that the canonical form has too, as is nearly always so.
fn is_canonical(raw: &str) -> bool {
    let mut rest = raw.as_bytes();
    while let Some(at) = memchr::memchr(b'\\', rest) {
        match rest.get(at + 1) {
            Some(b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't') => rest = &rest[at + 2..],
            _ => return false,
        }
    }
    true
}

fn position(at: usize) -> u32 {
    u32::try_from(at).expect("no more nodes and members than bytes, whose number was checked")
}
