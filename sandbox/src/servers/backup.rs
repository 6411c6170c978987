//! A database server as it was, to be put back later.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use super::{Postgres, ServerError, postgres::USER};

static NEXT: AtomicU32 = AtomicU32::new(1);

/// A copy of everything that a database server held at one moment. Gone when dropped.
#[derive(Debug)]
pub struct Backup {
    path: PathBuf,
}

impl Postgres {
    /// Copies everything that it holds, while it runs and whatever it is doing, as `pg_basebackup` does for an operator.
    ///
    /// # Errors
    /// When it does not run, or [`PostgresOptions::backups`](super::PostgresOptions::backups) is off.
    pub async fn back_up(&self) -> Result<Backup, ServerError> {
        let dir = self.process.dir();
        let backup = Backup {
            path: dir.join(format!("backup-{}", NEXT.fetch_add(1, Ordering::Relaxed))),
        };
        let addr = self.addr();
        let mut command = self.kind.tool("pg_basebackup", dir);
        command
            .args(["--username", USER, "--host", &addr.ip().to_string()])
            .args(["--port", &addr.port().to_string()])
            .args(["--checkpoint", "fast", "--no-sync", "--pgdata"])
            .arg(&backup.path);
        run(command).await?;
        Ok(backup)
    }

    /// Stops it when it runs, puts back what it held when `backup` was made, and starts it again on its port. Everything
    /// committed since is lost.
    ///
    /// # Errors
    /// When the copy cannot be put back, or the server does not start from it.
    pub async fn put_back(&mut self, backup: &Backup) -> Result<(), ServerError> {
        if self.pid().is_some() {
            self.stop().await;
        }
        let dir = self.process.dir().to_owned();
        let data = self.kind.data(&dir);
        remove(&data)?;
        let mut command = self.kind.as_owner(Path::new("cp"), &dir);
        command.arg("-a").arg(&backup.path).arg(&data);
        run(command).await?;
        self.run().await
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        // When the server went first, its directory took this along.
        let _ = remove(&self.path);
    }
}

fn remove(path: &Path) -> Result<(), ServerError> {
    fs::remove_dir_all(path).map_err(ServerError::io(format!("removing {}", path.display())))
}

async fn run(command: Command) -> Result<(), ServerError> {
    let program = PathBuf::from(command.get_program());
    let output = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .output()
        .await
        .map_err(ServerError::io(format!("starting {}", program.display())))?;
    if output.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(ServerError::Failed { program, output })
}
