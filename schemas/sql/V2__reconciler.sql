-- Version 2: what the reconciler keeps about each submission, and the pause that all reconcilers share.

alter table submitted_tasks
  add column checked_at       timestamptz,
  add column not_found        integer not null default 0,
  add column not_found_since  timestamptz,
  add column unusable_answers integer not null default 0,
  add column critical_at      timestamptz,
  add column same_as          bigint;

comment on column submitted_tasks.checked_at       is 'When the provider was asked last, whatever it answered.';
comment on column submitted_tasks.not_found        is 'How often in a row the provider said that there is no such task.';
comment on column submitted_tasks.not_found_since  is 'When it said so for the first time of these.';
comment on column submitted_tasks.unusable_answers is 'How many answers in a row could not be used: malformed, a test, or about another task.';
comment on column submitted_tasks.critical_at      is 'When it was reported that it waits for far too long; once, whoever finds it.';
comment on column submitted_tasks.same_as          is 'Another submission of the same task, found when its id became known. That one has the id.';

-- Only what can be asked for: a submission without an id is never due.
drop index submitted_tasks_due;
create index submitted_tasks_due on submitted_tasks (next_check_at) where state in ('OPEN', 'OVERDUE') and task_id is not null;
-- What waits for its row, in whatever state, in the order in which it is gone through; settled rows, nearly all of them, are
-- not in it.
create index submitted_tasks_unsettled on submitted_tasks (submission_id) where state <> 'SETTLED';
-- The ones that wait for their task id, in the order in which they are gone through.
drop index submitted_tasks_unknown;
create index submitted_tasks_unknown on submitted_tasks (submission_id) where task_id is null and state <> 'SETTLED';
-- A parked event settles its submission. Few rows, so it costs nothing.
create index parked_task on parked (task_id) where task_id is not null;

create table provider_pause (
  provider     text primary key,
  paused_until timestamptz not null,
  reason       text not null
);

comment on table  provider_pause              is 'Until when no reconciler may ask the provider anything: it said so (429, 503).';
comment on column provider_pause.provider     is 'Base URL of the provider''s API.';
comment on column provider_pause.paused_until is 'By the clock of the database. In the past when there is no pause.';
comment on column provider_pause.reason       is 'What the provider answered.';
