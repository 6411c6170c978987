//! One program of a world, with its links.

use std::fmt;
use std::net::SocketAddr;

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
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Projector => "projector",
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
}

impl Who {
    /// Which program it is.
    pub fn kind(self) -> Kind {
        match self {
            Self::Ingress(_) => Kind::Ingress,
            Self::Projector(_) => Kind::Projector,
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Ingress(number) | Self::Projector(number)) = self;
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
    /// Whether it should be running now.
    pub(crate) meant_to_run: bool,
}

impl Member {
    pub(super) async fn new(
        who: Who,
        setup: &Setup,
        broker: &NatsServer,
        postgres: &Postgres,
        database: &Database,
        secret: &Secret,
    ) -> Self {
        let kind = who.kind();
        let binary = program::find(&setup.binaries, kind.name());
        let program = binary.and_then(|binary| Program::new(kind.name(), binary));
        let mut program = program.unwrap_or_else(|e| panic!("{e}"));
        let broker = Link::to(broker.addr()).await;
        program.set("NATS_URL", broker.nats_url());
        program.set("STREAM", STREAM);
        for (name, value) in variables(kind) {
            program.set(name, value);
        }
        let (mut to_database, mut hook, mut public) = (None, None, None);
        match kind {
            Kind::Ingress => {
                let listen = program.lease("LISTEN").unwrap_or_else(|e| panic!("{e}"));
                hook = Some(Link::to(listen).await);
                public = Some(listen);
                program.set("WEBHOOK_SECRETS", secret.text());
                program.set("HOOK_PATH", HOOK);
            }
            Kind::Projector => {
                let link = Link::to(postgres.addr()).await;
                program.arguments(&["run"]);
                program.set("DATABASE_URL", database.url_via(&link));
                to_database = Some(link);
            }
        }
        for (of, name, value) in &setup.variables {
            if *of == kind {
                program.set(name, value);
            }
        }
        Self {
            who,
            program,
            broker,
            database: to_database,
            hook,
            listen: public,
            meant_to_run: false,
        }
    }

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
