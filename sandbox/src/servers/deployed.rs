//! The broker of a deployment: `deploy/nats.conf` as it is, with passwords made for the occasion.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{NatsOptions, NatsServer, ServerError};

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy");

/// A broker that runs `deploy/nats.conf`.
#[derive(Debug)]
pub struct DeployedNats {
    /// The broker.
    pub server: NatsServer,
    secrets: PathBuf,
    _dir: tempfile::TempDir,
}

impl DeployedNats {
    /// Starts one, with passwords of its own.
    ///
    /// # Errors
    /// When there is none to start.
    pub async fn start() -> Result<Self, ServerError> {
        Self::start_from(Path::new(DEPLOY)).await
    }

    /// Starts one from the `nats.conf` and the `make-secrets` of another directory than `deploy`.
    ///
    /// # Errors
    /// When there is none to start.
    pub async fn start_from(deploy: &Path) -> Result<Self, ServerError> {
        let dir = tempfile::tempdir().map_err(ServerError::io("making a directory for a broker"))?;
        let secrets = run_make_secrets(deploy, dir.path())?;
        let options = options(dir.path(), &deploy.join("nats.conf"))?;
        Ok(Self {
            server: NatsServer::start_with(options).await?,
            secrets,
            _dir: dir,
        })
    }

    /// The file that holds the password of `user`.
    pub fn password_file(&self, user: &str) -> PathBuf {
        self.secrets.join(format!("{user}.password"))
    }

    /// The password of `user`.
    ///
    /// # Panics
    /// When the deployment has no such user.
    pub fn password(&self, user: &str) -> String {
        password(&self.secrets, user).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Makes the password files of a deployment, in `secrets` below `dir`, and gives that directory.
///
/// # Errors
/// When `deploy/make-secrets` fails.
pub fn make_secrets(dir: &Path) -> Result<PathBuf, ServerError> {
    run_make_secrets(Path::new(DEPLOY), dir)
}

fn run_make_secrets(deploy: &Path, dir: &Path) -> Result<PathBuf, ServerError> {
    let secrets = dir.join("secrets");
    let made = Command::new("sh")
        .arg(deploy.join("make-secrets"))
        .arg(&secrets)
        .output()
        .and_then(|output| match output.status.success() {
            true => Ok(()),
            false => Err(std::io::Error::other(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )),
        });
    made.map_err(ServerError::io("running deploy/make-secrets"))?;
    Ok(secrets)
}

/// Options of a broker that runs a copy of the file `config` in `dir`, beside the secrets that it includes.
///
/// # Errors
/// When a file cannot be read or written.
pub fn options(dir: &Path, config: &Path) -> Result<NatsOptions, ServerError> {
    let copy = dir.join("nats.conf");
    fs::copy(config, &copy).map_err(ServerError::io(format!("copying {}", config.display())))?;
    Ok(NatsOptions {
        config: Some(copy),
        user: Some(("operator".to_owned(), password(&dir.join("secrets"), "operator")?)),
        ..NatsOptions::default()
    })
}

/// The password of `user`, of those in the directory `secrets`.
///
/// # Errors
/// When the deployment has no such user.
pub fn password(secrets: &Path, user: &str) -> Result<String, ServerError> {
    fs::read_to_string(secrets.join(format!("{user}.password")))
        .map_err(ServerError::io(format!("reading the password of {user}")))
}
