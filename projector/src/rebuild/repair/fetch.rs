//! Events read once more, because they are to be written: a few out of many.

use std::collections::HashSet;

use futures_util::{Stream, StreamExt, TryStreamExt};
use stream::read::ScanError;

use super::Repair;
use crate::decode::{Decoded, Message};
use crate::rebuild::RebuildError;
use crate::rebuild::replay::replay;

/// Events read one by one, at once. As many of the largest size are in memory together.
const AT_ONCE: usize = 8;
/// So many events close together are read as a range.
const RANGE: usize = 32;
/// Close is when of a range at least one in so many is needed.
const NEEDED: u64 = 4;

impl Repair<'_> {
    /// What these messages are, as far as the stream still holds them.
    pub(super) fn fetch(&self, seqs: &[u64]) -> impl Stream<Item = Result<Decoded, RebuildError>> {
        futures_util::stream::iter(together(seqs))
            .map(|part| match part {
                Part::Range(seqs) => self.fetch_range(seqs).left_stream(),
                Part::Each(seqs) => self.fetch_each(seqs).right_stream(),
            })
            .flatten()
    }

    fn fetch_range(&self, seqs: Vec<u64>) -> impl Stream<Item = Result<Decoded, RebuildError>> {
        let (first, last) = (seqs[0], seqs[seqs.len() - 1]);
        let wanted: HashSet<u64> = seqs.into_iter().collect();
        replay(self.intake.log, self.decoder, first, last, |_| ())
            .map_ok(move |(stretch, ())| {
                let events = stretch.events.into_iter();
                let wanted =
                    events.filter(|decoded| seq_of(decoded).is_some_and(|seq| wanted.contains(&seq)));
                futures_util::stream::iter(wanted.map(Ok::<_, ScanError>).collect::<Vec<_>>())
            })
            .try_flatten()
            .map_err(RebuildError::from)
    }

    fn fetch_each(&self, seqs: Vec<u64>) -> impl Stream<Item = Result<Decoded, RebuildError>> {
        futures_util::stream::iter(seqs)
            .map(async |seq| self.intake.log.reader.event(seq).await)
            .buffered(AT_ONCE)
            .map_err(RebuildError::from)
            .try_filter_map(async |event| Ok(event.map(|event| self.decoder.decode(Message::from(event)))))
    }
}

fn seq_of(decoded: &Decoded) -> Option<u64> {
    match decoded {
        Decoded::Result(row) => Some(row.provenance.stream_seq),
        Decoded::Parked(row) => Some(row.stream_seq),
        Decoded::NonFinal { .. } => None,
    }
}

/// Sequences to be read in one way.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// Close together.
    Range(Vec<u64>),
    /// Far apart.
    Each(Vec<u64>),
}

/// Divides ascending sequences into those that are close together and the others.
fn together(seqs: &[u64]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for run in seqs.chunk_by(|a, b| b - a <= NEEDED) {
        match (run.len() >= RANGE, parts.last_mut()) {
            (true, _) => parts.push(Part::Range(run.to_vec())),
            (false, Some(Part::Each(seqs))) => seqs.extend_from_slice(run),
            (false, _) => parts.push(Part::Each(run.to_vec())),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_close_together_is_read_as_a_range() {
        let close: Vec<u64> = (1_000..1_100).step_by(3).collect();
        let mut seqs = vec![1, 2, 500];
        seqs.extend(&close);
        seqs.push(2_000);
        assert_eq!(
            together(&seqs),
            [
                Part::Each(vec![1, 2, 500]),
                Part::Range(close),
                Part::Each(vec![2_000])
            ]
        );
        assert_eq!(together(&[]), []);
    }
}
