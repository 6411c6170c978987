//! The lines of `docs/subscribing.md` for the `nats` command line. The program is not run, since no registry that this
//! repository uses has it; the requests are made that it makes for them, by its source and its authors' notes.

use async_nats::Client;
use async_nats::jetstream::Context;
use futures_util::StreamExt;
use sandbox::eventually;
use serde_json::{Value, json};

use crate::SOON;
use crate::document::blocks;
use crate::world::{API, World, results};

#[tokio::test]
async fn the_user_may_ask_for_what_the_documented_lines_ask_for() {
    let mut world = World::start().await;
    for body in results(0..5) {
        world.append([body]).await;
    }
    let jetstream = world.user("subscriber").await;
    let client = jetstream.client();
    let mut tried = 0;
    let lines: Vec<String> = blocks("sh").concat().lines().map(str::to_owned).collect();
    for line in lines.iter().filter_map(|line| line.strip_prefix("nats ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let [
            "--js-api-prefix",
            API,
            "consumer",
            command,
            "ANSWERS",
            "subscriber",
            flags @ ..,
        ] = &words[..]
        else {
            panic!("another form of line: {line}");
        };
        match *command {
            "add" => add(&client, flags).await,
            "next" => next(&client, flags).await,
            "info" => info(&jetstream, flags).await,
            "rm" => remove(&client, flags).await,
            other => panic!("no requests are known for {other}"),
        }
        tried += 1;
    }
    assert_eq!(tried, 4);
}

async fn ask(client: &Client, request: &str, body: &Value) -> Value {
    let answer = client
        .request(format!("{API}.{request}"), body.to_string().into())
        .await;
    serde_json::from_slice(&answer.unwrap().payload).unwrap()
}

/// Looks for the consumer and the stream, makes the one, and shows it.
async fn add(client: &Client, flags: &[&str]) {
    assert_eq!(
        flags,
        [
            "--filter",
            "'answers.result.>'",
            "--pull",
            "--deliver",
            "all",
            "--ack",
            "explicit",
            "--max-deliver=-1",
            "--defaults"
        ]
    );
    let found = ask(client, "CONSUMER.INFO.ANSWERS.subscriber", &json!({})).await;
    assert_eq!(found["error"]["code"], 404, "{found}");
    let stream = ask(client, "STREAM.INFO.ANSWERS", &json!({})).await;
    assert_eq!(stream["config"]["name"], "ANSWERS", "{stream}");
    let config = json!({
        "name": "subscriber",
        "durable_name": "subscriber",
        "filter_subject": "answers.result.>",
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": 30_000_000_000_u64,
        "max_deliver": -1,
        "max_ack_pending": 1000,
        "replay_policy": "instant",
    });
    let made = ask(
        client,
        "CONSUMER.CREATE.ANSWERS.subscriber.answers.result.>",
        &json!({ "stream_name": "ANSWERS", "config": config, "action": "create" }),
    )
    .await;
    assert_eq!(made["num_pending"], 5, "{made}");
    let shown = ask(client, "CONSUMER.INFO.ANSWERS.subscriber", &json!({})).await;
    assert_eq!(shown["config"]["max_deliver"], -1, "{shown}");
}

/// One message a request, acknowledged each, in the order of the stream.
async fn next(client: &Client, flags: &[&str]) {
    let ["--count", count] = flags else {
        panic!("{flags:?}")
    };
    let count: usize = count.parse().unwrap();
    assert!(count > 5, "the last request finds nothing");
    for number in 1..=6 {
        let inbox = client.new_inbox();
        let mut answers = client.subscribe(inbox.clone()).await.unwrap();
        let request = format!("{API}.CONSUMER.MSG.NEXT.ANSWERS.subscriber");
        let body = json!({ "batch": 1, "expires": if number < 6 { 5_000_000_000_u64 } else { 1_000_000 } });
        client
            .publish_with_reply(request, inbox, body.to_string().into())
            .await
            .unwrap();
        let message = tokio::time::timeout(SOON, answers.next()).await.unwrap().unwrap();
        if number == 6 {
            assert_eq!(
                message.status.map(|status| status.as_u16()),
                Some(408),
                "{message:?}"
            );
            return;
        }
        let body: Value = serde_json::from_slice(&message.payload).unwrap();
        assert_eq!(body["task"]["id"], format!("task-{}", number - 1));
        // An empty acknowledgment, as the program sends it.
        client.publish(message.reply.unwrap(), "".into()).await.unwrap();
    }
}

async fn info(jetstream: &Context, flags: &[&str]) {
    assert_eq!(flags, [""; 0]);
    eventually("all is acknowledged", SOON, async || {
        let info = ask(
            &jetstream.client(),
            "CONSUMER.INFO.ANSWERS.subscriber",
            &json!({}),
        )
        .await;
        let acknowledged = info["num_pending"] == 0 && info["ack_floor"]["stream_seq"] == 5;
        if acknowledged { Ok(()) } else { Err(info) }
    })
    .await;
}

async fn remove(client: &Client, flags: &[&str]) {
    assert_eq!(flags, ["--force"]);
    let removed = ask(client, "CONSUMER.DELETE.ANSWERS.subscriber", &json!({})).await;
    assert_eq!(removed["success"], true, "{removed}");
}
