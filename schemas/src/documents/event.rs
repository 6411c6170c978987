//! Events against `asyncapi.yaml`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Difference, Document, Documents, token};
use crate::event::header;

const DOCUMENT: Document = Document::AsyncApi;

impl Documents {
    /// The addresses of the channels.
    #[must_use]
    pub fn addresses(&self) -> BTreeSet<&str> {
        let channels = self.asyncapi["channels"].as_object().into_iter().flatten();
        channels
            .filter_map(|(_, channel)| channel["address"].as_str())
            .collect()
    }

    /// The headers that an event on this subject can have.
    #[must_use]
    pub fn headers(&self, subject: &str) -> BTreeSet<&str> {
        let message = self.message(subject);
        message.map_or_else(BTreeSet::new, |(pointer, _)| {
            self.described(&format!("{pointer}/headers"))
        })
    }

    /// How an event differs from what the document says of its subject. A header that the document does not name is a
    /// difference too: readers have to bear it, writers have to describe it.
    #[must_use]
    pub fn event_differences<'h>(
        &self,
        subject: &str,
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
        body: &[u8],
    ) -> Vec<Difference> {
        let Some((pointer, message)) = self.message(subject) else {
            return vec![Difference(format!("no channel has the address {subject}"))];
        };
        let mut differences = Vec::new();
        let mut map = Map::new();
        for (name, value) in headers {
            if map.insert(name.to_owned(), value.into()).is_some() {
                differences.push(Difference(format!("the header {name} is there twice")));
            }
        }
        let described = self.described(&format!("{pointer}/headers"));
        let undescribed = map.keys().filter(|name| !described.contains(name.as_str()));
        differences.extend(undescribed.map(|name| Difference(format!("the header {name} is not described"))));
        if map.get(header::MSG_ID) != map.get(header::CE_ID) {
            differences.push(Difference("the message id is not the event's id".to_owned()));
        }
        if map.get(header::CE_DATACONTENTTYPE) != message.get("contentType") {
            differences.push(Difference("the media type is not the message's".to_owned()));
        }
        let headers = Value::Object(map);
        differences.extend(self.differences(DOCUMENT, &format!("{pointer}/headers"), "headers", &headers));
        if message.get("payload").is_some() {
            match serde_json::from_slice(body) {
                Ok(body) => differences.extend(self.differences(
                    DOCUMENT,
                    &format!("{pointer}/payload/schema"),
                    "body",
                    &body,
                )),
                Err(error) => differences.push(Difference(format!("the body is no JSON: {error}"))),
            }
        }
        differences
    }

    /// The message of the channel with this address, and where it stands.
    fn message(&self, subject: &str) -> Option<(String, &Value)> {
        let channels = self.asyncapi["channels"].as_object()?;
        let (name, channel) = channels
            .iter()
            .find(|(_, channel)| channel["address"] == subject)?;
        let (message, _) = channel["messages"].as_object()?.iter().next()?;
        self.resolve(
            DOCUMENT,
            &format!("/channels/{}/messages/{}", token(name), token(message)),
        )
    }

    /// The names of the properties that the schema at `pointer` describes, with those of the schemas that it is made of.
    fn described(&self, pointer: &str) -> BTreeSet<&str> {
        let Some((pointer, schema)) = self.resolve(DOCUMENT, pointer) else {
            return BTreeSet::new();
        };
        let own = schema["properties"].as_object().into_iter().flatten();
        let mut names: BTreeSet<&str> = own.map(|(name, _)| name.as_str()).collect();
        for part in 0..schema["allOf"].as_array().map_or(0, Vec::len) {
            names.extend(self.described(&format!("{pointer}/allOf/{part}")));
        }
        names
    }
}
