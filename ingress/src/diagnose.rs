//! A hint for setting up: does a refused signature look like one of another scheme?

use http::HeaderMap;
use schemas::signature::Scheme;

/// Whether the signature header has the grammar of another scheme than `scheme`. Of no weight for what is accepted.
pub(crate) fn wrong_scheme_suspected(scheme: &Scheme, headers: &HeaderMap) -> bool {
    let value = |name: &str| {
        headers
            .get(name)
            .map(|value| value.as_bytes().trim_ascii())
            .unwrap_or_default()
    };
    match scheme {
        Scheme::StripeList { header } => is_standard(value(header.as_str())),
        Scheme::Standard => is_list(value("webhook-signature")),
        Scheme::SplitHeader { signature, .. } => {
            let value = value(signature.as_str());
            is_standard(value) || value.starts_with(b"t=")
        }
    }
}

/// `t=…` or `…v1=…`
fn is_list(value: &[u8]) -> bool {
    value.starts_with(b"t=") || value.windows(3).any(|part| part == b"v1=")
}

/// `v1,…`, `v1a,…` and later versions.
fn is_standard(value: &[u8]) -> bool {
    let Some(rest) = value.strip_prefix(b"v") else {
        return false;
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = &rest[digits..];
    digits > 0 && rest.strip_prefix(b"a").unwrap_or(rest).starts_with(b",")
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    const NAME: HeaderName = HeaderName::from_static("webhook-signature");

    fn suspected(scheme: &Scheme, value: &'static str) -> bool {
        wrong_scheme_suspected(
            scheme,
            &HeaderMap::from_iter([(NAME, HeaderValue::from_static(value))]),
        )
    }

    #[test]
    fn a_value_in_the_grammar_of_another_scheme_is_suspected_and_its_own_is_not() {
        let list = Scheme::StripeList { header: NAME };
        for (value, looks_standard, looks_list) in [
            ("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", true, false),
            ("v1a,hnO3", true, false),
            ("v12a,x", true, false),
            ("t=1,v1=00", false, true),
            ("v1=00,t=1", false, true),
            ("v,x", false, false),
            ("va,x", false, false),
            ("", false, false),
        ] {
            assert_eq!(suspected(&list, value), looks_standard, "{value}");
            assert_eq!(suspected(&Scheme::Standard, value), looks_list, "{value}");
        }
        assert!(!wrong_scheme_suspected(&list, &HeaderMap::new()));
    }
}
