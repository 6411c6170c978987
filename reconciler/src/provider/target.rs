//! Where the provider is, and with which key it is asked.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use http::HeaderValue;
use reqwest::Url;
use service::{ConfigFaults, secret};

/// The bearer key; with `_FILE` at its end, names a file that holds it.
const KEY: &str = "PROVIDER_API_KEY";

/// How to reach the provider's API. The key comes from `PROVIDER_API_KEY`, or from the file that `PROVIDER_API_KEY_FILE`
/// names, and never from a flag.
#[derive(Debug, Clone, Args)]
#[command(
    next_help_heading = "Provider (its key comes from PROVIDER_API_KEY or from the file PROVIDER_API_KEY_FILE)"
)]
pub struct TargetArgs {
    /// Base URL of the provider's API.
    #[arg(
        long,
        env = "PROVIDER_URL",
        value_name = "URL",
        default_value = "https://api.answerline.dev"
    )]
    pub provider_url: String,
    /// Whether the URL may be plain http to another machine, where everybody on the way can read the key.
    #[arg(long, env = "PROVIDER_INSECURE_HTTP", value_name = "BOOL", action = clap::ArgAction::Set, default_value = "false")]
    pub provider_insecure_http: bool,
    /// More certificate authorities to trust, PEM; those of the system are trusted in any case.
    #[arg(long, env = "PROVIDER_CA", value_name = "FILE")]
    pub provider_ca: Option<PathBuf>,
    /// HTTP proxy on the way to the provider. HTTP_PROXY and its like are not looked at.
    // Text for now, and hidden, because it may hold a password, which clap would show.
    #[arg(long, env = "PROVIDER_PROXY", value_name = "URL", hide_env_values = true)]
    pub provider_proxy: Option<String>,
    /// Longest time for one call, body included.
    #[arg(id = "provider_request_timeout", long = "request-timeout", env = "REQUEST_TIMEOUT", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "30s")]
    pub request_timeout: Duration,
    /// Longest time that the provider is left alone for because it says so (`Retry-After`).
    #[arg(long, env = "MAX_RETRY_AFTER", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "300s")]
    pub max_retry_after: Duration,
}

/// A provider that can be asked.
#[derive(Debug, Clone)]
pub struct Target {
    /// Base URL, without a slash at its end.
    pub base: String,
    /// The header with the key, marked as a secret.
    pub authorization: HeaderValue,
    /// More authorities.
    pub authorities: Option<PathBuf>,
    /// A proxy.
    pub proxy: Option<Url>,
    /// Longest time for one call.
    pub request_timeout: Duration,
    /// Longest pause that is granted.
    pub max_retry_after: Duration,
}

impl TargetArgs {
    /// Checks URL and key. `environment` gives the value of a variable.
    pub fn check(
        &self,
        environment: &dyn Fn(&str) -> Option<OsString>,
        faults: &mut ConfigFaults,
    ) -> Option<Target> {
        faults.require(
            !self.request_timeout.is_zero(),
            "--request-timeout must not be zero",
        );
        faults.require(
            !self.max_retry_after.is_zero(),
            "--max-retry-after must not be zero",
        );
        let base = self.base(faults);
        let authorization = authorization(environment, faults);
        let proxy = self.proxy(faults);
        Some(Target {
            base: base?,
            authorization: authorization?,
            authorities: self.provider_ca.clone(),
            proxy,
            request_timeout: self.request_timeout,
            max_retry_after: self.max_retry_after,
        })
    }

    fn proxy(&self, faults: &mut ConfigFaults) -> Option<Url> {
        let url = self.provider_proxy.as_ref()?.parse::<Url>().ok();
        // The client passes over a proxy of another kind, and calls without it.
        let proxy = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        faults.require(proxy.is_some(), "--provider-proxy is no http or https URL");
        proxy
    }

