//! Which database, and how to reach it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use service::{Chain, ConfigFaults, secret};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use crate::{Connector, Limits};

/// Holds the URL, with the password in it; with `_FILE` at its end, names a file that does.
const URL: &str = "DATABASE_URL";

const HEADING: &str = "Postgres (its URL comes from DATABASE_URL or from the file DATABASE_URL_FILE)";

/// A statement that has less than this fails on a busy server that is all right.
const LEAST_STATEMENT_TIMEOUT: Duration = Duration::from_millis(100);

/// How to reach Postgres. The URL itself is a secret: it comes from `DATABASE_URL`, or from the file that
/// `DATABASE_URL_FILE` names, and never from a flag.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = HEADING)]
pub struct DatabaseArgs {
    /// Certificate authorities (PEM). With them TLS is required and the server's certificate and name are checked;
    /// without them there is no TLS. `sslrootcert` in the URL does the same.
    #[arg(long, env = "DATABASE_CA", value_name = "FILE")]
    pub database_ca: Option<PathBuf>,
    /// Longest time for one attempt to connect.
    #[arg(long, env = "DATABASE_CONNECT_TIMEOUT", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "5s")]
    pub database_connect_timeout: Duration,
}

/// What is asked of Postgres at most.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = HEADING)]
pub struct LoadArgs {
    /// Longest time for one statement.
    #[arg(long, env = "STATEMENT_TIMEOUT", value_name = "TIME", value_parser = statement_timeout, default_value = "20s")]
    pub statement_timeout: Duration,
    /// Most connections to Postgres.
    #[arg(long, env = "DATABASE_POOL_SIZE", value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..), default_value_t = 4)]
    pub database_pool_size: usize,
}

impl LoadArgs {
    /// The limits of transactions with the database that `database` leads to.
    pub fn limits(&self, database: &DatabaseArgs) -> Limits {
        Limits {
            statement: self.statement_timeout,
            connect: database.database_connect_timeout,
        }
    }
}

fn statement_timeout(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time < LEAST_STATEMENT_TIMEOUT {
        return Err("must be at least 100ms".to_owned());
    }
    Ok(time)
}

/// A database that can be connected to.
#[derive(Debug, Clone)]
pub struct Target {
    /// Hosts, user, password, options.
    pub config: Config,
    /// Plain or TLS.
    pub connector: Connector,
    /// How long connecting may take.
    pub connect_timeout: Duration,
}

impl DatabaseArgs {
    /// Reads the URL and the files it names. `environment` gives the value of a variable.
    pub fn check(
        &self,
        environment: &dyn Fn(&str) -> Option<OsString>,
        faults: &mut ConfigFaults,
    ) -> Option<Target> {
        faults.require(
            !self.database_connect_timeout.is_zero(),
            "--database-connect-timeout must not be zero",
        );
        let url = match faults.take(secret::read(URL, environment))? {
            Some((url, _)) if !url.expose().trim().is_empty() => url,
            _ => {
                faults.push("DATABASE_URL or DATABASE_URL_FILE must name the database, e.g. postgres://projector@localhost/answers");
                return None;
            }
        };
        let url = Url::split(url.expose());
        // The parser's error never shows the URL, only the name of what it does not understand.
        let config = match url.rest.parse::<Config>() {
            Ok(config) => config,
            Err(error) => {
                faults.push(format!("DATABASE_URL: {}", Chain(&error)));
                return None;
            }
        };
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            faults.push("DATABASE_URL names no host");
        }
        self.target(config, &url, faults)
    }

    fn target(&self, mut config: Config, url: &Url, faults: &mut ConfigFaults) -> Option<Target> {
        let connector = match self.database_ca.as_ref().or(url.authorities.as_ref()) {
            Some(file) => {
                if config.get_ssl_mode() == SslMode::Disable {
                    faults.push("certificate authorities are given, but DATABASE_URL says sslmode=disable");
                }
                config.ssl_mode(SslMode::Require);
                faults.take(Connector::with_authorities(file))?
            }
            None if config.get_ssl_mode() == SslMode::Require => {
                faults.push("DATABASE_URL asks for TLS: name the certificate authorities with --database-ca");
                return None;
            }
            None => {
                config.ssl_mode(SslMode::Disable);
                Connector::Plain
            }
        };
        Some(Target {
            config,
            connector,
            connect_timeout: self.database_connect_timeout,
        })
    }
}

/// A URL without the parameters that libpq knows and our client does not.
struct Url {
    rest: String,
    authorities: Option<PathBuf>,
}

impl Url {
    /// Takes `sslrootcert` out, and turns the checking modes into `require`: here a certificate is always checked.
    fn split(url: &str) -> Self {
        let Some((base, query)) = url.trim().split_once('?') else {
            return Self {
                rest: url.trim().to_owned(),
                authorities: None,
            };
        };
        let mut authorities = None;
        let mut kept = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslrootcert", file)) => authorities = Some(PathBuf::from(file.replace("%2F", "/"))),
                Some(("sslmode", "verify-full" | "verify-ca")) => kept.push("sslmode=require"),
                _ => kept.push(parameter),
            }
        }
        let query = if kept.is_empty() {
            String::new()
        } else {
            format!("?{}", kept.join("&"))
        };
        Self {
            rest: format!("{base}{query}"),
            authorities,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: Option<&str>) -> (Option<Target>, String) {
        let args = DatabaseArgs {
            database_ca: None,
            database_connect_timeout: Duration::from_secs(1),
        };
        let environment = |name: &str| (name == URL).then(|| url.map(OsString::from)).flatten();
        let mut faults = ConfigFaults::new();
        let target = args.check(&environment, &mut faults);
        (target, faults.to_string())
    }

    #[test]
    fn a_time_in_which_no_statement_can_be_done_is_refused() {
        assert_eq!(statement_timeout("100ms"), Ok(LEAST_STATEMENT_TIMEOUT));
        for wrong in ["99ms", "0s", "20"] {
            assert!(statement_timeout(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_plain_url_connects_without_tls() {
        let (target, faults) = check(Some(
            "postgres://p:secret@db:5433/answers?options=-csearch_path%3Dmine",
        ));
        assert_eq!(faults, "");
        let target = target.unwrap();
        assert!(matches!(target.connector, Connector::Plain));
        assert_eq!(target.config.get_ssl_mode(), SslMode::Disable);
        assert_eq!(target.config.get_options(), Some("-csearch_path=mine"));
        assert_eq!(target.config.get_ports(), [5433]);
    }

    #[test]
    fn what_is_wrong_is_named_without_showing_the_password() {
        for (url, fault) in [
            (None, "DATABASE_URL or DATABASE_URL_FILE"),
            (Some(" "), "DATABASE_URL or DATABASE_URL_FILE"),
            (Some("postgres://p:hunter2@db/answers?nonsense=1"), "nonsense"),
            (
                Some("postgres://p:hunter2@db/answers?sslmode=require"),
                "--database-ca",
            ),
            (
                Some("postgres://p:hunter2@db/a?sslmode=verify-full&sslrootcert=/nowhere/ca.pem"),
                "/nowhere/ca.pem",
            ),
            (Some("user=p password=hunter2"), "no host"),
        ] {
            let (_, faults) = check(url);
            assert!(faults.contains(fault), "{url:?}: {faults}");
            assert!(!faults.contains("hunter2"), "{url:?}: {faults}");
        }
    }
}
