//! The two examples as processes, and their tables.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use sandbox::eventually;
use sandbox::program::Program;
use sandbox::servers::{Database, Postgres};
use schemas::event::percent;
use serde_json::Value;
use tokio_postgres::Client;

use crate::SOON;
use crate::python::{EXAMPLES, Python};
use crate::world::{API, World};

/// An example, and what it has kept.
pub(crate) trait Subscriber: Sized {
    /// One that does not run yet.
    async fn of(world: &World) -> Self;

    fn program(&mut self) -> &mut Program;

    /// Its table, as JSON; bodies in lower-case hexadecimal.
    async fn table(&self) -> String;

    /// A second in the way that it reads a time.
    fn a_second() -> &'static str;

    fn start(&mut self) {
        self.program().start().unwrap();
    }

    /// Asks it to stop, and sees that it does so in good order.
    async fn stop(&mut self) {
        let program = self.program();
        program.signal(Signal::SIGTERM);
        let status = program.wait_ended(SOON).await.expect("it ends");
        assert_eq!(status.code(), Some(0), "{}", program.log_tail());
    }

    async fn rows(&self) -> Vec<Row> {
        let rows: Value = serde_json::from_str(&self.table().await).unwrap();
        rows.as_array().unwrap().iter().map(Row::read).collect()
    }

    async fn ids(&self) -> BTreeSet<String> {
        self.rows().await.into_iter().map(|row| row.event_id).collect()
    }

    /// Waits until it has kept everything that was appended, as it was.
    async fn has_all_of(&self, world: &World) {
        eventually("it has everything", SOON, async || {
            let ids = self.ids().await;
            let missing = world.ids().difference(&ids).count();
            if missing == 0 { Ok(()) } else { Err(missing) }
        })
        .await;
        let mut rows = self.rows().await;
        let mut expected: Vec<_> = world.appended.iter().map(Row::of).collect();
        rows.sort();
        expected.sort();
        assert!(
            rows == expected,
            "{} rows for {} events",
            rows.len(),
            expected.len()
        );
    }

    /// How many events it has taken, and how many rows that changed, over all its processes.
    fn taken(&mut self) -> (u64, u64) {
        let log = self.program().log();
        let counts = log.lines().filter_map(|line| {
            let (events, rows) = line.strip_suffix(" rows")?.split_once(" events, ")?;
            Some((events.parse::<u64>().ok()?, rows.parse::<u64>().ok()?))
        });
        counts.fold((0, 0), |sum, (events, rows)| (sum.0 + events, sum.1 + rows))
    }
}

/// What both examples keep of an event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) event_id: String,
    pub(crate) task_id: String,
    pub(crate) kind: String,
    pub(crate) key: Option<String>,
    pub(crate) body: String,
}

impl Row {
    fn read(row: &Value) -> Self {
        let text = |name: &str| row[name].as_str().map(str::to_owned);
        Self {
            event_id: text("event_id").unwrap(),
            task_id: text("task_id").unwrap(),
            kind: text("type").unwrap(),
            key: text("idempotency_key"),
            body: text("body").unwrap(),
        }
    }

    fn of(event: &schemas::event::Event) -> Self {
        let header = |name: &str| {
            let mut headers = event.headers.iter();
            headers
                .find(|(found, _)| *found == name)
                .map(|(_, value)| value.to_string())
        };
        let decoded = |name: &str| Some(percent::decode(&header(name)?).unwrap().into_owned());
        Self {
            event_id: event.msg_id.to_string(),
            task_id: decoded("ce-taskid").unwrap(),
            kind: header("ce-type").unwrap(),
            key: decoded("ce-subject"),
            body: event.body.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

fn program(name: &'static str, binary: PathBuf, world: &World) -> Program {
    let mut program = Program::new(name, binary).unwrap();
    program.set("NATS_URL", world.nats.server.url());
    program.set("NATS_USER", "subscriber");
    program.set(
        "NATS_PASSWORD_FILE",
        world.nats.password_file("subscriber").display(),
    );
    program.set("NATS_API_PREFIX", API);
    program
}

/// `subscriber.rs`
pub(crate) struct InRust {
    program: Program,
    pub(crate) sql: Client,
    _database: Database,
}

impl Subscriber for InRust {
    async fn of(world: &World) -> Self {
        let database = Postgres::shared().await.fresh_database().await;
        // Cargo builds examples beside the directory of their tests.
        let test = std::env::current_exe().unwrap();
        let binary = test.ancestors().nth(2).unwrap().join("examples/subscriber");
        assert!(
            binary.is_file(),
            "not built: cargo build --package examples --examples"
        );
        let mut program = program("subscriber.rs", binary, world);
        program.set("DATABASE_URL", database.url());
        Self {
            program,
            sql: database.connect().await,
            _database: database,
        }
    }

    fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    async fn table(&self) -> String {
        let exists = self
            .sql
            .query_one("select to_regclass('results') is not null", &[]);
        if !exists.await.unwrap().get::<_, bool>(0) {
            return "[]".to_owned();
        }
        let all = "select coalesce(json_agg(json_build_object('event_id', event_id, 'task_id', task_id, 'type', type,
                'idempotency_key', idempotency_key, 'body', encode(body, 'hex')))::text, '[]') from results";
        self.sql.query_one(all, &[]).await.unwrap().get(0)
    }

    fn a_second() -> &'static str {
        "1s"
    }
}

/// `subscriber.py`
pub(crate) struct InPython {
    program: Program,
    python: &'static Python,
    dir: tempfile::TempDir,
}

impl InPython {
    fn path(&self) -> PathBuf {
        self.dir.path().join("results.sqlite")
    }
}

impl Subscriber for InPython {
    async fn of(world: &World) -> Self {
        let python = Python::get().await;
        let dir = tempfile::tempdir().unwrap();
        let script = Path::new(EXAMPLES).join("subscriber.py");
        let mut program = program("subscriber.py", python.interpreter.clone(), world);
        program.set("PYTHONPATH", python.packages.display());
        let mut subscriber = Self { program, python, dir };
        let path = subscriber.path();
        subscriber
            .program
            .arguments(&[script.to_str().unwrap(), path.to_str().unwrap()]);
        subscriber
    }

    fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    async fn table(&self) -> String {
        if !self.path().is_file() {
            return "[]".to_owned();
        }
        let program = "import sqlite3, sys\n\
            table = sqlite3.connect(sys.argv[1], timeout=30)\n\
            there = table.execute(\"select count(*) from sqlite_master where name = 'results'\").fetchone()[0]\n\
            all = \"select json_group_array(json_object('event_id', event_id, 'task_id', task_id, 'type', type,\"\\\n\
            \" 'idempotency_key', idempotency_key, 'body', lower(hex(body)))) from results\"\n\
            print(table.execute(all).fetchone()[0] if there else '[]')";
        self.python.eval(program, &self.path())
    }

    fn a_second() -> &'static str {
        "1"
    }
}
