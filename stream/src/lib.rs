//! The log: one JetStream stream, how it is declared, appended to and consumed.
//!
//! [`connect`] gives a [`Connection`] that heals itself. [`declare`] makes sure that the stream is what the
//! promise of the whole system needs it to be. [`append`] puts events on it and says what became of each one.
//! [`consume`] takes them off again, at least once. [`read`] looks at what is there.
//!
//! Nothing here knows HTTP or a database; what an event is, the crate `schemas` says.

pub mod append;
pub mod connect;
pub mod consume;
pub mod declare;
pub mod read;
mod settings;
mod stored;

pub use append::{AppendError, AppendSettings, Appended, Appender};
pub use connect::{ConnectError, Connection};
pub use consume::{Consumer, ConsumerSpec, StoredEvent};
pub use declare::{DeclareError, Declared, StreamSpec};
pub use read::{ReadEvent, Reader};
pub use stored::UnreadableHeaders;
