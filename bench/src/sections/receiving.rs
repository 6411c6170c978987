//! Deliveries in closed loops, over connections that are kept.

use anyhow::Result;
use sandbox::servers::Postgres;

use crate::bars::CONNECTIONS;
use crate::bench::{Bench, Contender};
use crate::figures::{Section, Subject};
use crate::load::Size;
use crate::stack::{Broker, Durability, FLASK_THREADS, INBOX_CONNECTIONS, Receiver, postgres};

/// Ingress in all its ways beside both peers.
pub(super) async fn ingress(bench: &mut Bench) -> Result<()> {
    let postgres = postgres().await?;
    for connections in CONNECTIONS {
        // New ones each time: what is stored already is no part of this.
        let mut contenders = vec![
            flask(bench, &postgres).await?,
            inbox(bench, &postgres).await?,
            one(bench, Subject::IngressSync, Durability::Synced, None).await?,
            one(
                bench,
                Subject::IngressSyncPlain,
                Durability::Synced,
                Some("plain"),
            )
            .await?,
            one(
                bench,
                Subject::IngressSyncBatch,
                Durability::Synced,
                Some("batch"),
            )
            .await?,
            one(bench, Subject::IngressCache, Durability::PageCache, None).await?,
        ];
        bench
            .in_turns(Section::Ingress, &mut contenders, connections, Size::Usual)
            .await?;
    }
    Ok(())
}

/// Bodies ten times as large.
pub(super) async fn large(bench: &mut Bench) -> Result<()> {
    let postgres = postgres().await?;
    let mut contenders = vec![
        flask(bench, &postgres).await?,
        inbox(bench, &postgres).await?,
        one(bench, Subject::IngressSync, Durability::Synced, None).await?,
        one(bench, Subject::IngressCache, Durability::PageCache, None).await?,
    ];
    bench
        .in_turns(Section::Large, &mut contenders, 64, Size::Large)
        .await
}

/// Three copies of the stream.
pub(super) async fn replicas(bench: &mut Bench) -> Result<()> {
    let postgres = postgres().await?;
    for connections in [64, 256] {
        let mut contenders = vec![
            inbox(bench, &postgres).await?,
            three(bench, Subject::IngressSync, Durability::Synced).await?,
            three(bench, Subject::IngressCache, Durability::PageCache).await?,
        ];
        bench
            .in_turns(Section::Replicas, &mut contenders, connections, Size::Usual)
            .await?;
    }
    Ok(())
}

pub(super) async fn flask(bench: &Bench, postgres: &Postgres) -> Result<Contender> {
    let flask = Receiver::flask(&bench.installed, &bench.secret, postgres, FLASK_THREADS).await?;
    Ok(Contender::slow(Subject::FlaskReceiver, flask))
}

pub(super) async fn inbox(bench: &Bench, postgres: &Postgres) -> Result<Contender> {
    let inbox = Receiver::inbox(&bench.installed, &bench.secret, postgres, INBOX_CONNECTIONS).await?;
    Ok(Contender::fast(Subject::RustInbox, inbox))
}

/// Ingress on a broker of its own.
pub(super) async fn one(
    bench: &Bench,
    subject: Subject,
    durability: Durability,
    mode: Option<&str>,
) -> Result<Contender> {
    let broker = Broker::one(durability).await?;
    let ingress = Receiver::ingress(&bench.installed, &bench.secret, broker, mode).await?;
    Ok(Contender::fast(subject, ingress))
}

async fn three(bench: &Bench, subject: Subject, durability: Durability) -> Result<Contender> {
    let brokers = Broker::three(durability).await?;
    let ingress = Receiver::ingress(&bench.installed, &bench.secret, brokers, None).await?;
    Ok(Contender::fast(subject, ingress))
}
