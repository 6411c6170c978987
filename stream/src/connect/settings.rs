//! How to reach the broker: flags and environment variables, the same for every program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};
use clap::Args;
use service::Chain;

use super::{ConnectError, Password};
use crate::settings::{subject_prefix, time};

/// How to reach the broker.
///
/// The password comes from `NATS_PASSWORD` or from the file that `NATS_PASSWORD_FILE` names, never from a flag.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "NATS")]
pub struct Settings {
    /// Servers of the cluster, separated by commas.
    #[arg(
        long = "nats-url",
        env = "NATS_URL",
        // It may hold a password.
        hide_env_values = true,
        value_name = "URL",
        value_delimiter = ',',
        default_value = "nats://127.0.0.1:4222"
    )]
    pub urls: Vec<String>,

    /// User name; the password comes from NATS_PASSWORD or the file named by NATS_PASSWORD_FILE.
    #[arg(long = "nats-user", env = "NATS_USER", value_name = "NAME")]
    pub user: Option<String>,

    /// The password.
    #[command(flatten)]
    pub password: Password,

    /// File that holds the password; one line break at its end is ignored.
    #[arg(long = "nats-password-file", env = "NATS_PASSWORD_FILE", value_name = "FILE")]
    pub password_file: Option<PathBuf>,

    /// Credentials file (JWT and seed), instead of user and password.
    #[arg(
        long = "nats-creds",
        env = "NATS_CREDS",
        value_name = "FILE",
        conflicts_with = "user"
    )]
    pub credentials: Option<PathBuf>,

    /// Certificate authorities to trust, PEM. Makes TLS mandatory. Without it a `tls://` URL trusts the system's.
    #[arg(long = "nats-ca", env = "NATS_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// Certificate to show to the server, PEM.
    #[arg(long = "nats-cert", env = "NATS_CERT", value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,

    /// Private key of the certificate, PEM.
    #[arg(long = "nats-key", env = "NATS_KEY", value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,

    /// Prefix of the subjects that the server answers on; a user with few rights has one of its own.
    #[arg(
        long = "nats-inbox-prefix",
        env = "NATS_INBOX_PREFIX",
        value_name = "SUBJECT",
        default_value = "_INBOX",
        value_parser = subject_prefix
    )]
    pub inbox_prefix: String,

    /// Prefix of the requests to JetStream, where an account imports them under another name.
    #[arg(
        long = "nats-api-prefix",
        env = "NATS_API_PREFIX",
        value_name = "SUBJECT",
        default_value = "$JS.API",
        value_parser = subject_prefix
    )]
    pub api_prefix: String,

    /// Longest time for one attempt to connect.
    #[arg(long = "nats-connect-timeout", env = "NATS_CONNECT_TIMEOUT", value_name = "TIME", default_value = "5s", value_parser = time)]
    pub connect_timeout: Duration,

    /// Longest time for one request to JetStream, other than an append.
    #[arg(long = "nats-request-timeout", env = "NATS_REQUEST_TIMEOUT", value_name = "TIME", default_value = "5s", value_parser = time)]
    pub request_timeout: Duration,

    /// Time between pings; a mute connection is given up after three of them.
    #[arg(long = "nats-ping-interval", env = "NATS_PING_INTERVAL", value_name = "TIME", default_value = "5s", value_parser = time)]
    pub ping_interval: Duration,
}

impl Settings {
    /// The defaults, for one server.
    pub fn for_url(url: impl Into<String>) -> Self {
        Self {
            urls: vec![url.into()],
            user: None,
            password: Password::none(),
            password_file: None,
            credentials: None,
            ca: None,
            cert: None,
            key: None,
            inbox_prefix: "_INBOX".to_owned(),
            api_prefix: "$JS.API".to_owned(),
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(5),
            ping_interval: Duration::from_secs(5),
        }
    }

    /// With this user and password.
    #[must_use]
    pub fn with_user(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self.password = Password::of(password);
        self
    }

    /// What is wrong with the settings or with the files that they name, one line a fault, so that a program can name
    /// all of them before it starts.
    pub fn faults(&self) -> Vec<String> {
        let given =
            |what, path: &Option<PathBuf>| path.as_deref().map_or(Ok(()), |path| readable(what, path));
        [
            self.servers().map(drop),
            self.login().map(drop),
            given("NATS credentials", &self.credentials),
            given("certificate authorities", &self.ca),
            given("a certificate", &self.cert),
            given("a private key", &self.key),
        ]
        .into_iter()
        .filter_map(Result::err)
        .map(|fault| Chain(&fault).to_string())
        .collect()
    }

