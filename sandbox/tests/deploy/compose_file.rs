//! compose.yaml as a value.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;

use crate::read;

/// Services that run our programs.
pub(crate) const OURS: [&str; 5] = ["ingress", "projector", "reconciler", "migrate", "eraser"];

/// What these tests look at in compose.yaml.
#[derive(Deserialize)]
pub(crate) struct Compose {
    pub(crate) services: BTreeMap<String, Service>,
    pub(crate) networks: BTreeMap<String, Network>,
    pub(crate) volumes: BTreeMap<String, serde_yaml_ng::Value>,
    pub(crate) configs: BTreeMap<String, Source>,
    pub(crate) secrets: BTreeMap<String, Source>,
}

#[derive(Deserialize)]
pub(crate) struct Service {
    pub(crate) image: String,
    pub(crate) container_name: Option<String>,
    pub(crate) build: Option<Build>,
    #[serde(default)]
    pub(crate) command: Vec<String>,
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) ports: Vec<String>,
    #[serde(default)]
    pub(crate) secrets: Vec<Mount>,
    #[serde(default)]
    pub(crate) configs: Vec<Mount>,
    #[serde(default)]
    pub(crate) volumes: Vec<String>,
    pub(crate) networks: Vec<String>,
    #[serde(default)]
    pub(crate) depends_on: BTreeMap<String, serde_yaml_ng::Value>,
    pub(crate) healthcheck: Option<Healthcheck>,
    pub(crate) stop_grace_period: Option<String>,
    #[serde(default)]
    pub(crate) read_only: bool,
}

#[derive(Deserialize)]
pub(crate) struct Build {
    pub(crate) target: String,
}

#[derive(Deserialize)]
pub(crate) struct Healthcheck {
    #[serde(default)]
    pub(crate) test: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct Network {
    #[serde(default)]
    pub(crate) internal: bool,
}

#[derive(Deserialize)]
pub(crate) struct Source {
    pub(crate) file: PathBuf,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Mount {
    Name(String),
    At { source: String, target: PathBuf },
}

impl Mount {
    pub(crate) fn source(&self) -> &str {
        match self {
            Self::Name(source) | Self::At { source, .. } => source,
        }
    }
}

pub(crate) fn compose() -> Compose {
    serde_yaml_ng::from_str(&read("compose.yaml")).unwrap()
}
