//! The published documents beside this crate, and how what is sent and answered differs from them. For tests.
//!
//! `delivery.schema.json` describes bodies, `asyncapi.yaml` events, `openapi.yaml` requests and answers.

use std::fmt;

use jsonschema::{Draft, Registry, Validator};
use serde_json::{Value, json};

mod answer;
mod event;

pub use answer::Route;

/// The three documents, read.
pub struct Documents {
    delivery: Value,
    asyncapi: Value,
    openapi: Value,
    registry: Registry<'static>,
}

/// One of the documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    /// `delivery.schema.json`
    Delivery,
    /// `asyncapi.yaml`
    AsyncApi,
    /// `openapi.yaml`
    OpenApi,
}

/// A point in which something is not as a document says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference(String);

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Document {
    /// Where references between the documents expect it; nothing is ever fetched from there.
    fn uri(self) -> &'static str {
        match self {
            Self::Delivery => "file:///schemas/delivery.schema.json",
            Self::AsyncApi => "file:///schemas/asyncapi.yaml",
            Self::OpenApi => "file:///schemas/openapi.yaml",
        }
    }

    /// The dialect of the schemas in it.
    fn draft(self) -> Draft {
        match self {
            Self::Delivery | Self::OpenApi => Draft::Draft202012,
            // The AsyncAPI Schema Object is a superset of draft 7.
            Self::AsyncApi => Draft::Draft7,
        }
    }
}

impl Documents {
    /// Reads the documents that this build was made from.
    ///
    /// # Panics
    /// When one cannot be read, which is a fault of this repository.
    #[must_use]
    pub fn load() -> Self {
        let json = |text| serde_json::from_str(text).expect("delivery.schema.json is JSON");
        let yaml = |text| serde_yaml_ng::from_str(text).expect("the other two are YAML");
        let delivery: Value = json(include_str!("../delivery.schema.json"));
        let asyncapi: Value = yaml(include_str!("../asyncapi.yaml"));
        let openapi: Value = yaml(include_str!("../openapi.yaml"));
        let resources = [
            (Document::Delivery, &delivery),
            (Document::AsyncApi, &asyncapi),
            (Document::OpenApi, &openapi),
        ];
        let registry =
            Registry::new()
                .extend(resources.map(|(document, value)| {
                    (document.uri(), document.draft().create_resource(value.clone()))
                }))
                .and_then(|registry| registry.prepare())
                .expect("the documents refer to each other and to nothing else");
        Self {
            delivery,
            asyncapi,
            openapi,
            registry,
        }
    }

    /// A document as it stands.
    #[must_use]
    pub fn get(&self, document: Document) -> &Value {
        match document {
            Document::Delivery => &self.delivery,
            Document::AsyncApi => &self.asyncapi,
            Document::OpenApi => &self.openapi,
        }
    }

    /// A validator of the schema that stands in a document at a JSON pointer.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn validator(&self, document: Document, pointer: &str) -> Validator {
        // Media types hold spaces, and a reference none.
        let fragment = pointer.replace('%', "%25").replace(' ', "%20");
        jsonschema::options()
            .with_draft(document.draft())
            .with_registry(&self.registry)
            .offline()
            .build(&json!({ "$ref": format!("{}#{fragment}", document.uri()) }))
            .unwrap_or_else(|error| panic!("the schema at {pointer} of {document:?}: {error}"))
    }

    /// Follows a pointer, and then the references of a document to itself, to what they lead to.
    fn resolve(&self, document: Document, pointer: &str) -> Option<(String, &Value)> {
        let mut pointer = pointer.to_owned();
        loop {
            let value = self.get(document).pointer(&pointer)?;
            match value.get("$ref").and_then(Value::as_str) {
                Some(reference) => reference.strip_prefix('#')?.clone_into(&mut pointer),
                None => return Some((pointer, value)),
            }
        }
    }

    /// How `value` differs from the schema at `pointer`.
    fn differences(&self, document: Document, pointer: &str, what: &str, value: &Value) -> Vec<Difference> {
        let validator = self.validator(document, pointer);
        let errors = validator.iter_errors(value);
        errors
            .map(|error| Difference(format!("{what}{}: {error}", error.instance_path())))
            .collect()
    }
}

impl fmt::Debug for Documents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Documents").finish_non_exhaustive()
    }
}

/// One token of a JSON pointer.
fn token(text: &str) -> String {
    text.replace('~', "~0").replace('/', "~1")
}
