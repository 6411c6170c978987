//! Room for as many sockets as the system allows.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::warn;

/// Descriptors for everything but the connections of senders: the listeners, the broker, the admin port, the runtime.
const OTHERS: u64 = 64;

/// Raises the soft limit of open descriptors to the hard one. Returns how many connections of senders there may be: `wanted`, or
/// fewer, and says so, where the system allows too few descriptors. Senders that took the last one would cut the process off
/// from the broker and from whoever asks how it is.
///
/// The soft limit is 1,024 on many systems, kept low for programs that cannot handle a number above it. This one can.
pub(crate) fn raise_limit(wanted: usize) -> usize {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft < hard {
            setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
        }
        Ok(hard)
    });
    match raised {
        Ok(descriptors) => {
            let connections = connections(wanted, descriptors);
            if connections < wanted {
                warn!(
                    descriptors,
                    connections,
                    "the system allows fewer descriptors than --max-connections needs; taking fewer connections"
                );
            }
            connections
        }
        Err(error) => {
            warn!(%error, "cannot raise the limit of open descriptors");
            wanted
        }
    }
}

/// As many as wanted, as long as they leave enough descriptors to the others: half, where there are very few.
fn connections(wanted: usize, descriptors: u64) -> usize {
    let most = descriptors - OTHERS.min(descriptors / 2);
    usize::try_from(most).map_or(wanted, |most| wanted.min(most.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_to_the_broker_and_the_admin_port() {
        assert_eq!(connections(4096, 20_000), 4096);
        assert_eq!(connections(4096, 1024), 1024 - 64);
        assert_eq!(connections(4096, 64), 32);
        assert_eq!(connections(usize::MAX, 1), 1);
        assert_eq!(
            connections(usize::MAX, u64::MAX),
            usize::try_from(u64::MAX - 64).unwrap()
        );
    }
}
