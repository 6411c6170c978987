//! Writes the canonical form, straight into a hash.

use sha2::{Digest, Sha256};

use super::outline::{Node, Outline};
use crate::json::{Piece, Pieces};

/// SHA-256 of the canonical form.
pub(super) fn hash(outline: &Outline<'_>) -> [u8; 32] {
    let mut out = Sink::new(outline.text);
    let mut stack: Vec<Rest> = Vec::new();
    if !outline.nodes.is_empty() {
        stack.extend(begin(outline, 0, &mut out));
    }
    while let Some(rest) = stack.last_mut() {
        if rest.next == rest.end {
            out.write(if rest.object { b"}" } else { b"]" });
            stack.pop();
            continue;
        }
        if rest.begun {
            out.write(b",");
        }
        rest.begun = true;
        let value = if rest.object {
            let member = outline.members[rest.next as usize];
            rest.next += 1;
            out.scalar(member.key);
            out.write(b":");
            member.value
        } else {
            let element = rest.next;
            rest.next = after(outline, element);
            element
        };
        stack.extend(begin(outline, value, &mut out));
    }
    out.finish()
}

/// What is still to be written of a container: elements (indices of nodes) or members (indices of members).
struct Rest {
    object: bool,
    next: u32,
    end: u32,
    begun: bool,
}

/// Writes a scalar, or the opening bracket of a container and gives what is to be written inside.
fn begin(outline: &Outline<'_>, node: u32, out: &mut Sink<'_>) -> Option<Rest> {
    match outline.nodes[node as usize] {
        Node::Array { end } => {
            out.write(b"[");
            Some(Rest {
                object: false,
                next: node + 1,
                end,
                begun: false,
            })
        }
        Node::Object { first, last, .. } => {
            out.write(b"{");
            Some(Rest {
                object: true,
                next: first,
                end: last,
                begun: false,
            })
        }
        scalar @ (Node::Plain { .. } | Node::Rewritten { .. }) => {
            out.scalar(scalar);
            None
        }
    }
}

/// The node behind a value and all that is in it.
fn after(outline: &Outline<'_>, node: u32) -> u32 {
    match outline.nodes[node as usize] {
        Node::Array { end } | Node::Object { end, .. } => end,
        Node::Plain { .. } | Node::Rewritten { .. } => node + 1,
    }
}

/// Gathers what is written: hashing a few long pieces costs a fraction of many short ones.
struct Sink<'t> {
    text: &'t str,
    hasher: Sha256,
    gathered: Vec<u8>,
}

impl<'t> Sink<'t> {
    const GATHER: usize = 4096;

    fn new(text: &'t str) -> Self {
        let gathered = Vec::with_capacity(text.len().min(Self::GATHER));
        Self {
            text,
            hasher: Sha256::new(),
            gathered,
        }
    }

    fn finish(mut self) -> [u8; 32] {
        self.hasher.update(&self.gathered);
        self.hasher.finalize().into()
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.gathered.len() + bytes.len() > Self::GATHER {
            self.hasher.update(&self.gathered);
            self.gathered.clear();
            if bytes.len() > Self::GATHER {
                return self.hasher.update(bytes);
            }
        }
        self.gathered.extend_from_slice(bytes);
    }

    fn scalar(&mut self, node: Node) {
        match node {
            Node::Plain { start, end } => self.write(&self.text.as_bytes()[start as usize..end as usize]),
            Node::Rewritten { start, end } => self.rewrite(&self.text[start as usize + 1..end as usize - 1]),
            Node::Array { .. } | Node::Object { .. } => {}
        }
    }

    /// A string, by its value: with the escapes it needs and no others.
    fn rewrite(&mut self, raw: &str) {
        self.write(b"\"");
        for piece in Pieces::new(raw) {
            match piece {
                Piece::Text(text) => self.write(text.as_bytes()),
                Piece::Char(c) => self.char(c),
                Piece::LoneSurrogate => {} // such a text has no outline
            }
        }
        self.write(b"\"");
    }

    fn char(&mut self, c: char) {
        match c {
            '"' => self.write(b"\\\""),
            '\\' => self.write(b"\\\\"),
            '\u{8}' => self.write(b"\\b"),
            '\u{c}' => self.write(b"\\f"),
            '\n' => self.write(b"\\n"),
            '\r' => self.write(b"\\r"),
            '\t' => self.write(b"\\t"),
            '\0'..='\u{1f}' => self.write(format!("\\u{:04x}", u32::from(c)).as_bytes()),
            c => self.write(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}
