//! The webhook secrets: `WEBHOOK_SECRETS`, or the file that `WEBHOOK_SECRETS_FILE` names.
//!
//! During a rotation it holds both secrets, the new one first: metrics show by place which one a delivery was signed
//! with.

use std::ffi::OsString;

use schemas::signature::{KeyEncoding, SigningKey};
use service::ConfigFaults;
use service::secret::{self, Origin};

use super::signing::EncodingName;

const VARIABLE: &str = "WEBHOOK_SECRETS";

/// The keys, or none when a secret is missing or unusable. No fault shows a secret.
pub(super) fn read(
    encoding: EncodingName,
    environment: &dyn Fn(&str) -> Option<OsString>,
    faults: &mut ConfigFaults,
) -> Option<Vec<SigningKey>> {
    let (text, origin) = match faults.take(secret::read(VARIABLE, environment))? {
        Some(found) => found,
        None => {
            faults.push(format_args!(
                "{VARIABLE} or {VARIABLE}_FILE is needed: no delivery can be checked without"
            ));
            return None;
        }
    };
    let (name, separator) = match origin {
        Origin::Variable => (VARIABLE, ","),
        Origin::File => ("WEBHOOK_SECRETS_FILE", "\n"),
    };
    let encoding = KeyEncoding::from(encoding);
    let mut keys = Some(Vec::new());
    for (place, secret) in (1..).zip(text.expose().split(separator)) {
        let secret = if origin == Origin::File {
            secret.strip_suffix('\r').unwrap_or(secret)
        } else {
            secret
        };
        match SigningKey::new(secret, encoding) {
            Ok(key) => keys.iter_mut().for_each(|keys| keys.push(key.clone())),
            Err(reason) => {
                faults.push(format_args!("{name}: secret {place}: {reason}"));
                keys = None;
            }
        }
    }
    keys
}
