//! How fast the tables are filled from a stream of realistic answers, compared with it and put right, how much memory that
//! takes, and where the processor time goes. On private servers, with the commands as an operator runs them:
//!
//! ```sh
//! cargo build --release -p projector --bins --examples && target/release/examples/rates 1000000
//! ```
//!
//! Give it the machine for itself. One million events take about 8 GB of disk, in the directory for temporary files.

use std::error::Error;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;
use std::{fs, io};

use sandbox::clock::Clock;
use sandbox::fill::{FillError, events, fill};
use sandbox::seed::Seed;
use sandbox::servers::{Database, NatsServer, Postgres, PostgresOptions};
use stream::connect::{Settings, connect};
use stream::declare::declare;
use stream::{Connection, StreamSpec};
use tokio::process::{Child, Command};
use tokio::time::Instant;

type Failure = Box<dyn Error + Send + Sync>;

/// Ticks of processor time in a second, on Linux.
const TICKS: f64 = 100.0;

/// Of each thousand rows, one is taken away, one is changed and one is made up.
const DAMAGE: &str = r#"
delete from answers where stream_seq % 1000 = 1;
update answers set response = '{"result": "forged"}' where stream_seq % 1000 = 2;
insert into answers select 'made up ' || stream_seq, task_id, null, status, created_at, response, response_digest, null, via,
                           stream_seq, received_at
                      from answers where stream_seq % 1000 = 3;
delete from winners where stream_seq % 1000 = 4;
update winners set status = 'FAILED', created_at = null where stream_seq % 1000 = 5;
insert into winners select 'made up ' || stream_seq, task_id, status, created_at, stream_seq from winners where stream_seq % 1000 = 6;
"#;

/// Between two deliveries, while the damage is repaired: fifty a second.
const PAUSE: Duration = Duration::from_millis(20);

struct Lab {
    nats: NatsServer,
    postgres: Postgres,
    database: Database,
    connection: Connection,
    spec: StreamSpec,
    clock: Clock,
    projector: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Some(count) = std::env::args().nth(1).and_then(|count| count.parse().ok()) else {
        eprintln!("usage: rates EVENTS");
        return ExitCode::from(64);
    };
    match measure(count).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rates: {}", service::Chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn measure(count: usize) -> Result<(), Failure> {
    let lab = Lab::start().await?;
    let begun = Instant::now();
    lab.deliver(Seed(7), count).await?;
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    println!("{count} events on the stream, {rate:.0} a second\n");

    lab.run("first load", &["rebuild"]).await?;
    lab.run("verify", &["verify"]).await?;
    lab.run("verify --deep", &["verify", "--deep"]).await?;

    lab.database.connect().await.batch_execute(DAMAGE).await?;
    let mut projecting = lab
        .command(&["run", "--admin-listen", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .spawn()?;
    tokio::select! {
        delivered = lab.deliver_steadily() => delivered?,
        repaired = lab.run("rebuild of damaged tables under load", &["rebuild"]) => repaired?,
    }
    projecting.kill().await?;
    Ok(())
}

impl Lab {
    async fn start() -> Result<Self, Failure> {
        let nats = NatsServer::start().await;
        let postgres = Postgres::start_with(PostgresOptions {
            durable: true,
            ..PostgresOptions::default()
        })
        .await?;
        let database = postgres.create_database().await?;
        let connection = connect(&Settings::for_url(nats.url()), "rates").await?;
        let spec = StreamSpec::default();
        declare(&connection, &spec).await?;
        let example = std::env::current_exe()?;
        let release = example.parent().and_then(|examples| examples.parent());
        Ok(Self {
            nats,
            postgres,
            database,
            connection,
            spec,
            clock: Clock::system(),
            projector: release
                .ok_or("this program lies in no directory")?
                .join("projector"),
        })
    }

    async fn deliver(&self, seed: Seed, count: usize) -> Result<(), FillError> {
        let StreamSpec { name, subjects, .. } = &self.spec;
        let events = events(seed, self.clock.now());
        fill(&self.connection.client, name, subjects, events, count).await
    }

    /// Ends only when it fails.
    async fn deliver_steadily(&self) -> Result<(), FillError> {
        let StreamSpec { name, subjects, .. } = &self.spec;
        let mut ticks = tokio::time::interval(PAUSE);
        for event in events(Seed(1_000_000), self.clock.now()) {
            ticks.tick().await;
            fill(&self.connection.client, name, subjects, std::iter::once(event), 1).await?;
        }
        Ok(())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.projector);
        command
            .args(arguments)
            .env_clear()
            .env("NATS_URL", self.nats.url())
            .env("DATABASE_URL", self.database.url())
            .env("LOG_FORMAT", "text")
            .kill_on_drop(true);
        command
    }

    /// Runs a command to its end, lets it print what it found, and prints what it took.
    async fn run(&self, what: &str, arguments: &[&str]) -> Result<(), Failure> {
        println!("# {what}");
        let (broker, rows) = (self.nats.pid(), self.postgres.pid());
        let before = (of_family(broker)?, of_family(rows)?);
        let (status, own, peak) = watch(self.command(arguments).spawn()?).await?;
        println!(
            "{status}; at most {} MiB of memory; seconds of processor time: broker {:.1}, database {:.1}, command {own:.1}\n",
            peak >> 10,
            of_family(broker)? - before.0,
            of_family(rows)? - before.1,
        );
        Ok(())
    }
}

/// Waits for the end of a process. Its processor time in seconds, and the most memory that it had, in KiB, both as last seen.
async fn watch(mut child: Child) -> Result<(ExitStatus, f64, u64), Failure> {
    let pid = child.id().ok_or("it has ended already")?;
    let (mut time, mut peak) = (0.0, 0);
    loop {
        // A process that has ended has no memory any more.
        if let Some(kib) = peak_memory(pid) {
            (time, peak) = (of_process(pid)?, kib);
        }
        match tokio::time::timeout(Duration::from_millis(10), child.wait()).await {
            Ok(status) => return Ok((status?, time, peak)),
            Err(_) => continue,
        }
    }
}

fn peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Seconds of processor time of a process, its children that have ended included.
fn of_process(pid: u32) -> io::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Behind the name, which may hold anything: fields 14 to 17, counted from 1 at the process id.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    let ticks: f64 = fields
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    Ok(ticks / TICKS)
}

/// The same of a process and its children.
fn of_family(pid: Option<u32>) -> Result<f64, Failure> {
    let pid = pid.ok_or("a server has ended")?;
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    // One that ends at this moment is counted with its parent the next time.
    let of_children: f64 = children.filter_map(|child| of_process(child).ok()).sum();
    Ok(of_process(pid)? + of_children)
}
