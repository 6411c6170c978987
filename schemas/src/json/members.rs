//! The members of one object, their values untouched.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of one object, in order: keys with their escapes resolved, values untouched.
///
/// Values are skipped without recursion. Keys are bytes, because a key may hold lone surrogates (which come
/// out in their three-byte form, no valid UTF-8 and so unequal to every key that anyone looks for).
pub(crate) struct Members<'t>(Vec<(Cow<'t, [u8]>, &'t RawValue)>);

impl<'t> Members<'t> {
    /// The value of the member called `key`; the first one, should there be several.
    pub(crate) fn get(&self, key: &str) -> Option<&'t RawValue> {
        let found = self.0.iter().find(|(k, _)| **k == *key.as_bytes());
        found.map(|(_, value)| *value)
    }

    /// Whether a key occurs twice, in whatever spelling.
    pub(crate) fn has_duplicates(&self) -> bool {
        // Pairwise is cheapest for the few members that real bodies have.
        if self.0.len() <= 16 {
            let rest = |i| self.0.iter().skip(i + 1);
            return self
                .0
                .iter()
                .enumerate()
                .any(|(i, (a, _))| rest(i).any(|(b, _)| a == b));
        }
        let mut keys: Vec<&[u8]> = self.0.iter().map(|(key, _)| &**key).collect();
        keys.sort_unstable();
        keys.windows(2).any(|pair| pair[0] == pair[1])
    }
}

impl<'t> Deserialize<'t> for Members<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'t> Visitor<'t> for Object {
            type Value = Members<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Members<'t>, A::Error> {
                let mut members = Vec::with_capacity(8);
                while let Some(Key(key)) = map.next_key()? {
                    members.push((key, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// A member's name as bytes: as a `str`, one lone surrogate in any key would fail the whole text.
struct Key<'t>(Cow<'t, [u8]>);

impl<'t> Deserialize<'t> for Key<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl<'t> Visitor<'t> for Bytes {
            type Value = Key<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member's name")
            }

            fn visit_borrowed_bytes<E>(self, bytes: &'t [u8]) -> Result<Key<'t>, E> {
                Ok(Key(Cow::Borrowed(bytes)))
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Key<'t>, E> {
                Ok(Key(Cow::Owned(bytes.to_vec())))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}
