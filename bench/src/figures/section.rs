//! Parts of a run.

use std::fmt;

use clap::ValueEnum;

/// A part of the run: what is in one is measured in turns, so that its figures can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Section {
    /// The sender by itself, against a server that does nothing.
    Sender,
    /// Deliveries of 2 KB over 1 to 256 connections: ingress in all its ways, and the receivers of the peers.
    Ingress,
    /// Deliveries of 20 KB.
    Large,
    /// Deliveries of which some, or all, are sent again.
    Repeats,
    /// Three brokers and three copies of the stream.
    Replicas,
    /// Deliveries at fixed rates, with latency from the time at which each was to be sent.
    Rates,
    /// The broker by itself: acknowledged publishes without HTTP.
    Broker,
    /// Events into rows: the projector, the workers of the peers, and the database by itself.
    Projector,
    /// From the sender's first byte to the row that others can see.
    Visible,
    /// Comparing the tables with the stream, filling them from it, and putting them right.
    Rebuild,
    /// Memory of ingress with many connections that do nothing.
    Memory,
    /// The same again with few and with many events stored.
    Growth,
    /// The peers with more and with fewer connections to the database: which of them is the best for each. Not part of a whole run.
    Tuning,
}

impl Section {
    /// Those of a whole run, in their order.
    pub const WHOLE: [Self; 12] = [
        Self::Sender,
        Self::Ingress,
        Self::Large,
        Self::Repeats,
        Self::Replicas,
        Self::Rates,
        Self::Broker,
        Self::Projector,
        Self::Visible,
        Self::Rebuild,
        Self::Memory,
        Self::Growth,
    ];
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no section is hidden");
        f.write_str(value.get_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_run_is_everything_but_the_choice_of_settings_for_the_peers() {
        let (last, others) = Section::value_variants().split_last().unwrap();
        assert_eq!((others, *last), (&Section::WHOLE[..], Section::Tuning));
    }
}
