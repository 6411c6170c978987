//! Answers against `openapi.yaml`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Difference, Document, Documents, token};

const DOCUMENT: Document = Document::OpenApi;

/// What HTTP itself puts into answers; the document describes the rest.
const OF_HTTP: [&str; 4] = ["connection", "content-length", "content-type", "date"];

/// A route of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route<'r> {
    /// The method, in lower case.
    pub method: &'r str,
    /// The path as the document has it.
    pub path: &'r str,
}

impl Documents {
    /// Every path and method.
    #[must_use]
    pub fn routes(&self) -> Vec<Route<'_>> {
        let paths = self.openapi["paths"].as_object().into_iter().flatten();
        paths
            .flat_map(|(path, _)| {
                let item = self.resolve(DOCUMENT, &format!("/paths/{}", token(path)));
                let keys = item
                    .and_then(|(_, item)| item.as_object())
                    .into_iter()
                    .flat_map(|item| item.keys());
                let methods = keys.filter(|key| {
                    matches!(
                        key.as_str(),
                        "get" | "head" | "post" | "put" | "patch" | "delete" | "options"
                    )
                });
                methods.map(move |method| Route { method, path })
            })
            .collect()
    }

    /// The statuses that a route can answer with.
    #[must_use]
    pub fn statuses(&self, route: Route<'_>) -> BTreeSet<u16> {
        let responses = self
            .responses(route)
            .and_then(|(_, responses)| responses.as_object());
        let keys = responses.into_iter().flat_map(|responses| responses.keys());
        keys.filter_map(|status| status.parse().ok()).collect()
    }

    /// How an answer differs from what the document says of its route and status.
    #[must_use]
    pub fn answer_differences<'h>(
        &self,
        route: Route<'_>,
        status: u16,
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
        body: &str,
    ) -> Vec<Difference> {
        let response = self
            .responses(route)
            .and_then(|(at, _)| self.resolve(DOCUMENT, &format!("{at}/{status}")));
        let Some((at, response)) = response else {
            return vec![Difference(format!("{route:?} has no answer {status}"))];
        };
        let headers: Vec<_> = headers
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
        let header = |name: &str| {
            headers
                .iter()
                .find(|(found, _)| found == name)
                .map(|(_, value)| *value)
        };
        let media_type = header("content-type");
        if body.is_empty() && media_type.is_none() && bare(response) {
            return Vec::new();
        }
        let mut differences = self.header_differences(&at, response, &headers);
        match (media_type, response["content"].as_object()) {
            (None, None) if body.is_empty() => {}
            (Some(media_type), Some(content)) if content.contains_key(media_type) => {
                let pointer = format!("{at}/content/{}/schema", token(media_type));
                match instance(media_type, body) {
                    Ok(body) => differences.extend(self.differences(DOCUMENT, &pointer, "body", &body)),
                    Err(error) => differences.push(Difference(format!("the body is no JSON: {error}"))),
                }
            }
            (media_type, _) => differences.push(Difference(format!("a body of type {media_type:?}"))),
        }
        differences
    }

    fn responses(&self, route: Route<'_>) -> Option<(String, &Value)> {
        let (item, _) = self.resolve(DOCUMENT, &format!("/paths/{}", token(route.path)))?;
        self.resolve(DOCUMENT, &format!("{item}/{}/responses", route.method))
    }

    fn header_differences(&self, at: &str, response: &Value, found: &[(String, &str)]) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut described = BTreeSet::from(OF_HTTP.map(str::to_owned));
        for name in response["headers"]
            .as_object()
            .into_iter()
            .flat_map(|map| map.keys())
        {
            let lower = name.to_ascii_lowercase();
            let header = self.resolve(DOCUMENT, &format!("{at}/headers/{}", token(name)));
            let (pointer, header) = header.expect("a header of the document is one");
            match found.iter().find(|(found, _)| *found == lower) {
                Some((_, value)) => {
                    let value = value
                        .parse::<u64>()
                        .map_or_else(|_| Value::from(*value), Value::from);
                    differences.extend(self.differences(
                        DOCUMENT,
                        &format!("{pointer}/schema"),
                        name,
                        &value,
                    ));
                }
                None if header["required"] == true => {
                    differences.push(Difference(format!("the header {name} is missing")));
                }
                None => {}
            }
            described.insert(lower);
        }
        let undescribed = found.iter().filter(|(name, _)| !described.contains(name));
        differences
            .extend(undescribed.map(|(name, _)| Difference(format!("the header {name} is not described"))));
        differences
    }
}

/// Whether the answer may come without body and headers: the request was not even HTTP.
fn bare(response: &Value) -> bool {
    response.get("content").is_none() || response["x-without-body"] == true
}

/// The body as the schema of its media type sees it.
fn instance(media_type: &str, body: &str) -> Result<Value, serde_json::Error> {
    if media_type.ends_with("json") {
        serde_json::from_str(body)
    } else {
        Ok(body.into())
    }
}
