//! Signing, the provider's side: for the sandbox, and for tests of the verifier.

use std::fmt::Write as _;

use base64::Engine as _;
use http::{HeaderName, HeaderValue};

use super::{SIGNATURE_BASE64, Scheme, SigningKey, UnixSeconds, header};

/// Signs `body` the way the provider does, with every key in `keys` (those valid at `timestamp`), and gives
/// the headers to send. `id` is the delivery's id; only Standard Webhooks sends and signs it.
///
/// # Panics
///
/// In Standard Webhooks, when `id` is not fit for a header.
pub fn sign(
    scheme: &Scheme,
    keys: &[SigningKey],
    id: &str,
    timestamp: UnixSeconds,
    body: &[u8],
) -> Vec<(HeaderName, HeaderValue)> {
    let timestamp = timestamp.to_string();
    let prefix: [&[u8]; 2] = [timestamp.as_bytes(), b"."];
    match scheme {
        Scheme::StripeList { header } => {
            let mut list = format!("t={timestamp}");
            for key in keys {
                write!(list, ",v1={}", hex::encode(key.mac(&prefix, body)))
                    .expect("writing to a string cannot fail");
            }
            vec![(header.clone(), header_value(list))]
        }
        Scheme::Standard => {
            let prefix: [&[u8]; 4] = [id.as_bytes(), b".", prefix[0], prefix[1]];
            let signed = |key: &SigningKey| format!("v1,{}", SIGNATURE_BASE64.encode(key.mac(&prefix, body)));
            let list = keys.iter().map(signed).collect::<Vec<_>>().join(" ");
            vec![
                (header::ID, header_value(id.to_owned())),
                (header::TIMESTAMP, header_value(timestamp)),
                (header::SIGNATURE, header_value(list)),
            ]
        }
        Scheme::SplitHeader {
            timestamp: timestamp_header,
            signature,
        } => {
            let signed = |key: &SigningKey| format!("v1={}", hex::encode(key.mac(&prefix, body)));
            let list = keys.iter().map(signed).collect::<Vec<_>>().join(",");
            vec![
                (timestamp_header.clone(), header_value(timestamp)),
                (signature.clone(), header_value(list)),
            ]
        }
    }
}

fn header_value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("made of ASCII without control characters")
}
