//! Room for as many sockets as the system allows.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::warn;

/// Descriptors for everything but the connections of senders: the listeners, the broker, the admin port, the runtime.
const OTHERS: u64 = 64;

/// Raises the soft limit of open descriptors to the hard one, and says so when even that is too few for `connections`.
///
/// The soft limit is 1,024 on many systems, kept low for programs that cannot handle a number above it. This one can.
pub(crate) fn raise_limit(connections: usize) {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft < hard {
            setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
        }
        Ok(hard)
    });
    match raised {
        Ok(most) if most < connections as u64 + OTHERS => {
            warn!(
                descriptors = most,
                connections, "the system allows fewer descriptors than --max-connections needs"
            );
        }
        Ok(_) => {}
        Err(error) => warn!(%error, "cannot raise the limit of open descriptors"),
    }
}
