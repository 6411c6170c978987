//! The winner rule of `schemas::winner` in SQL, of any two things that have the columns of an event. A property test holds the
//! two equal.

/// Whether event `$new` stands above row `$old` of its task. Of copies, which have equal rank, the one with the earlier stream
/// timestamp gives the row, then the one with the lower sequence: on a live stream the copy that comes later never is, so it
/// rewrites nothing.
macro_rules! answer_is_greater {
    ($new:literal, $old:literal) => {
        concat!(
            "((",
            $new,
            ".status = 'COMPLETED', coalesce(",
            $new,
            ".created_at, '-infinity'), ",
            $new,
            ".response_digest)
     > (",
            $old,
            ".status = 'COMPLETED', coalesce(",
            $old,
            ".created_at, '-infinity'), ",
            $old,
            ".response_digest)
    or ((",
            $new,
            ".status, coalesce(",
            $new,
            ".created_at, '-infinity'), ",
            $new,
            ".response_digest)
      = (",
            $old,
            ".status, coalesce(",
            $old,
            ".created_at, '-infinity'), ",
            $old,
            ".response_digest)
        and (",
            $new,
            ".received_at, ",
            $new,
            ".stream_seq) < (",
            $old,
            ".received_at, ",
            $old,
            ".stream_seq)))"
        )
    };
}
pub(crate) use answer_is_greater;

/// Whether event `$new` stands above the event that made row `$old` the winner of its job.
macro_rules! winner_is_greater {
    ($new:literal, $old:literal) => {
        concat!(
            "((",
            $new,
            ".status = 'COMPLETED', coalesce(",
            $new,
            ".created_at, '-infinity'), ",
            $new,
            ".task_id)
     > (",
            $old,
            ".status = 'COMPLETED', coalesce(",
            $old,
            ".created_at, '-infinity'), ",
            $old,
            ".task_id)
    or ((",
            $new,
            ".status, coalesce(",
            $new,
            ".created_at, '-infinity'), ",
            $new,
            ".task_id)
      = (",
            $old,
            ".status, coalesce(",
            $old,
            ".created_at, '-infinity'), ",
            $old,
            ".task_id)
        and ",
            $new,
            ".stream_seq < ",
            $old,
            ".stream_seq))"
        )
    };
}
pub(crate) use winner_is_greater;

/// The same as an order: the event that stands above all others of its job first.
macro_rules! winners_first {
    () => {
        "status = 'COMPLETED' desc, coalesce(created_at, '-infinity') desc, task_id desc, stream_seq"
    };
}
pub(crate) use winners_first;
