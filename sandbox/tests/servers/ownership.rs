//! Whose the servers are, and what becomes of them without their owner.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

use sandbox::{
    eventually,
    servers::{NatsServer, Postgres},
};

use crate::SOON;

/// A process that is killed cannot clean up after itself: this test binary, run again as that process.
#[tokio::test]
async fn servers_of_a_killed_process_end_with_it_and_leave_no_directory() {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ownership::the_owner_of_two_servers", "--nocapture"])
        .env("SANDBOX_OWNER", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let left: Vec<PathBuf> = lines
        .filter_map(|line| line.strip_prefix("left: ").map(PathBuf::from))
        .take(4)
        .collect();
    assert!(
        left.len() == 4 && left.iter().all(|path| path.exists()),
        "{left:?}"
    );
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("processes and directories are gone", SOON, async || {
        let there: Vec<_> = left.iter().filter(|path| path.exists()).collect();
        if there.is_empty() {
            Ok(())
        } else {
            Err(format!("{there:?}"))
        }
    })
    .await;
}

/// Does nothing unless it is started by the test above, which kills it while it waits.
#[tokio::test]
async fn the_owner_of_two_servers() {
    #[expect(
        clippy::disallowed_methods,
        reason = "it is how the test above speaks to this process"
    )]
    let started_by_the_test = std::env::var_os("SANDBOX_OWNER").is_some();
    if !started_by_the_test {
        return;
    }
    let nats = NatsServer::start().await;
    let postgres = Postgres::shared().await;
    nats.pause(); // even a frozen one ends
    for (pid, log) in [(nats.pid(), nats.log()), (postgres.pid(), postgres.log())] {
        println!("left: /proc/{}", pid.unwrap());
        println!("left: {}", log.parent().unwrap().display());
    }
    std::future::pending::<()>().await;
}
