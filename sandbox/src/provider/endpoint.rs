//! Where deliveries go, and which URLs the provider refuses to deliver to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;
use thiserror::Error;

/// Why a delivery to a URL is dead before its first attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Undeliverable {
    /// It is not an absolute URL.
    #[error("the URL is not an absolute http or https URL")]
    NotAUrl,
    /// Its scheme is not https.
    #[error("the URL is not https")]
    NotHttps,
    /// Its host is not on the public internet.
    #[error("the URL does not lead to a public address")]
    NotPublic,
}

/// Whether the provider delivers to `url`. With `allow_loopback`, loopback hosts are taken too, over plain http as well:
/// that is what a sandbox is for.
///
/// A host name is judged by what it says. The provider also looks the name up; a state model does not.
pub fn check(url: &Uri, allow_loopback: bool) -> Result<(), Undeliverable> {
    let (Some(scheme), Some(host)) = (url.scheme_str(), url.host()) else {
        return Err(Undeliverable::NotAUrl);
    };
    let reach = Reach::of(host);
    match (scheme, reach) {
        ("http" | "https", Reach::Loopback) if allow_loopback => Ok(()),
        ("https", Reach::Public) => Ok(()),
        ("https", _) => Err(Undeliverable::NotPublic),
        ("http", _) => Err(Undeliverable::NotHttps),
        _ => Err(Undeliverable::NotAUrl),
    }
}

/// From where a host can be reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Loopback,
    Private,
    Public,
}

impl Reach {
    fn of(host: &str) -> Self {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            return match address {
                IpAddr::V4(v4) => Self::of_v4(v4),
                IpAddr::V6(v6) => Self::of_v6(v6),
            };
        }
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        let below = |zone: &str| name == zone || name.ends_with(&format!(".{zone}"));
        if below("localhost") {
            Self::Loopback
        } else if ["local", "internal", "home.arpa"].into_iter().any(below) || !name.contains('.') {
            Self::Private
        } else {
            Self::Public
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [a, b, c, _] = address.octets();
        let shared = a == 100 && (64..128).contains(&b);
        let benchmark = a == 198 && (18..20).contains(&b);
        let protocol = a == 192 && b == 0 && c == 0;
        let reserved = a == 0 || a >= 224; // "this" network, multicast, future use, broadcast
        if address.is_loopback() {
            Self::Loopback
        } else if address.is_private()
            || address.is_link_local()
            || address.is_documentation()
            || shared
            || benchmark
            || protocol
            || reserved
        {
            Self::Private
        } else {
            Self::Public
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        if let Some(v4) = address.to_ipv4_mapped() {
            return Self::of_v4(v4);
        }
        let [first, second, ..] = address.segments();
        let global_unicast = first & 0xe000 == 0x2000;
        let documentation = first == 0x2001 && second == 0x0db8;
        if address.is_loopback() {
            Self::Loopback
        } else if global_unicast && !documentation {
            Self::Public
        } else {
            Self::Private
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(url: &str, allow_loopback: bool) -> Result<(), Undeliverable> {
        check(&url.parse().unwrap(), allow_loopback)
    }

    #[test]
    fn only_public_https_is_delivered_to() {
        for url in [
            "https://hooks.example.com/answers",
            "https://93.184.215.14/",
            "https://[2606:2800::1]:8443/x",
        ] {
            assert_eq!(judge(url, false), Ok(()), "{url}");
        }
        for url in ["http://hooks.example.com/answers", "http://127.0.0.1/"] {
            assert_eq!(judge(url, false), Err(Undeliverable::NotHttps), "{url}");
        }
        for url in ["/answers", "ftp://hooks.example.com/", "hooks.example.com:443"] {
            assert_eq!(judge(url, false), Err(Undeliverable::NotAUrl), "{url}");
        }
    }

    #[test]
    fn https_to_a_host_that_is_not_public_is_refused() {
        let hosts = "127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1 \
                     255.255.255.255 192.0.2.1 198.18.0.1 [::1] [::] [fe80::1] [fd00::1] [ff02::1] [2001:db8::1] \
                     [::ffff:10.0.0.1] localhost app.localhost LOCALHOST. printer.local db.internal intranet";
        for host in hosts.split_whitespace() {
            assert_eq!(
                judge(&format!("https://{host}/hook"), false),
                Err(Undeliverable::NotPublic),
                "{host}"
            );
        }
    }

    #[test]
    fn the_switch_admits_loopback_and_nothing_else() {
        for url in [
            "http://127.0.0.1:8080/",
            "https://[::1]/",
            "http://localhost:8080/hook",
        ] {
            assert_eq!(judge(url, true), Ok(()), "{url}");
        }
        assert_eq!(judge("http://10.0.0.1/", true), Err(Undeliverable::NotHttps));
        assert_eq!(judge("https://10.0.0.1/", true), Err(Undeliverable::NotPublic));
    }
}
