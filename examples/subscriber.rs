//! A subscriber: keeps every result of the stream in a table, each once.
//!
//! An event is stored first and acknowledged afterwards, so none is lost. It may come again, so the key of the table is
//! the event's id. Started again after whatever happened, it goes on where it was. Several of it share the work.
//!
//! `DATABASE_URL=postgres://… cargo run --example subscriber` from the root of the repository; `--help` for the rest.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Error, Result};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::{self, Message};
use async_nats::{Client, ConnectOptions};
use clap::Parser;
use futures_util::StreamExt;
use percent_encoding::percent_decode_str;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::signal::unix::{SignalKind, signal};
use tokio_postgres::NoTls;
use tokio_util::sync::CancellationToken;

/// Most events stored in one transaction.
const GROUP: usize = 100;
/// How long a request for events waits for some: also how soon the end of this process can be.
const WAIT: Duration = Duration::from_secs(1);
/// The time between two attempts when something is away.
const PAUSE: Duration = Duration::from_secs(1);

/// Keeps every result of the stream in a table, each once
#[derive(Parser)]
struct Settings {
    #[arg(long, env = "NATS_URL", default_value = "nats://127.0.0.1:4222")]
    nats_url: String,
    #[arg(long, env = "NATS_USER", requires = "nats_password_file")]
    nats_user: Option<String>,
    #[arg(long, env = "NATS_PASSWORD_FILE")]
    nats_password_file: Option<PathBuf>,
    /// What JetStream's API is called in the account of this user
    #[arg(long, env = "NATS_API_PREFIX", default_value = "$JS.API")]
    nats_api_prefix: String,
    #[arg(long, env = "STREAM", default_value = "ANSWERS")]
    stream: String,
    /// The durable consumer, which remembers how far we are
    #[arg(long, env = "CONSUMER", default_value = "subscriber")]
    consumer: String,
    #[arg(long, env = "FILTER", default_value = "answers.result.>")]
    filter: String,
    /// When there is no consumer yet: begin with events of this time rather than with the first, e.g. 2026-11-30T12:00:00Z
    #[arg(long, env = "FROM", value_parser = |text: &str| OffsetDateTime::parse(text, &Rfc3339))]
    from: Option<OffsetDateTime>,
    /// When there is no consumer yet: time after which an event comes again that was not acknowledged
    #[arg(long, env = "ACK_WAIT", default_value = "30s", value_parser = humantime::parse_duration)]
    ack_wait: Duration,
    /// Where the table is
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let settings = Settings::parse();
    let stop = stop_on_signal()?;
    while !stop.is_cancelled() {
        if let Err(error) = subscribe(&settings, &stop).await {
            eprintln!("trying again: {error:#}");
            stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
        }
    }
    Ok(())
}

/// Cancelled by SIGTERM and by Ctrl-C.
fn stop_on_signal() -> Result<CancellationToken> {
    let stop = CancellationToken::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let (mut signal, stop) = (signal(kind)?, stop.clone());
        tokio::spawn(async move {
            signal.recv().await;
            stop.cancel();
        });
    }
    Ok(stop)
}

/// Takes events and keeps them, until it is to stop or something fails.
async fn subscribe(settings: &Settings, stop: &CancellationToken) -> Result<()> {
    let mut table = Table::open(&settings.database_url).await?;
    let client = connect(settings).await?;
    let consumer = consumer(settings, client.clone()).await?;
    while !stop.is_cancelled() {
        let arriving = consumer
            .batch()
            .max_messages(GROUP)
            .expires(WAIT)
            .messages()
            .await?;
        // What is there becomes one group; what is not there yet is not waited for.
        let mut groups = arriving.ready_chunks(GROUP);
        let mut taken = 0;
        while let Some(group) = groups.next().await {
            let group: Vec<Message> = group
                .into_iter()
                .collect::<Result<_, _>>()
                .map_err(Error::from_boxed)?;
            let changed = table.keep(&group).await?;
            for message in &group {
                message.ack().await.map_err(Error::from_boxed)?;
            }
            taken += group.len();
            println!("{} events, {changed} rows", group.len());
        }
        if taken == 0 {
            // A consumer that somebody deleted is as silent as one that has nothing.
            consumer.get_info().await.context("looking for the consumer")?;
        }
    }
    // Acknowledgments still on their way out.
    client.flush().await?;
    Ok(())
}

