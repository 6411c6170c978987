//! The way to Postgres, for every program that holds rows: where the database is ([`DatabaseArgs`]) and what is asked of it ([`LoadArgs`]), connections with or
//! without TLS ([`Connector`]), transactions that stand on their own ([`Database`]), whether a database has the right
//! schema ([`check`]), and what a failure means ([`DatabaseError`]).
//!
//! It reads and writes no rows of ours: the statements for that belong to whoever owns the rows. All that it looks at is the version
//! of the schema, and whether `projection` was made anew.

mod args;
mod error;
mod fit;
mod pool;
mod session;
mod tls;

pub use args::{DatabaseArgs, LoadArgs, Target};
pub use error::{DatabaseError, Said, Trouble};
pub use fit::{FitError, Unfit, check, check_from};
pub use pool::{Database, Life, Limits};
pub use session::{Session, SessionError};
pub use tls::Connector;
