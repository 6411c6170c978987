//! A pipeline of a test's own: servers, links, the provider, and the programs as processes.

mod member;
pub(crate) mod post;
mod settings;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use http::Uri;
use sandbox::api::{self, Api};
use sandbox::clock::Clock;
use sandbox::eventually;
use sandbox::provider::schedule::Schedule;
use sandbox::provider::secrets::Secret;
use sandbox::provider::{self, Provider};
use sandbox::sender::{self, Account, Sender};
use sandbox::servers::{Database, NatsServer, Postgres};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::oracle::Expected;
use crate::traffic::Traffic;
use crate::watch::Watch;

use self::member::Surroundings;
pub use self::member::{Kind, Member, Who};
pub use self::post::Posted;
pub use self::settings::Setup;

/// How long a fact may take to become true: far more than it does, on a busy machine too.
pub const SOON: Duration = Duration::from_secs(60);

/// The stream of every world.
pub const STREAM: &str = "ANSWERS";
/// The path on which ingress takes deliveries.
pub const HOOK: &str = "/hooks/answers";

/// Everything that runs for one test. What is broken and how it is judged is in [`ops`](crate::ops).
pub struct World {
    // In the order in which they are dropped: who asks goes before who answers.
    _sending: AbortOnDropHandle<()>,
    pub(crate) watch: Watch,
    pub(crate) members: Vec<Member>,
    pub(crate) database: Database,
    pub(crate) postgres: Host,
    /// The broker, for what no operation does.
    pub broker: NatsServer,
    /// The provider's API.
    pub api: Api,
    /// The provider's side.
    pub account: Account,
    pub(crate) sender: Sender,
    pub(crate) traffic: Traffic,
    pub(crate) clock: Clock,
    /// Milliseconds by which the provider's clock is ahead of this machine's.
    pub(crate) ahead: Arc<AtomicI64>,
    /// Whether it was never anything else than this machine's.
    pub(crate) clock_is_true: bool,
    pub(crate) posted: Vec<Posted>,
    pub(crate) secret: Secret,
    /// What the test did on purpose and the judge must allow.
    pub expected: Expected,
    pub(crate) setup: Setup,
}

/// Where the database is.
pub(crate) enum Host {
    /// On the server that all tests of this process share: for a world that never breaks the server itself.
    Shared(&'static Postgres),
    Own(Box<Postgres>),
}

impl Host {
    pub(crate) fn server(&self) -> &Postgres {
        match self {
            Self::Shared(server) => server,
            Self::Own(server) => server,
        }
    }
}

impl World {
    /// One process of each program and nothing that goes wrong by itself.
    ///
    /// # Panics
    /// When something cannot be started; the message says what to do.
    pub async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    /// Everything that `setup` asks for, running and ready.
    ///
    /// # Panics
    /// When something cannot be started; the message says what to do.
    pub async fn with(setup: Setup) -> Self {
        let broker = async {
            NatsServer::start_with(setup.nats.clone())
                .await
                .unwrap_or_else(|e| panic!("{e}"))
        };
        let postgres = async {
            match &setup.postgres {
                None => Host::Shared(Postgres::shared().await),
                Some(options) => {
                    let server = Postgres::start_with(options.clone()).await;
                    Host::Own(Box::new(server.unwrap_or_else(|e| panic!("{e}"))))
                }
            }
        };
        let (broker, postgres) = tokio::join!(broker, postgres);
        let database = postgres.server().fresh_database().await;

        let ahead = Arc::<AtomicI64>::default();
        let clock = ahead_of_system(Arc::clone(&ahead));
        let secret = Secret::generate(setup.seed, 0);
        let settings = provider::Settings {
            schedule: Schedule {
                attempt_limit: setup.attempt_limit,
                ..Schedule::faster(setup.speed)
            },
            life: setup.life.clone(),
            // Where that is, is known once there is an ingress.
            ..provider::Settings::loopback(Uri::from_static(HOOK))
        };
        let account = Account::new(Provider::new(settings, secret.clone(), setup.seed));
        let api = Api::start(account.clone(), api::Settings::new(setup.seed), clock.clone())
            .await
            .unwrap_or_else(|e| panic!("{e}"));
        let surroundings = Surroundings {
            setup: &setup,
            broker: &broker,
            postgres: postgres.server(),
            database: &database,
            api: &api,
            secret: &secret,
        };
        let mut members = Vec::new();
        for who in setup.who() {
            members.push(surroundings.member(who).await);
        }
        let hooks: Vec<_> = members.iter().filter_map(Member::hook).collect();
        let url = format!("http://{}{HOOK}", hooks[0])
            .parse()
            .expect("an address and a path make a URL");
        account.with(|provider| provider.set_url(url));
        let settings = sender::Settings {
            concurrency: setup.concurrency,
            // One ingress is where the URL says; before several stands a load balancer.
            addresses: if hooks.len() > 1 { hooks } else { Vec::new() },
            faults: setup.faults.clone(),
            ..sender::Settings::default()
        };
        let sender = Sender::new(account.clone(), settings, clock.clone());
        let sending = {
            let sender = sender.clone();
            // It goes on until it is dropped with the world.
            tokio::spawn(async move { sender.run_until(&CancellationToken::new()).await })
        };
        for member in &mut members {
            member.start();
        }
        for member in &mut members {
            member
                .program
                .wait_ready()
                .await
                .unwrap_or_else(|e| panic!("{e}"));
        }
        let watch = Watch::over(members.iter().map(|member| (member.who, member.program.admin())));
        Self {
            _sending: AbortOnDropHandle::new(sending),
            watch,
            members,
            database,
            postgres,
            broker,
            traffic: Traffic::new(account.clone(), clock.clone(), setup.seed),
            api,
            account,
            sender,
            clock,
            ahead,
            clock_is_true: true,
            posted: Vec::new(),
            secret,
            expected: Expected::default(),
            setup,
        }
    }

