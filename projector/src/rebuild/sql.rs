//! The statements about the side tables: what they are, what goes into them, and what is found of `parked` by them. What is found of
//! the other two is in `shape`, and going through it in `found`.
//!
//! The side tables are temporary: the session that makes them is the only one that sees them, and they are gone with it.
//!
//! A row says by its `stream_seq` which event it is. So rows and events are brought together by that number (`pair`), which is
//! cheap, and nearly all of them are found equal there and then. What is left over on either side comes here. Its keys are
//! *suspect*, and only for those is the fold made, by the rule of `statements`.

/// What they are.
pub(super) const CREATE: &str = "
-- one row a replayed result that not both tables have a row for, in the columns that `answers` has, but for the response, and in
-- which of them its row stands
create temp table replayed_results (
  stream_seq bigint not null, task_id text collate \"C\" not null, job_key text collate \"C\" not null, idempotency_key text,
  status text not null, created_at timestamptz, response_digest bytea not null, problem text, via text not null,
  received_at timestamptz not null, stands_in_answers boolean not null, stands_in_winners boolean not null);
-- rows that are not the event that they name
create temp table odd_answers (stream_seq bigint not null, key text collate \"C\" not null);
create temp table odd_winners (stream_seq bigint not null, key text collate \"C\" not null);
-- one row a message to park
create temp table replayed_parked (
  stream_seq bigint not null, subject text not null, task_id text, reason text not null, detail text,
  body_digest bytea not null, parked_at timestamptz not null);
-- the times of messages that are no results
create temp table others (stream_seq bigint not null, at timestamptz not null);
-- ranges of sequences that hold nothing
create temp table gone (first bigint primary key, last bigint not null);
-- rows whose response is not that of their event
create temp table unlike (task_id text collate \"C\" not null, stream_seq bigint not null);
-- results that the database refused before
create temp table refused (stream_seq bigint not null, task_id text collate \"C\" not null)";

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

/// What the database refused to hold is listed in `parked`, and that is where it belongs; unless it took it after all. Such a
/// result wins no job, so a row of `winners` that says so is not what its event says.
pub(super) const REFUSED: &str = "
with taken as (
  delete from replayed_results e using parked p
   where p.stream_created = $1 and p.reason = 'database_refuses' and p.stream_seq = e.stream_seq
     and p.parked_at >= e.received_at
     and not exists (select from answers a where a.task_id = e.task_id and a.stream_seq = e.stream_seq)
  returning e.stream_seq, e.received_at, e.task_id, e.job_key, e.stands_in_winners),
noted as (insert into others select stream_seq, received_at from taken),
loose as (insert into odd_winners select stream_seq, job_key from taken where stands_in_winners)
insert into refused select stream_seq, task_id from taken";

/// Events that were not kept, since both tables have a row for them, and are needed all the same: for the fold of a suspect key,
/// or because an odd row or a parked message has the same sequence. Up to the end of the replay, `$1`, a row that is not odd is the
/// event that it names.
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
