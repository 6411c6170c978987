-- The tables of both peers: an inbox that deliveries are written to before they are acknowledged, and the answers that a worker
-- makes of it. In a schema of their own, which the search_path of the connection names.
create table webhook_inbox (
  task_id      text primary key,
  body         jsonb not null,
  received_at  timestamptz not null default now(),
  processed_at timestamptz
);

create index webhook_inbox_unprocessed on webhook_inbox (received_at) where processed_at is null;

create table answers (
  task_id    text primary key,
  job_key    text,
  status     text not null,
  created_at timestamptz not null,
  response   jsonb
);
