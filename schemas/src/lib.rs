//! The contract: what the provider sends, what an event on the stream looks like, and which answer wins.
//!
//! Everything here is pure: no I/O and no clock. The one exception is `migrate`, which applies the SQL
//! migrations and is built only with the feature of that name.
//!
//! In the order in which data flows:
//!
//! 1. [`signature`] turns request headers and bytes into [`signature::Verified`] bytes, or a refusal.
//! 2. [`delivery`] reads a body: a result, a task that is not finished, a test, or the reason why no task
//!    can be read from it. [`json`] and [`timestamp`] do the parts that a general parser would get wrong.
//! 3. [`event`] names it for the stream: subject, message id, headers.
//! 4. [`digest`] tells whether two bodies are the same result, [`job_key`] which job a task belongs to,
//!    [`winner`] which event makes a row, and [`projection`] folds a set of events into those rows in the
//!    plainest way there is, for tests to compare the SQL with.
//! 5. [`version`] says which database schema this build runs on; the schema itself is `sql/`.
//!
//! `asyncapi.yaml`, `openapi.yaml` and `delivery.schema.json` say the same to those who do not read Rust. With the
//! feature `documents`, which tests build, `documents` holds what is sent and answered against them.

pub mod delivery;
pub mod digest;
#[cfg(feature = "documents")]
pub mod documents;
pub mod event;
pub mod job_key;
pub mod json;
#[cfg(feature = "migrate")]
pub mod migrate;
pub mod projection;
pub mod signature;
pub mod timestamp;
pub mod version;
pub mod winner;
