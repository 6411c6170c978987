"""A subscriber: keeps every result of the stream in a table, each once.

An event is stored first and acknowledged afterwards, so none is lost. It may come again, so the key of the table is
the event's id. Started again after whatever happened, it goes on where it was.

    python3 -m venv venv && venv/bin/pip install --require-hashes --requirement examples/requirements.txt
    venv/bin/python examples/subscriber.py results.sqlite

Settings are environment variables: NATS_URL, NATS_USER, NATS_PASSWORD_FILE, NATS_API_PREFIX, STREAM, CONSUMER, FILTER
and, for a consumer that is not there yet, FROM (a time such as 2026-11-30T12:00:00+00:00) and ACK_WAIT (seconds).
"""

import asyncio
import os
import signal
import sqlite3
import sys
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

GROUP = 100  # most events stored in one transaction
WAIT = 1.0  # seconds that a request for events waits for some: also how soon the end of this process can be
PAUSE = 1.0  # seconds between two attempts when something is away


def setting(name, default=None):
    return os.environ.get(name) or default


async def main(path):
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    table = open_table(path)
    while not stop.is_set():
        try:
            await subscribe(table, stop)
        except Exception as error:
            print(f"trying again: {error!r}", file=sys.stderr, flush=True)
            await asyncio.sleep(PAUSE)


async def subscribe(table, stop):
    """Takes events and keeps them, until it is to stop or something fails."""
    client = await asyncio.wait_for(connect(), timeout=10)
    try:
        jetstream = client.jetstream(prefix=setting("NATS_API_PREFIX", "$JS.API"))
        stream, consumer = setting("STREAM", "ANSWERS"), setting("CONSUMER", "subscriber")
        subscription = await jetstream.pull_subscribe(
            setting("FILTER", "answers.result.>"), durable=consumer, stream=stream, config=new_consumer()
        )
        while not stop.is_set():
            try:
                messages = await subscription.fetch(GROUP, timeout=WAIT)
            except asyncio.TimeoutError:  # or nats.errors.TimeoutError, which is one
                messages = []
            if not messages:
                # A consumer that somebody deleted is as silent as one that has nothing.
                await jetstream.consumer_info(stream, consumer)
                continue
            changed = keep(table, messages)
            for message in messages:
                await message.ack()
            print(f"{len(messages)} events, {changed} rows", flush=True)
        # Acknowledgments still on their way out.
        await client.flush()
    finally:
        await client.close()


async def connect():
    login = {}
    if user := setting("NATS_USER"):
        login = {"user": user, "password": Path(os.environ["NATS_PASSWORD_FILE"]).read_text().rstrip("\n")}

    async def report(error):
        print(f"from the NATS client: {error!r}", file=sys.stderr, flush=True)

    return await nats.connect(
        setting("NATS_URL", "nats://127.0.0.1:4222"),
        name="example subscriber",
        max_reconnect_attempts=-1,
        error_cb=report,
        **login,
    )


def new_consumer():
    """What the durable consumer is to be, when it is not there yet."""
    start = setting("FROM")
    return ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_TIME if start else DeliverPolicy.ALL,
        opt_start_time=datetime.fromisoformat(start) if start else None,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=float(setting("ACK_WAIT", "30")),
        max_deliver=-1,  # whatever goes wrong here, an event is never given up
    )


def open_table(path):
    table = sqlite3.connect(path)
    with table:
        table.execute(
            """create table if not exists results (
                 event_id        text primary key,  -- ce-id
                 task_id         text not null,
                 type            text not null,     -- dev.answerline.task.completed or .failed
                 idempotency_key text,
                 created_at      text,
                 stream_seq      integer not null,
                 body            blob not null      -- as the provider sent it
               )"""
        )
    return table


def keep(table, messages):
    """Stores events in one transaction, and says how many rows it has changed. A copy changes nothing; of different results
    under one id, which come only when much time is between them, the one stays that counts: COMPLETED over FAILED, then
    the task that was created last.
    """
    rows = []
    for message in messages:
        headers, seq = message.headers or {}, message.metadata.sequence.stream
        if not all(headers.get(name) for name in ("ce-id", "ce-taskid", "ce-type")):
            print(f"passing over {seq}, which is no event of the kind that we know", file=sys.stderr, flush=True)
            continue
        # Attributes of CloudEvents are percent-encoded in headers.
        key = headers.get("ce-subject")
        rows.append(
            (
                headers["ce-id"],
                unquote(headers["ce-taskid"]),
                headers["ce-type"],
                unquote(key) if key else None,
                headers.get("ce-time"),
                seq,
                message.data,
            )
        )
    with table:  # one transaction
        # Times are all in UTC, so without the Z at the end they are in order as texts, to the microsecond.
        before = table.total_changes
        table.executemany(
            """insert into results as old values (?, ?, ?, ?, ?, ?, ?)
               on conflict (event_id) do update
               set (type, idempotency_key, created_at, stream_seq, body) =
                 (excluded.type, excluded.idempotency_key, excluded.created_at, excluded.stream_seq, excluded.body)
               where (excluded.type like '%.completed', coalesce(rtrim(excluded.created_at, 'Z'), ''))
                 > (old.type like '%.completed', coalesce(rtrim(old.created_at, 'Z'), ''))""",
            rows,
        )
        return table.total_changes - before


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} TABLE.sqlite")
    asyncio.run(main(sys.argv[1]))
