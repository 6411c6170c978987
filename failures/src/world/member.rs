//! One program of a world, with its links.

use std::fmt;
use std::net::SocketAddr;

use sandbox::api::Api;
use sandbox::program::{self, Program};
use sandbox::provider::secrets::Secret;
use sandbox::servers::{Database, Link, NatsServer, Postgres};

use super::settings::{Setup, variables};
use super::{HOOK, STREAM};

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Receives deliveries.
    Ingress,
    /// Makes rows.
    Projector,
    /// Fetches what no webhook brought.
    Reconciler,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Projector => "projector",
            Self::Reconciler => "reconciler",
        }
    }
}

/// Which process of a world, each kind counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// An ingress.
    Ingress(usize),
    /// A projector.
    Projector(usize),
    /// A reconciler.
    Reconciler(usize),
}

impl Who {
    /// Which program it is.
    pub fn kind(self) -> Kind {
        match self {
            Self::Ingress(_) => Kind::Ingress,
            Self::Projector(_) => Kind::Projector,
            Self::Reconciler(_) => Kind::Reconciler,
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Ingress(number) | Self::Projector(number) | Self::Reconciler(number)) = self;
        write!(f, "{} {number}", self.kind().name())
    }
}

/// A program of a world, and the network around it. Its ports and links last from one process to the next.
#[derive(Debug)]
pub struct Member {
    /// Which it is.
    pub who: Who,
    /// Its process.
    pub program: Program,
    /// Between it and the broker.
    pub broker: Link,
    /// Between it and the database.
    pub database: Option<Link>,
    /// Between the provider and it.
    pub hook: Option<Link>,
    /// Its public port, behind the link.
    pub listen: Option<SocketAddr>,
    /// Between it and the provider's API.
    pub provider: Option<Link>,
    /// Whether it should be running now.
    pub(crate) meant_to_run: bool,
}

/// What members are connected with.
pub(super) struct Surroundings<'w> {
    pub(super) setup: &'w Setup,
    pub(super) broker: &'w NatsServer,
    pub(super) postgres: &'w Postgres,
    pub(super) database: &'w Database,
    pub(super) api: &'w Api,
    pub(super) secret: &'w Secret,
}

impl Surroundings<'_> {
    pub(super) async fn member(&self, who: Who) -> Member {
        let kind = who.kind();
        let binary = program::find(&self.setup.binaries, kind.name());
        let program = binary.and_then(|binary| Program::new(kind.name(), binary));
        let mut program = program.unwrap_or_else(|e| panic!("{e}"));
        let broker = Link::to(self.broker.addr()).await;
        program.set("NATS_URL", broker.nats_url());
        program.set("STREAM", STREAM);
        for (name, value) in variables(kind) {
            program.set(name, value);
        }
        let mut member = Member {
            who,
            program,
            broker,
            database: None,
            hook: None,
            listen: None,
            provider: None,
            meant_to_run: false,
        };
        match kind {
            Kind::Ingress => self.takes_deliveries(&mut member).await,
            Kind::Projector => self.holds_rows(&mut member).await,
            Kind::Reconciler => {
                self.holds_rows(&mut member).await;
                self.asks_the_provider(&mut member).await;
            }
        }
        for (of, name, value) in &self.setup.variables {
            if *of == kind {
                member.program.set(name, value);
            }
        }
        member
    }

    async fn takes_deliveries(&self, member: &mut Member) {
        let program = &mut member.program;
        let listen = program.lease("LISTEN").unwrap_or_else(|e| panic!("{e}"));
        program.set("WEBHOOK_SECRETS", self.secret.text());
        program.set("HOOK_PATH", HOOK);
        member.hook = Some(Link::to(listen).await);
        member.listen = Some(listen);
    }

    async fn holds_rows(&self, member: &mut Member) {
        let link = Link::to(self.postgres.addr()).await;
        member.program.arguments(&["run"]);
        member.program.set("DATABASE_URL", self.database.url_via(&link));
        member.database = Some(link);
    }

    async fn asks_the_provider(&self, member: &mut Member) {
        let link = Link::to(self.api.address()).await;
        member
            .program
            .set("PROVIDER_URL", format!("http://{}", link.addr()));
        member.program.set("PROVIDER_API_KEY", self.api.key());
        member.provider = Some(link);
    }
}

impl Member {
    /// Where the provider reaches it.
    pub fn hook(&self) -> Option<SocketAddr> {
        self.hook.as_ref().map(Link::addr)
    }

    /// Starts its process; it becomes ready later.
    pub(crate) fn start(&mut self) {
        self.program.start().unwrap_or_else(|e| panic!("{e}"));
        self.meant_to_run = true;
    }
}
