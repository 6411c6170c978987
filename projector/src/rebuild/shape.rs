//! The statements by which rows of `answers` and `winners`, which are maxima over events, are held against the fold of those.

use crate::statements::{answer_is_greater, winner_is_greater, winners_first};

/// A table whose rows are maxima over events.
#[derive(Debug)]
pub(super) struct Shape {
    /// Its name.
    pub(super) table: &'static str,
    /// Its key.
    pub(super) key: &'static str,
    /// Its columns that an event decides, but for the response and `stream_seq`.
    columns: &'static [&'static str],
    /// The greatest event first.
    order: &'static str,
    /// Whether event `b` is greater than row `l`.
    best_is_greater: &'static str,
    /// Whether event `d` is greater than row `l`.
    due_is_greater: &'static str,
    /// Whether row `r` is of a time before the stream, `$4`.
    before: &'static str,
    /// Whether row `r` may be of an event that had the sequence before `x`, a result, or `o`, something else: of a stream that
    /// lost its end, which gives sequences out again. Such an event is always older than the one that is there now.
    reused: &'static str,
    /// Whether responses were compared.
    responses: bool,
}

pub(super) const ANSWERS: Shape = Shape {
    table: "answers",
    key: "task_id",
    columns: &[
        "task_id",
        "job_key",
        "idempotency_key",
        "status",
        "created_at",
        "response_digest",
        "problem",
        "via",
        "received_at",
    ],
    order: "status = 'COMPLETED' desc, coalesce(created_at, '-infinity') desc, response_digest desc, received_at, stream_seq",
    best_is_greater: answer_is_greater!("b", "l"),
    due_is_greater: answer_is_greater!("d", "l"),
    // The same result under the same sequence is this event, whatever time the row says.
    before: "r.received_at < $4
             and not coalesce((r.task_id, r.response_digest) = (x.task_id, x.response_digest), false)",
    reused: "coalesce(r.received_at < o.at, false)
             or coalesce(r.received_at < x.received_at and (r.task_id, r.response_digest) <> (x.task_id, x.response_digest), false)",
    responses: true,
};

/// A winner says no time of its own; it is as old as the row of its task.
pub(super) const WINNERS: Shape = Shape {
    table: "winners",
    key: "job_key",
    columns: &["job_key", "task_id", "status", "created_at"],
    order: winners_first!(),
    best_is_greater: winner_is_greater!("b", "l"),
    due_is_greater: winner_is_greater!("d", "l"),
    before: "exists (select from answers a where a.task_id = r.task_id and a.received_at < $4)",
    reused: "exists (select from answers a where a.task_id = r.task_id
               and (a.received_at < o.at or a.received_at < x.received_at and (r.job_key, r.task_id) <> (x.job_key, x.task_id)))
             and not exists (select from refused f where f.stream_seq = r.stream_seq and f.task_id = r.task_id)",
    responses: false,
};

impl Shape {
    fn list(&self, of: &str) -> String {
        let columns = self.columns.iter().map(|column| format!("{of}.{column}"));
        columns.collect::<Vec<_>>().join(", ")
    }

    /// Tables for what is found.
    pub(super) fn create(&self) -> String {
        let Self { table, key, .. } = self;
        format!(
            "create temp table suspect_{table} ({key} text collate \"C\" not null);
             create temp table events_of_{table} (like replayed_results);
             create temp table found_{table} (
               key text collate \"C\" not null, row_seq bigint, event_seq bigint, finding text not null, exact boolean not null)"
        )
    }

    /// The keys of rows that are not the event that they name, and of events that no row names.
    pub(super) fn suspects(&self) -> String {
        let Self { table, key, .. } = self;
        let unlike = if self.responses {
            "union select task_id from unlike"
        } else {
            ""
        };
        format!(
            "insert into suspect_{table}
             select key from odd_{table}
             union select {key} from replayed_results where not stands_in_{table}
             {unlike}"
        )
    }

    /// The events of those keys.
    pub(super) fn events(&self) -> String {
        let Self { table, key, .. } = self;
        format!(
            "insert into events_of_{table} select * from replayed_results e where e.{key} in (select {key} from suspect_{table})"
        )
    }

    /// What is found: `$1` the end of the replay, `$2` the sequence up to which everything must be in the tables, `$3` the
    /// end of the stream, read after the moment of comparison began, `$4` the time at which the stream begins.
    ///
    /// `best` is the fold of all events of a key, `due` of those that must be in; `proven` is a row that is the event it
    /// names. What is not proven is kept where it may come from an event that is no longer there.
    pub(super) fn find(&self) -> String {
        let Self {
            table,
            key,
            order,
            best_is_greater,
            due_is_greater,
            before,
            reused,
            ..
        } = self;
        let (row, event) = (self.list("r"), self.list("e"));
        let digest = if self.responses {
            ", r.response_digest, r.received_at"
        } else {
            ""
        };
        let (like, unlike) = if self.responses {
            (
                "and u.stream_seq is null",
                "left join unlike u on u.task_id = r.task_id and u.stream_seq = r.stream_seq",
            )
        } else {
            ("", "")
        };
        let task = if *key == "task_id" { "" } else { ", r.task_id" };
        format!(
            "with best as (
               select distinct on ({key}) * from events_of_{table} order by {key}, {order}),
             due as (
               select distinct on ({key}) * from events_of_{table} where stream_seq <= $2 order by {key}, {order}),
             live as (
               select r.{key}{task}, r.status, r.created_at, r.stream_seq{digest},
                      e.stream_seq is not null and ({row}) is not distinct from ({event}) {like} as proven,
                      {before} as before, {reused} as reused,
                      coalesce((select g.last from gone g where g.first <= r.stream_seq order by g.first desc limit 1)
                               >= r.stream_seq, false) as gone
                 from {table} r
                 left join events_of_{table} e on e.stream_seq = r.stream_seq
                 left join replayed_results x on x.stream_seq = r.stream_seq
                 left join others o on o.stream_seq = r.stream_seq
                 {unlike}
                where r.{key} in (select {key} from suspect_{table}))
             insert into found_{table}
             select s.{key}, l.stream_seq, b.stream_seq, f.finding,
                    f.finding in ('wrong', 'invented') and not l.proven and (f.place = 'here' or f.place = 'beyond')
               from suspect_{table} s
               left join live l on l.{key} = s.{key}
               left join best b on b.{key} = s.{key}
               left join due d on d.{key} = s.{key}
              cross join lateral (
                select case when l.{key} is null then 'nowhere'
                            when l.proven then 'proven'
                            when l.stream_seq > $1 and l.stream_seq <= $3 then 'newer'
                            when l.before or l.gone or l.reused then 'lost'
                            when l.stream_seq > $3 then 'beyond'
                            else 'here' end as place) p
              cross join lateral (
                select p.place, case
                  when p.place = 'nowhere' and d.{key} is not null then 'missing'
                  when p.place = 'nowhere' and b.{key} is not null then 'pending'
                  when p.place = 'nowhere' then null
                  when p.place = 'beyond' then 'invented'
                  when p.place = 'here' and b.{key} is null then 'not_on_stream'
                  when p.place = 'here' then 'wrong'
                  when d.{key} is not null and {due_is_greater} then 'wrong'
                  when b.{key} is not null and {best_is_greater} then 'pending'
                  when p.place = 'lost' then 'unproven' end as finding) f
              where f.finding is not null"
        )
    }
}