async fn connect(settings: &Settings) -> Result<Client> {
    let mut options = ConnectOptions::new().name("example subscriber");
    if let (Some(user), Some(file)) = (&settings.nats_user, &settings.nats_password_file) {
        let password = tokio::fs::read_to_string(file).await;
        let password = password.with_context(|| format!("reading {}", file.display()))?;
        options = options.user_and_password(user.clone(), password.trim_end().to_owned());
    }
    options
        .connect(&settings.nats_url)
        .await
        .context("connecting to NATS")
}

/// The durable consumer, made when it is not there.
async fn consumer(settings: &Settings, client: Client) -> Result<PullConsumer> {
    let jetstream = jetstream::with_prefix(client, &settings.nats_api_prefix);
    let stream = jetstream
        .get_stream(&settings.stream)
        .await
        .context("looking for the stream")?;
    let config = pull::Config {
        durable_name: Some(settings.consumer.clone()),
        filter_subject: settings.filter.clone(),
        deliver_policy: match settings.from {
            Some(start_time) => DeliverPolicy::ByStartTime { start_time },
            None => DeliverPolicy::All,
        },
        ack_policy: AckPolicy::Explicit,
        ack_wait: settings.ack_wait,
        // Whatever goes wrong here, an event is never given up.
        max_deliver: -1,
        ..pull::Config::default()
    };
    let consumer = stream.get_or_create_consumer(&settings.consumer, config).await;
    consumer.context("making the consumer")
}

struct Table(tokio_postgres::Client);

impl Table {
    async fn open(url: &str) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls)
            .await
            .context("connecting to Postgres")?;
        // Ends with the client; what broke it is told to whoever uses the client next.
        tokio::spawn(connection);
        client
            .batch_execute(
                "create table if not exists results (
                   event_id        text primary key,  -- ce-id
                   task_id         text not null,
                   type            text not null,     -- dev.answerline.task.completed or .failed
                   idempotency_key text,
                   created_at      timestamptz,
                   stream_seq      bigint not null,
                   body            bytea not null     -- as the provider sent it
                 )",
            )
            .await
            .context("making the table")?;
        Ok(Self(client))
    }

    /// Stores events in one transaction, and says how many rows it has changed. A copy changes nothing; of different results
    /// under one id, which come only when much time is between them, the one stays that counts: COMPLETED over FAILED, then the
    /// task that was created last.
    async fn keep(&mut self, messages: &[Message]) -> Result<u64> {
        let transaction = self.0.transaction().await?;
        let insert = transaction
            .prepare(
                "insert into results as old values ($1, $2, $3, $4, $5::text::timestamptz, $6, $7)
                 on conflict (event_id) do update
                 set (type, idempotency_key, created_at, stream_seq, body) =
                   (excluded.type, excluded.idempotency_key, excluded.created_at, excluded.stream_seq, excluded.body)
                 where (excluded.type like '%.completed', coalesce(excluded.created_at, '-infinity'))
                   > (old.type like '%.completed', coalesce(old.created_at, '-infinity'))",
            )
            .await?;
        let mut changed = 0;
        for message in messages {
            let seq = message.info().map_err(Error::from_boxed)?.stream_sequence;
            let (Some(id), Some(task), Some(kind)) = (
                header(message, "ce-id"),
                attribute(message, "ce-taskid"),
                header(message, "ce-type"),
            ) else {
                eprintln!("passing over {seq}, which is no event of the kind that we know");
                continue;
            };
            let (key, time) = (attribute(message, "ce-subject"), header(message, "ce-time"));
            let (seq, body) = (i64::try_from(seq)?, message.payload.as_ref());
            changed += transaction
                .execute(&insert, &[&id, &task, &kind, &key, &time, &seq, &body])
                .await?;
        }
        transaction.commit().await?;
        Ok(changed)
    }
}

fn header<'m>(message: &'m Message, name: &str) -> Option<&'m str> {
    Some(message.headers.as_ref()?.get(name)?.as_str())
}

/// The value of a CloudEvents attribute, which is percent-encoded in a header.
fn attribute(message: &Message, name: &str) -> Option<String> {
    let decoded = percent_decode_str(header(message, name)?).decode_utf8().ok()?;
    Some(decoded.into_owned())
}
