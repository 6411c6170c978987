//! What ends a server and removes its directory when the process that started it could not.
//!
//! `Drop` does not run for statics, nor in a process that was killed. So each directory has a shell process beside it
//! that reads a pipe from us: every line is the pid that now runs in the directory, an empty line says that none does.
//! When the pipe closes, because we let go of it or because we are dead, it kills what runs and removes the directory.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::ServerError;

/// `$1` is the directory. It is told pids that are alive or not yet reaped, so it never meets a recycled one.
/// QUIT first: Postgres gives its shared memory back then. A stopped process acts on it only once it goes on. One that was
/// killed leaves behind the segment by which it knows that it is alone, and a machine has room for some thousand of those; its
/// number is the last on the seventh line of the file that it would have removed.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
pid=
while IFS= read -r line; do pid=$line; done
if [ -n "$pid" ]; then
    kill -QUIT "$pid"
    kill -CONT "$pid"
    tries=0
    while kill -0 "$pid" && [ "$tries" -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
    kill -KILL "$pid"
fi
if [ -f "$1/data/postmaster.pid" ]; then
    segment=$(sed -n '7s/.* //p' "$1/data/postmaster.pid")
    [ -z "$segment" ] || ipcrm -m "$segment"
fi
rm -rf -- "$1"
"#;

/// A directory, and the process that removes it in any case.
#[derive(Debug)]
pub(crate) struct Janitor {
    dir: PathBuf,
    shell: Child,
}

impl Janitor {
    /// Creates a fresh directory whose name starts with `prefix`.
    pub(crate) fn new(prefix: &str) -> Result<Self, ServerError> {
        let dir = tempfile::Builder::new()
            .prefix(prefix)
            .tempdir()
            .map_err(ServerError::io("creating a temporary directory"))?
            .keep();
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "janitor"])
            .arg(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Out of the terminal's foreground group: Ctrl-C must not end the one that cleans up after it.
            .process_group(0)
            .spawn()
            .map_err(ServerError::io("starting /bin/sh"))?;
        Ok(Self { dir, shell })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Says which process runs in the directory now.
    pub(crate) fn watch(&mut self, pid: Option<u32>) {
        let line = pid.map_or_else(|| "\n".to_owned(), |pid| format!("{pid}\n"));
        let pipe = self.shell.stdin.as_mut().expect("the pipe is taken only in drop");
        // Fails only when somebody killed the shell; then there is nobody to tell.
        let _ = pipe.write_all(line.as_bytes());
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // The directory is gone when this returns.
        let _ = self.shell.wait();
    }
}