    pub(super) fn servers(&self) -> Result<Vec<ServerAddr>, ConnectError> {
        if self.urls.iter().all(|url| url.trim().is_empty()) {
            return Err(ConnectError::Settings("NATS_URL names no server"));
        }
        self.urls
            .iter()
            .map(|url| {
                url.trim().parse().map_err(|source| ConnectError::Url {
                    url: without_credentials(url),
                    source,
                })
            })
            .collect()
    }

    /// The servers, fit for a log line.
    pub(super) fn shown_servers(&self) -> String {
        self.urls
            .iter()
            .map(|url| without_credentials(url))
            .collect::<Vec<_>>()
            .join(",")
    }

    pub(super) async fn apply(&self, options: ConnectOptions) -> Result<ConnectOptions, ConnectError> {
        let mut options = options
            .connection_timeout(self.connect_timeout)
            .request_timeout(Some(self.request_timeout))
            .ping_interval(self.ping_interval)
            .custom_inbox_prefix(&self.inbox_prefix);
        if let Some((user, password)) = self.login()? {
            options = options.user_and_password(user, password);
        }
        if let Some(path) = &self.credentials {
            options = options
                .credentials_file(path)
                .await
                .map_err(file("NATS credentials", path))?;
        }
        if let Some(path) = &self.ca {
            readable("certificate authorities", path)?;
            options = options.add_root_certificates(path.clone()).require_tls(true);
        }
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            readable("a certificate", cert)?;
            readable("a private key", key)?;
            options = options.add_client_certificate(cert.clone(), key.clone());
        }
        Ok(options)
    }

    fn login(&self) -> Result<Option<(String, String)>, ConnectError> {
        let password = self.password.or_in(self.password_file.as_deref())?;
        let Some(user) = self.user.clone() else {
            return Ok(None);
        };
        let password = password.ok_or(ConnectError::Settings(
            "NATS_USER is set, but neither NATS_PASSWORD nor NATS_PASSWORD_FILE",
        ))?;
        Ok(Some((user, password.expose().to_owned())))
    }
}

fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ConnectError {
    let path = path.display().to_string();
    move |source| ConnectError::File { what, path, source }
}

/// The client reads these files only when it connects, and calls a missing one an I/O error like any outage.
fn readable(what: &'static str, path: &Path) -> Result<(), ConnectError> {
    fs::File::open(path).map(drop).map_err(file(what, path))
}

/// A URL without the user and password that may stand before its `@`.
fn without_credentials(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        (None, Some((_, host))) => host.to_owned(),
        (_, None) => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        nats: Settings,
    }

    #[test]
    fn the_defaults_of_the_flags_are_those_of_the_constructor() {
        let parsed = <Program as clap::Parser>::parse_from(["program"]).nats;
        let built = Settings::for_url("nats://127.0.0.1:4222");
        assert_eq!(format!("{parsed:?}"), format!("{built:?}"));
    }

    #[test]
    fn no_flag_takes_a_password() {
        let command = <Program as clap::CommandFactory>::command();
        let named = |arg: &Arg| arg.get_long().is_some_and(|long| long.contains("password"));
        let flags: Vec<_> = command
            .get_arguments()
            .filter(|arg| named(arg))
            .map(Arg::get_long)
            .collect();
        assert_eq!(flags, [Some("nats-password-file")]);
    }

    #[test]
    fn all_faults_are_named_at_once() {
        let nowhere = || Some(PathBuf::from("/nowhere/file"));
        let settings = Settings {
            urls: vec!["nats://a b".to_owned()],
            user: Some("bob".to_owned()),
            credentials: nowhere(),
            ca: nowhere(),
            cert: nowhere(),
            key: nowhere(),
            ..Settings::for_url("")
        };
        let faults = settings.faults();
        assert_eq!(faults.len(), 6, "{faults:?}");
        assert!(faults[1].starts_with("NATS_USER is set"), "{}", faults[1]);
        let missing = faults
            .iter()
            .filter(|fault| fault.contains("/nowhere/file: No such file"));
        assert_eq!(missing.count(), 4, "{faults:?}");
        assert_eq!(Settings::for_url("nats://a").faults(), [""; 0]);
    }

    #[test]
    fn debug_and_log_lines_hold_no_secret() {
        let settings = Settings::for_url("nats://bob:hunter2@broker:4222").with_user("bob", "hunter2");
        assert_eq!(settings.shown_servers(), "nats://broker:4222");
        assert!(!format!("{:?}", settings.password).contains("hunter2"));
    }
}
