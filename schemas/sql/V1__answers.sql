-- Version 1. Published migrations are never edited: what must change gets a new file.
--
-- Names are unqualified on purpose: they land in the first schema of the connection's search_path, so two
-- deployments can share a database. Keys sort in byte order (collate "C"), the order of the winner rule.

create table answers (
  task_id         text collate "C" primary key,
  job_key         text collate "C" not null,
  idempotency_key text,
  status          text not null check (status in ('COMPLETED', 'FAILED')),
  created_at      timestamptz,
  response        jsonb compression lz4,
  response_digest bytea not null check (octet_length(response_digest) = 32),
  problem         text,
  via             text not null check (via in ('webhook', 'reconciler')),
  stream_seq      bigint not null,
  received_at     timestamptz not null
);

-- Serves reads of one job and the search for an idempotency key: its job key is computed first, so that
-- no second index on long random text has to be kept up at every insert.
create index answers_job_key on answers (job_key);

comment on table  answers                 is 'One row a task: its standing result. A function of the events on the stream; can be rebuilt from it at any time.';
comment on column answers.task_id         is 'The provider''s task id, as sent.';
comment on column answers.job_key         is 'The idempotency key without its rerun suffix; the task id where there is no key.';
comment on column answers.idempotency_key is 'As sent; null when the task was created without one, or with one that cannot be held (then see problem).';
comment on column answers.status          is 'COMPLETED or FAILED. A FAILED event never replaces a COMPLETED one.';
comment on column answers.created_at      is 'task.createdAt, cut to microseconds; null if it was no timestamp, before 2000, or over a day after the stream''s own timestamp.';
comment on column answers.response        is 'The result (COMPLETED) or the error (FAILED), as sent; null if it was absent or jsonb cannot hold it (then see problem). The exact bytes are on the stream, at stream_seq.';
comment on column answers.response_digest is 'SHA-256 of the response in canonical form: equal for equal results, whatever their key order and spacing.';
comment on column answers.problem         is 'What could not be kept exactly as sent, and why; null when nothing.';
comment on column answers.via             is 'What brought the event: webhook or reconciler.';
comment on column answers.stream_seq      is 'Sequence of the event on the stream; of the first of its copies.';
comment on column answers.received_at     is 'The stream''s timestamp of that event, not the time of the insert, so that a replay gives the same.';

create table winners (
  job_key    text collate "C" primary key,
  task_id    text collate "C" not null,
  status     text not null check (status in ('COMPLETED', 'FAILED')),
  created_at timestamptz,
  stream_seq bigint not null
);

comment on table  winners            is 'One row a job: which task answers it. COMPLETED over FAILED, then the latest created_at, then the greatest task_id.';
comment on column winners.job_key    is 'The job, as in answers.job_key.';
comment on column winners.task_id    is 'The task that answers it; its row is in answers.';
comment on column winners.status     is 'Status of the event that won.';
comment on column winners.created_at is 'created_at of the event that won.';
comment on column winners.stream_seq is 'Sequence of the event that won; of several of equal standing, the lowest.';

create view reported_answers as
  select w.job_key, a.task_id, a.idempotency_key, a.status, a.created_at, a.response,
         a.response_digest, a.problem, a.via, a.stream_seq, a.received_at
    from winners w
    join answers a on a.task_id = w.task_id
   where a.status = 'COMPLETED';

comment on view reported_answers is 'The answer of each job that has one: the COMPLETED winners with their responses.';

