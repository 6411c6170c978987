//! Reading a request body within its bounds.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout, timeout_at};

use crate::admit::{FREE_BYTES, Room};

/// How long the rest of a refused body may take to arrive, so that its connection can be kept.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Why a body was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// It is longer than the limit.
    TooLarge,
    /// It was not there in time.
    TooSlow,
    /// The connection ended before the body did, or its framing is not HTTP.
    Broken,
    /// There is no room for more bytes.
    BudgetSpent,
}

/// Reads the whole body, at most `limit` bytes, by `deadline`. A body that arrives in one frame is not copied.
pub(crate) async fn read<B>(
    body: &mut B,
    limit: usize,
    deadline: Instant,
    room: &mut Room,
) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    timeout_at(deadline, read_all(body, limit, room))
        .await
        .unwrap_or(Err(BodyError::TooSlow))
}

async fn read_all<B>(body: &mut B, limit: usize, room: &mut Room) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut one = Bytes::new();
    let mut many = BytesMut::new();
    while !body.is_end_stream() {
        let Some(frame) = body.frame().await else { break };
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else {
            continue;
        };
        let held = one.len() + many.len() + data.len();
        if held > limit {
            return Err(BodyError::TooLarge);
        }
        room.hold(held).map_err(|_| BodyError::BudgetSpent)?;
        if held == data.len() {
            one = data;
            continue;
        }
        if many.is_empty() {
            many.reserve(expected(body, limit).saturating_add(held));
            many.extend_from_slice(&std::mem::take(&mut one));
        }
        many.extend_from_slice(&data);
    }
    Ok(if many.is_empty() { one } else { many.freeze() })
}

/// Bytes still to come, where the sender declared its length. Reserved memory costs nothing before it is written to, and what is
/// written was charged.
fn expected<B: Body>(body: &B, limit: usize) -> usize {
    let declared = body
        .size_hint()
        .exact()
        .and_then(|length| usize::try_from(length).ok());
    declared.filter(|length| *length <= limit).unwrap_or_default()
}

/// Takes the rest of a refused body off the connection; true when its end was reached, so that the connection can carry
/// the next request. A long or slow rest is not waited for: the sender loses its connection instead.
pub(crate) async fn drain<B>(body: &mut B) -> bool
where
    B: Body<Data = Bytes> + Unpin,
{
    let short = body
        .size_hint()
        .exact()
        .is_none_or(|length| length <= FREE_BYTES as u64);
    short && timeout(DRAIN_TIME, drain_all(body)).await.unwrap_or(false)
}

async fn drain_all<B>(body: &mut B) -> bool
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut left = FREE_BYTES;
    while !body.is_end_stream() {
        match body.frame().await {
            None => return true,
            Some(Err(_)) => return false,
            Some(Ok(frame)) => match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(rest) => left = rest,
                None => return false,
            },
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body::Frame;
    use http_body_util::{Full, StreamBody};
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;
    use crate::admit::Gate;

    fn room(bytes: usize) -> Room {
        Gate::new((1, Gauge::default()), (bytes, Gauge::default()))
            .enter()
            .unwrap()
    }

    fn frames(sizes: &[usize]) -> impl Body<Data = Bytes, Error = Infallible> + Unpin + use<> {
        let frames: Vec<_> = sizes
            .iter()
            .map(|size| Ok(Frame::data(Bytes::from(vec![b'x'; *size]))))
            .collect();
        StreamBody::new(futures_util::stream::iter(frames))
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    #[tokio::test]
    async fn one_frame_is_handed_on_without_a_copy() {
        let sent = Bytes::from_static(b"{}");
        let read = read(&mut Full::new(sent.clone()), 2, soon(), &mut room(0))
            .await
            .unwrap();
        assert_eq!(read.as_ptr(), sent.as_ptr());
    }

    #[tokio::test]
    async fn the_limit_is_the_last_length_that_passes() {
        for (sizes, limit, read_ok) in [
            (&[3, 4][..], 7, true),
            (&[3, 4, 1], 7, false),
            (&[8], 7, false),
            (&[], 7, true),
        ] {
            let got = read(&mut frames(sizes), limit, soon(), &mut room(0)).await;
            let whole = sizes.iter().sum::<usize>();
            assert_eq!(
                got.map(|bytes| bytes.len()),
                if read_ok {
                    Ok(whole)
                } else {
                    Err(BodyError::TooLarge)
                }
            );
        }
    }

    #[tokio::test]
    async fn bytes_beyond_the_free_ones_are_charged_as_they_arrive() {
        let sizes = [FREE_BYTES, 10, 10];
        let got = read(&mut frames(&sizes), usize::MAX, soon(), &mut room(20)).await;
        assert_eq!(got.map(|bytes| bytes.len()), Ok(FREE_BYTES + 20));
        let got = read(&mut frames(&sizes), usize::MAX, soon(), &mut room(19)).await;
        assert_eq!(got, Err(BodyError::BudgetSpent));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_is_given_up_at_the_deadline() {
        let mut silent = StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>());
        assert_eq!(
            read(&mut silent, 9, soon(), &mut room(0)).await,
            Err(BodyError::TooSlow)
        );
        assert!(!drain(&mut silent).await);
    }

    #[tokio::test]
    async fn a_short_rest_is_drained_and_a_long_one_is_not() {
        assert!(drain(&mut frames(&[FREE_BYTES / 2, FREE_BYTES / 2])).await);
        assert!(!drain(&mut frames(&[FREE_BYTES, 1])).await);
        assert!(drain(&mut Full::new(Bytes::from(vec![0; FREE_BYTES]))).await);
        assert!(!drain(&mut Full::new(Bytes::from(vec![0; FREE_BYTES + 1]))).await);
    }
}