    /// What the programs said of themselves.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// What the provider's sender sent and was answered.
    pub fn tally(&self) -> sender::Tally {
        self.sender.tally()
    }

    /// A session with the database, past the links.
    ///
    /// # Panics
    /// When the database gives none.
    pub async fn sql(&self) -> tokio_postgres::Client {
        self.database.connect().await
    }

    /// The stream, asked for past the links over a connection of its own.
    ///
    /// # Panics
    /// When the broker does not give it.
    pub async fn stream(&self) -> async_nats::jetstream::stream::Stream {
        let url = self.broker.url();
        let client = async_nats::connect(&url)
            .await
            .unwrap_or_else(|e| panic!("connecting to {url}: {e}"));
        async_nats::jetstream::new(client)
            .get_stream(STREAM)
            .await
            .unwrap_or_else(|e| panic!("looking for {STREAM}: {e}"))
    }

    /// Waits until `table` has at least `count` rows.
    pub async fn rows(&self, table: &str, count: usize) {
        let sql = self.sql().await;
        let query = format!("select count(*) from {table}");
        let least = i64::try_from(count).expect("a small number");
        eventually(&format!("{count} rows in {table}"), SOON, async || {
            match sql.query_one(&query, &[]).await {
                Ok(row) if row.get::<_, i64>(0) >= least => Ok(()),
                Ok(row) => Err(row.get::<_, i64>(0).to_string()),
                Err(error) => Err(error.to_string()),
            }
        })
        .await;
    }

    pub(crate) fn member(&mut self, who: Who) -> &mut Member {
        self.members
            .iter_mut()
            .find(|member| member.who == who)
            .unwrap_or_else(|| panic!("this world has no {who}"))
    }

    /// The programs of a kind, in order.
    pub fn all(&self, kind: Kind) -> Vec<Who> {
        let all = self.members.iter().map(|member| member.who);
        all.filter(|who| who.kind() == kind).collect()
    }
}

impl Drop for World {
    /// Shows and keeps what the programs printed when a test fails: their directories go with them.
    fn drop(&mut self) {
        const LINES: usize = 40;
        if !std::thread::panicking() {
            return;
        }
        let kept = keep_logs(self);
        eprintln!("seed {}; logs kept in {}", self.setup.seed.0, kept.display());
        for member in &self.members {
            let log = member.program.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(LINES)..].join("\n");
            let who = member.who;
            eprintln!(
                "--- {who} said of itself:\n{}--- the end of its log:\n{tail}",
                self.watch.story(who)
            );
        }
    }
}

fn keep_logs(world: &World) -> PathBuf {
    static FAILED: AtomicI64 = AtomicI64::new(1);
    let number = FAILED.fetch_add(1, Ordering::Relaxed);
    let directory = format!("answerlog-failed-{}-{number}", std::process::id());
    let directory = std::env::temp_dir().join(directory);
    // What cannot be kept is shown in part all the same.
    let _ = std::fs::create_dir_all(&directory);
    let keep = |name: String, text: &[u8]| drop(std::fs::write(directory.join(name), text));
    for member in &world.members {
        keep(
            member.who.to_string().replace(' ', "-"),
            member.program.log().as_bytes(),
        );
    }
    let copy = |name: &str, log: &Path| keep(name.to_owned(), &std::fs::read(log).unwrap_or_default());
    copy("nats", &world.broker.log());
    copy("postgres", &world.postgres.server().log());
    directory
}

fn ahead_of_system(ahead: Arc<AtomicI64>) -> Clock {
    let system = Clock::system();
    Clock::new(move || system.now() + time::Duration::milliseconds(ahead.load(Ordering::Relaxed)))
}