create view failed_answers as
  select w.job_key, a.task_id, a.idempotency_key, a.created_at,
         case when jsonb_typeof(a.response #> '{error,code}') = 'string' then a.response #>> '{error,code}'
              when jsonb_typeof(a.response -> 'code') = 'string' then a.response ->> 'code'
              else 'UNKNOWN'
         end as error_code,
         case when jsonb_typeof(a.response #> '{error,message}') = 'string' then a.response #>> '{error,message}'
              when jsonb_typeof(a.response -> 'error') = 'string' then a.response ->> 'error'
              when jsonb_typeof(a.response -> 'message') = 'string' then a.response ->> 'message'
         end as error_message,
         a.response, a.response_digest, a.problem, a.via, a.stream_seq, a.received_at
    from winners w
    join answers a on a.task_id = w.task_id
   where a.status = 'FAILED';

comment on view failed_answers is 'The jobs whose every task has failed so far, each with the error of its winner.';

create table parked (
  stream_created timestamptz not null,
  stream_seq     bigint not null,
  subject        text not null,
  task_id        text,
  reason         text not null,
  detail         text,
  body           bytea not null,
  parked_at      timestamptz not null,
  primary key (stream_created, stream_seq)
);

comment on table  parked                is 'Events that gave no row, with the reason; what the provider sent is kept byte for byte.';
comment on column parked.stream_created is 'When the stream was created: sequences start anew with a new stream.';
comment on column parked.stream_seq     is 'Sequence of the event on that stream.';
comment on column parked.subject        is 'Subject of the event.';
comment on column parked.task_id        is 'The task it speaks of, when that can be told.';
comment on column parked.reason         is 'A stable snake_case name of the reason.';
comment on column parked.detail         is 'More about the reason, for people.';
comment on column parked.body           is 'The body as received.';
comment on column parked.parked_at      is 'The stream''s timestamp of the event, so that a replay gives the same.';

create table projection (
  stream         text primary key,
  stream_created timestamptz not null,
  floor_seq      bigint not null,
  floor_msg_id   text,
  rules          jsonb not null
);

comment on table  projection                is 'How far the rows of this database are known to reach on the stream, and under which rules they were made.';
comment on column projection.stream         is 'Name of the stream.';
comment on column projection.stream_created is 'When that stream was created.';
comment on column projection.floor_seq      is 'Every event up to this sequence is in the tables.';
comment on column projection.floor_msg_id   is 'Message id of the event at floor_seq: another one there means that the stream has lost events.';
comment on column projection.rules          is 'Rules of the job key. A projector with other rules refuses to start until a rebuild.';

create table submitted_tasks (
  submission_id   bigint generated always as identity primary key,
  task_id         text collate "C" unique,
  idempotency_key text,
  created_at      timestamptz not null default now(),
  state           text not null default 'OPEN' check (state in ('OPEN', 'SETTLED', 'OVERDUE', 'GONE', 'LOST', 'TOO_LARGE')),
  checks          integer not null default 0,
  next_check_at   timestamptz not null default now() + interval '1 hour',
  appended_seq    bigint,
  last_error      text,
  settled_at      timestamptz,
  check (task_id is not null or idempotency_key is not null)
);

-- The due ones, oldest check first; settled rows, nearly all of them, are not in it.
create index submitted_tasks_due on submitted_tasks (next_check_at) where state in ('OPEN', 'OVERDUE');
-- The ones that wait for their task id.
create index submitted_tasks_unknown on submitted_tasks (idempotency_key) where task_id is null;

comment on table  submitted_tasks                 is 'What the submitting application asked for: it inserts (task_id, idempotency_key) when it creates a task. The reconciler does the rest.';
comment on column submitted_tasks.submission_id   is 'Numbers the submissions: neither task id nor key is there for all of them.';
comment on column submitted_tasks.task_id         is 'Null until known: the create call timed out, and its repetition got 409.';
comment on column submitted_tasks.idempotency_key is 'The key the task was created with.';
comment on column submitted_tasks.created_at      is 'When the task was submitted.';
comment on column submitted_tasks.state           is 'OPEN: waiting. SETTLED: has its row, or is parked. OVERDUE: past the horizon, still polled. GONE: the provider does not know it. LOST: given up. TOO_LARGE: its answer is over the size limit.';
comment on column submitted_tasks.checks          is 'How often the provider was asked for it.';
comment on column submitted_tasks.next_check_at   is 'Not asked for before; also the lease of the reconciler that is asking.';
comment on column submitted_tasks.appended_seq    is 'Sequence of the event that the reconciler appended for it.';
comment on column submitted_tasks.last_error      is 'Why the last check gave nothing.';
comment on column submitted_tasks.settled_at      is 'When it was settled.';
