//! Scheme, headers, key encoding and tolerance: how the provider signs.

use std::time::Duration;

use clap::ValueEnum;
use http::HeaderName;
use schemas::signature::{KeyEncoding, Scheme, SigningKey, Verifier};
use service::ConfigFaults;

/// Beyond a day a tolerance protects nothing.
const LONGEST_TOLERANCE: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Signatures")]
pub(super) struct SigningFlags {
    /// How deliveries are signed.
    #[arg(
        long,
        env = "SIGNATURE_SCHEME",
        value_name = "SCHEME",
        default_value = "stripe_list"
    )]
    pub(super) signature_scheme: SchemeName,

    /// Header that holds the signatures [default: webhook-signature for stripe_list; needed for split_header].
    #[arg(long, env = "SIGNATURE_HEADER", value_name = "NAME")]
    pub(super) signature_header: Option<HeaderName>,

    /// Header that holds the timestamp; for split_header alone, which needs it.
    #[arg(long, env = "TIMESTAMP_HEADER", value_name = "NAME")]
    pub(super) timestamp_header: Option<HeaderName>,

    /// What of a secret is the key.
    #[arg(
        long,
        env = "KEY_ENCODING",
        value_name = "ENCODING",
        default_value = "literal"
    )]
    pub(super) key_encoding: EncodingName,

    /// How far a signed timestamp may be from now, either way.
    #[arg(long, env = "TOLERANCE", value_name = "TIME", default_value = "300s", value_parser = humantime::parse_duration)]
    pub(super) tolerance: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum SchemeName {
    /// One header, `t=<unix seconds>,v1=<hex>[,v1=<hex>…]`
    StripeList,
    /// Standard Webhooks: webhook-id, webhook-timestamp, webhook-signature
    Standard,
    /// A header for the timestamp and one for the signature, `v1=<hex>`
    SplitHeader,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum EncodingName {
    /// The secret's text itself, a whsec_ at its start included
    Literal,
    /// What its Base64 stands for, without a whsec_ at its start
    Base64,
}

impl From<EncodingName> for KeyEncoding {
    fn from(name: EncodingName) -> Self {
        match name {
            EncodingName::Literal => Self::Literal,
            EncodingName::Base64 => Self::Base64,
        }
    }
}

/// The verifier, or none when something that it needs is at fault.
pub(super) fn verifier(
    flags: &SigningFlags,
    scheme: Option<Scheme>,
    keys: Option<Vec<SigningKey>>,
    faults: &mut ConfigFaults,
) -> Option<Verifier> {
    let tolerance = flags.tolerance.as_secs();
    faults.require(
        flags.tolerance <= LONGEST_TOLERANCE && tolerance > 0,
        format_args!(
            "--tolerance ({:?}) must be from 1 second to 1 day",
            flags.tolerance
        ),
    );
    let tolerance = i64::try_from(tolerance).unwrap_or(i64::MAX);
    faults.take(Verifier::new(scheme?, keys?, tolerance))
}

/// The scheme, or none when its headers are at fault.
pub(super) fn scheme(flags: &SigningFlags, faults: &mut ConfigFaults) -> Option<Scheme> {
    let (signature, timestamp) = (flags.signature_header.clone(), flags.timestamp_header.clone());
    match flags.signature_scheme {
        SchemeName::StripeList => {
            faults.require(
                timestamp.is_none(),
                "--timestamp-header: stripe_list has the timestamp in its one header",
            );
            let header = signature.unwrap_or(HeaderName::from_static("webhook-signature"));
            Some(Scheme::StripeList { header })
        }
        SchemeName::Standard => {
            faults.require(
                signature.is_none(),
                "--signature-header: the standard scheme fixes its header names",
            );
            faults.require(
                timestamp.is_none(),
                "--timestamp-header: the standard scheme fixes its header names",
            );
            Some(Scheme::Standard)
        }
        SchemeName::SplitHeader => {
            faults.require(
                signature.is_some(),
                "--signature-header is needed for split_header",
            );
            faults.require(
                timestamp.is_some(),
                "--timestamp-header is needed for split_header",
            );
            Some(Scheme::SplitHeader {
                timestamp: timestamp?,
                signature: signature?,
            })
        }
    }
}
