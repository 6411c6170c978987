"""The worker: makes answers of what is in the inbox, a batch a transaction and a row at a time.

Ends when the inbox is empty, and prints how many rows it made, how many of them with the first commit, and how many seconds after
that the last one came.
"""

import json
import os
import time

import psycopg
from psycopg.types.json import Jsonb

BATCH = 100

CLAIM = """
select task_id, body from webhook_inbox
 where processed_at is null
 order by received_at
 limit %s
   for update skip locked
"""

ANSWER = """
insert into answers (task_id, job_key, status, created_at, response) values (%s, %s, %s, %s, %s)
    on conflict (task_id) do nothing
"""

DONE = "update webhook_inbox set processed_at = now() where task_id = %s"


def process_batch(connection: psycopg.Connection) -> int:
    with connection.transaction():
        rows = connection.execute(CLAIM, (BATCH,)).fetchall()
        for task_id, delivery in rows:
            task = delivery["task"]
            answer = (task_id, task["idempotencyKey"], task["status"], task["createdAt"], Jsonb(delivery["response"]))
            connection.execute(ANSWER, answer)
            connection.execute(DONE, (task_id,))
    return len(rows)


def drain(connection: psycopg.Connection) -> None:
    rows = first = 0
    began = last = time.monotonic()
    while count := process_batch(connection):
        last = time.monotonic()
        if not rows:
            first, began = count, last
        rows += count
    print(json.dumps({"rows": rows, "first": first, "seconds": last - began}))


if __name__ == "__main__":
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as session:
        drain(session)
