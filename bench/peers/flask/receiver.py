"""The receiver: verify, write to the inbox, commit, answer 204. Run by gunicorn."""

import json
import os

from flask import Flask, request
from psycopg_pool import ConnectionPool

import signature

app = Flask(__name__)
secret = os.environ["WEBHOOK_SECRET"]
# One connection a thread, so that no thread waits for another's commit.
pool = ConnectionPool(os.environ["DATABASE_URL"], min_size=1, max_size=int(os.environ["POOL_SIZE"]), open=True)

INSERT = """
insert into webhook_inbox (task_id, body) values (%s, %s::jsonb)
    on conflict (task_id) do nothing
"""


@app.post("/hooks/answers")
def receive():
    body = request.get_data()
    if not signature.is_valid(body, request.headers.get("Webhook-Signature"), secret):
        return "invalid signature", 400
    delivery = json.loads(body)
    if delivery.get("test"):
        return "", 204
    with pool.connection() as connection:
        connection.execute(INSERT, (delivery["task"]["id"], body.decode()))
    return "", 204
