//! Every statement about the side tables: what they are, and what is found by them.
//!
//! The side tables are temporary: the session that makes them is the only one that sees them, and they are gone with it.
//!
//! A row says by its `stream_seq` which event it is. So rows and events are brought together by that number (`pair`), which is
//! cheap, and nearly all of them are found equal there and then. What is left over on either side comes here. Its keys are
//! *suspect*, and only for those is the fold made, by the rule of `statements`.

use crate::statements::{answer_is_greater, winner_is_greater};

/// One row a replayed result that not both tables have a row for, in the columns that `answers` has, but for the response, and
/// in which of them its row stands; rows that are not the event that they name; one row a message to park; the times of
/// messages that are no results; ranges of sequences that hold nothing; rows whose response is not that of their event; results
/// that the database refused before.
pub(super) const CREATE: &str = "
create temp table replayed_results (
  stream_seq bigint not null, task_id text collate \"C\" not null, job_key text collate \"C\" not null, idempotency_key text,
  status text not null, created_at timestamptz, response_digest bytea not null, problem text, via text not null,
  received_at timestamptz not null, stands_in_answers boolean not null, stands_in_winners boolean not null);
create temp table odd_answers (stream_seq bigint not null, key text collate \"C\" not null);
create temp table odd_winners (stream_seq bigint not null, key text collate \"C\" not null);
create temp table replayed_parked (
  stream_seq bigint not null, subject text not null, task_id text, reason text not null, detail text,
  body_digest bytea not null, parked_at timestamptz not null);
create temp table others (stream_seq bigint not null, at timestamptz not null);
create temp table gone (first bigint primary key, last bigint not null);
create temp table unlike (task_id text collate \"C\" not null, stream_seq bigint not null);
create temp table refused (stream_seq bigint not null)";

pub(super) const COPY_RESULTS: &str = "
copy replayed_results (stream_seq, task_id, job_key, idempotency_key, status, created_at, response_digest, problem, via, received_at,
                       stands_in_answers, stands_in_winners)
from stdin (format binary)";
pub(super) const RESULT_COLUMNS: i16 = ANSWER_COLUMNS + 2;

pub(super) const COPY_ODD_ANSWERS: &str = "copy odd_answers (stream_seq, key) from stdin (format binary)";
pub(super) const COPY_ODD_WINNERS: &str = "copy odd_winners (stream_seq, key) from stdin (format binary)";
pub(super) const ODD_COLUMNS: i16 = 2;

/// The rows of `answers` in the order of their events. The columns are those of a replayed result, the key is the second.
pub(super) const ANSWERS_IN_ORDER: &str = "
copy (select stream_seq, task_id, job_key, idempotency_key, status, created_at, response_digest, problem, via, received_at
        from answers order by stream_seq) to stdout (format binary)";
pub(super) const ANSWER_COLUMNS: i16 = 10;

/// The same of `winners`.
pub(super) const WINNERS_IN_ORDER: &str = "
copy (select stream_seq, job_key, task_id, status, created_at from winners order by stream_seq) to stdout (format binary)";
pub(super) const WINNER_COLUMNS: i16 = 5;

pub(super) const COPY_PARKED: &str = "
copy replayed_parked (stream_seq, subject, task_id, reason, detail, body_digest, parked_at) from stdin (format binary)";
pub(super) const PARKED_COLUMNS: i16 = 7;

pub(super) const COPY_OTHERS: &str = "copy others (stream_seq, at) from stdin (format binary)";
pub(super) const OTHER_COLUMNS: i16 = 2;

pub(super) const GONE: &str =
    "insert into gone select * from unnest($1::bigint[], $2::bigint[]) on conflict do nothing";

/// A row that names an event has its response, whenever it is looked at. Compared by their bytes as Postgres holds them: by
/// value, 1.0 would be 1.
pub(super) const UNLIKE: &str = "
select a.stream_seq, a.task_id
  from unnest($1::text[], $2::bigint[], $3::jsonb[]) as e (task_id, stream_seq, response)
  join answers a on a.task_id = e.task_id and a.stream_seq = e.stream_seq
 where not record_image_eq(row(a.response), row(e.response))";

pub(super) const COPY_UNLIKE: &str = "copy unlike (stream_seq, task_id) from stdin (format binary)";
pub(super) const UNLIKE_COLUMNS: i16 = 2;

/// The planner knows nothing of a temporary table that nobody analyzed.
pub(super) const ANALYZE: &str = "
analyze replayed_results; analyze replayed_parked; analyze others; analyze gone; analyze unlike; analyze odd_answers;
analyze odd_winners";

/// What is looked at must be of one moment.
pub(super) const BEGIN_COMPARING: &str = "
begin isolation level repeatable read; set local work_mem = '64MB'; set local jit = off";

/// Chooses the moment, and gives a name by which other sessions can look at the same one.
pub(super) const MOMENT: &str = "select pg_export_snapshot()";

/// Looks at the moment of another session.
pub(super) fn begin_reading(moment: &str) -> String {
    format!(
        "begin isolation level repeatable read read only; set transaction snapshot '{moment}';
         set local work_mem = '64MB'; set local jit = off"
    )
}

/// What the database refused to hold is listed in `parked`, and that is where it belongs; unless it took it after all.
pub(super) const REFUSED: &str = "
with taken as (
  delete from replayed_results e using parked p
   where p.stream_created = $1 and p.reason = 'database_refuses' and p.stream_seq = e.stream_seq
     and p.parked_at >= e.received_at
     and not exists (select from answers a where a.task_id = e.task_id and a.stream_seq = e.stream_seq)
  returning e.stream_seq, e.received_at),
noted as (insert into others select stream_seq, received_at from taken)
insert into refused select stream_seq from taken";

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
    order: "status = 'COMPLETED' desc, coalesce(created_at, '-infinity') desc, task_id desc, stream_seq",
    best_is_greater: winner_is_greater!("b", "l"),
    due_is_greater: winner_is_greater!("d", "l"),
    before: "exists (select from answers a where a.task_id = r.task_id and a.received_at < $4)",
    reused: "exists (select from answers a where a.task_id = r.task_id
               and (a.received_at < o.at or a.received_at < x.received_at and (r.job_key, r.task_id) <> (x.job_key, x.task_id)))",
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

/// Events that were not kept, since both tables have a row for them, and are needed all the same: for the fold of a suspect key, or
/// beside what else names them. Up to the end of the replay, `$1`, a row that is not odd is the event that it names.
pub(super) const BRING_BACK: &str = "
insert into replayed_results
select a.stream_seq, a.task_id, a.job_key, a.idempotency_key, a.status, a.created_at, a.response_digest, a.problem, a.via,
       a.received_at, true, true
  from (select task_id from suspect_answers
        union
        select a.task_id from suspect_winners w join answers a on a.job_key = w.job_key
        union
        select a.task_id
          from (select stream_seq from odd_answers union select stream_seq from odd_winners union select stream_seq from parked) s
          join answers a on a.stream_seq = s.stream_seq) wanted
  join answers a on a.task_id = wanted.task_id
 where a.stream_seq <= $1
   and not exists (select from odd_answers o where o.key = a.task_id)
   and not exists (select from replayed_results e where e.stream_seq = a.stream_seq)";

pub(super) const CREATE_FOUND_PARKED: &str = "
create temp table found_parked (
  stream_created timestamptz not null, key text collate \"C\" not null, row_seq bigint, event_seq bigint, finding text not null)";

/// The same for `parked`, whose rows stand for one event each: `$5` is when the stream was created.
pub(super) const FIND_PARKED: &str = "
with pairs as (
  select p.stream_seq as row_seq, e.stream_seq as event_seq, p.reason,
         coalesce(p.parked_at < x.received_at, false)
           or coalesce(p.parked_at < o.at and sha256(p.body) is distinct from e.body_digest, false) as reused,
         coalesce((select g.last from gone g where g.first <= p.stream_seq order by g.first desc limit 1) >= p.stream_seq, false)
           as gone
    from (select * from parked where stream_created = $5) p
    full join replayed_parked e on e.stream_seq = p.stream_seq
    left join replayed_results x on x.stream_seq = p.stream_seq
    left join others o on o.stream_seq = p.stream_seq
   where p.stream_seq is null or e.stream_seq is null
      or (p.subject, p.task_id, p.reason, p.detail, sha256(p.body), p.parked_at)
           is distinct from (e.subject, e.task_id, e.reason, e.detail, e.body_digest, e.parked_at)),
found as (
  select $5::timestamptz as stream_created, row_seq, event_seq,
         case when row_seq is null and event_seq <= $2 then 'missing'
              when row_seq is null then 'pending'
              when reused then 'unproven'
              when event_seq is not null then 'wrong'
              when reason = 'database_refuses' and row_seq in (select stream_seq from refused) then null
              when row_seq > $1 and row_seq <= $3 then null
              when gone or $4 = 'infinity'::timestamptz then 'unproven'
              when row_seq > $3 then 'invented'
              else 'not_on_stream' end as finding
    from pairs
  union all
  select stream_created, stream_seq, null, 'unproven' from parked where stream_created <> $5)
insert into found_parked
select stream_created, coalesce(row_seq, event_seq)::text, row_seq, event_seq, finding from found where finding is not null";

/// Rows of a table at the moment of comparison.
pub(super) fn count(table: &str) -> String {
    format!("select count(*) from {table}")
}

/// How many there are of each finding, and a few of each.
pub(super) fn findings(table: &str) -> String {
    format!(
        "select finding, total, key, row_seq, event_seq
           from (select f.*, count(*) over (partition by finding) as total,
                        row_number() over (partition by finding order by key) as place
                   from found_{table} f) f
          where place <= $1 order by finding, place"
    )
}