    fn base(&self, faults: &mut ConfigFaults) -> Option<String> {
        // The text is not shown: somebody may have put a key into it.
        let Ok(url) = self.provider_url.parse::<Url>() else {
            faults.push("--provider-url is no URL");
            return None;
        };
        if !url.username().is_empty() || url.password().is_some() {
            faults.push("--provider-url must hold no user and no password");
            return None;
        }
        if url.query().is_some() || url.fragment().is_some() {
            faults.push("--provider-url must end with its path");
            return None;
        }
        match url.scheme() {
            "https" => {}
            "http" if self.provider_insecure_http || is_loopback(&url) => {}
            "http" => {
                faults.push("--provider-url is plain http, so the key could be read on the way: use https, or say --provider-insecure-http true");
                return None;
            }
            _ => {
                faults.push("--provider-url must be https");
                return None;
            }
        }
        Some(url.as_str().trim_end_matches('/').to_owned())
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}

fn authorization(
    environment: &dyn Fn(&str) -> Option<OsString>,
    faults: &mut ConfigFaults,
) -> Option<HeaderValue> {
    let key = match faults.take(secret::read(KEY, environment))? {
        Some((key, _)) if !key.expose().is_empty() => key,
        _ => {
            faults.push(
                "PROVIDER_API_KEY or PROVIDER_API_KEY_FILE is needed: the provider answers nobody without",
            );
            return None;
        }
    };
    if !key.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
        faults.push("PROVIDER_API_KEY must be visible ASCII characters without spaces");
        return None;
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))
        .expect("visible ASCII can stand in a header");
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, insecure: bool, key: Option<&str>) -> (Option<Target>, String) {
        let args = TargetArgs {
            provider_url: url.to_owned(),
            provider_insecure_http: insecure,
            provider_ca: None,
            provider_proxy: None,
            request_timeout: Duration::from_secs(1),
            max_retry_after: Duration::from_secs(1),
        };
        let environment = |name: &str| (name == KEY).then(|| key.map(OsString::from)).flatten();
        let mut faults = ConfigFaults::new();
        let target = args.check(&environment, &mut faults);
        (target, faults.to_string())
    }

    #[test]
    fn https_and_plain_http_to_this_machine_are_taken() {
        for (url, base) in [
            ("https://api.example", "https://api.example"),
            ("https://api.example/v9/", "https://api.example/v9"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("http://localhost", "http://localhost"),
        ] {
            let (target, faults) = check(url, false, Some("key"));
            assert_eq!(
                (target.map(|target| target.base).as_deref(), &*faults),
                (Some(base), "")
            );
        }
        assert!(check("http://10.0.0.1", true, Some("key")).0.is_some());
    }

    #[test]
    fn what_would_show_the_key_is_refused_without_showing_it() {
        for (url, fault) in [
            ("http://10.0.0.1", "plain http"),
            ("http://localhost.example", "plain http"),
            ("https://user:hunter2@api.example", "no user"),
            ("https://api.example?key=hunter2", "its path"),
            ("ftp://api.example", "https"),
            ("hunter2", "no URL"),
        ] {
            let (target, faults) = check(url, false, Some("hunter2"));
            assert!(target.is_none() && faults.contains(fault), "{url}: {faults}");
            assert!(!faults.contains("hunter2"), "{faults}");
        }
    }

    #[test]
    fn a_proxy_that_would_be_passed_over_is_refused_without_showing_it() {
        for (url, taken) in [
            ("http://user:hunter2@proxy:3128", true),
            ("https://proxy", true),
            ("ftp://user:hunter2@proxy", false),
            ("socks5://user:hunter2@proxy", false),
            ("user:hunter2@proxy:3128", false),
            ("http://user:hunter2@:3128", false),
        ] {
            let args = TargetArgs {
                provider_url: "https://api.example".to_owned(),
                provider_insecure_http: false,
                provider_ca: None,
                provider_proxy: Some(url.to_owned()),
                request_timeout: Duration::from_secs(1),
                max_retry_after: Duration::from_secs(1),
            };
            let mut faults = ConfigFaults::new();
            let target = args.check(&|name| (name == KEY).then(|| "key".into()), &mut faults);
            let faults = faults.to_string();
            assert_eq!(
                target.is_some_and(|target| target.proxy.is_some()),
                taken,
                "{url}"
            );
            assert_eq!(
                faults.contains("--provider-proxy is no"),
                !taken,
                "{url}: {faults}"
            );
            assert!(!faults.contains("hunter2"), "{faults}");
        }
    }

    #[test]
    fn a_key_is_needed_and_is_never_printed() {
        for key in [None, Some(""), Some("two words"), Some("line\nbreak"), Some("é")] {
            let (target, faults) = check("https://api.example", false, key);
            assert!(
                target.is_none() && faults.contains("PROVIDER_API_KEY"),
                "{key:?}: {faults}"
            );
        }
        let target = check("https://api.example", false, Some("hunter2")).0.unwrap();
        assert_eq!(target.authorization, "Bearer hunter2");
        assert!(!format!("{target:?}").contains("hunter2"));
    }
}
