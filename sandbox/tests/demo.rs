//! The demo as a person runs it: the built program, with the built programs beside it.

#![cfg(test)] // for clippy: what is allowed in tests is allowed in their helpers too

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

const SANDBOX: &str = env!("CARGO_BIN_EXE_sandbox");

/// Where cargo puts the programs.
fn programs() -> PathBuf {
    let directory = Path::new(SANDBOX).parent().unwrap();
    for name in ["ingress", "projector", "reconciler"] {
        let program = directory.join(name);
        assert!(
            program.is_file(),
            "{} is missing: run `make test`, which builds every program first",
            program.display()
        );
    }
    directory.to_owned()
}

/// A demo that keeps its files in a directory of its own, so that a test can see what it leaves behind.
struct Demo {
    files: TempDir,
    command: Command,
}

impl Demo {
    /// The deadline bounds the test as well.
    fn new(arguments: &[&str]) -> Self {
        Self::within("2m", arguments)
    }

    fn within(deadline: &str, arguments: &[&str]) -> Self {
        programs();
        let files = tempfile::tempdir().unwrap();
        // Postgres runs as another user where this is root.
        fs::set_permissions(files.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = Command::new(SANDBOX);
        command
            .arg("demo")
            .args(arguments)
            .args(["--deadline", deadline])
            .env("TMPDIR", files.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self { files, command }
    }

    fn output(&mut self) -> Output {
        self.command.output().unwrap()
    }

    fn start(mut self) -> Running {
        let mut child = self.command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Running {
            files: self.files,
            child,
            lines,
        }
    }
}

struct Running {
    files: TempDir,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// Reads on to the line that begins like this.
    fn read_to(&mut self, beginning: &str) -> String {
        let mut seen = Vec::new();
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            if line.trim_start().starts_with(beginning) {
                return line;
            }
            seen.push(line);
        }
        panic!(
            "the demo printed no line that begins with `{beginning}`, but:\n{}",
            seen.join("\n")
        );
    }

    /// Its child process of this name.
    fn process(&self, name: &str) -> Pid {
        let pid = self.child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let of_threads = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        let pids: Vec<String> = of_threads.chain([children]).collect();
        pids.iter()
            .flat_map(|line| line.split_whitespace())
            .find(|child| {
                fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim() == name)
            })
            .map(|child| Pid::from_raw(child.parse().unwrap()))
            .unwrap_or_else(|| panic!("the demo runs no `{name}`"))
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits for its end; exit code, standard error, and what is left of its files.
    fn end(self) -> (Option<i32>, String, Vec<String>) {
        let output = self.child.wait_with_output().unwrap();
        let left = fs::read_dir(self.files.path()).unwrap().flatten();
        let left = left.map(|entry| entry.file_name().to_string_lossy().into_owned());
        // The leases of ports are empty files that every run shares.
        let left = left.filter(|name| !name.starts_with("answerlog-ports")).collect();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
            left,
        )
    }
}

#[test]
fn two_hundred_tasks_are_answered_and_nothing_is_lost_or_doubled() {
    let output = Demo::new(&["--tasks", "200", "--seed", "7"]).output();
    let (told, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(
        told.lines().last(),
        Some("demo: 200 tasks, 200 answered, 0 lost, 0 duplicated"),
        "{told}\n{errors}"
    );
    assert!(output.status.success(), "{told}\n{errors}");
}

#[test]
fn a_demo_that_is_kept_open_can_be_looked_at_and_ends_when_told() {
    let mut demo = Demo::new(&["--tasks", "50", "--keep"]).start();
    demo.read_to("where to look");
    let line = demo.lines.next().unwrap().unwrap();
    demo.read_to("demo: 50 tasks, 50 answered, 0 lost, 0 duplicated");
    let looked = Command::new("sh")
        .args(["-c", &format!("{line} -Atc 'select count(*) from answers'")])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&looked.stdout).trim(),
        "50",
        "{line}: {looked:?}"
    );
    demo.signal(Signal::SIGTERM);
    assert_eq!(demo.end(), (Some(0), String::new(), Vec::new()));
}

#[test]
fn a_demo_that_takes_too_long_says_what_it_was_doing() {
    let (code, errors, left) = Demo::within("50ms", &[]).start().end();
    let told = "sandbox: not done within 50ms; the demo was starting a broker, a database and the programs\n";
    assert_eq!((code, errors.as_str(), left), (Some(1), told, Vec::new()));
}

#[test]
fn a_demo_that_is_interrupted_leaves_nothing_behind() {
    let mut demo = Demo::new(&["--tasks", "2000"]).start();
    demo.read_to("demo: delivering");
    let broker = demo.process("nats-server");
    demo.signal(Signal::SIGINT);
    assert_eq!(
        demo.end(),
        (Some(1), "sandbox: interrupted\n".to_owned(), Vec::new())
    );
    assert!(kill(broker, None).is_err(), "the broker still runs");
}

#[test]
fn a_program_that_dies_is_named_with_the_end_of_its_log() {
    let mut demo = Demo::new(&["--tasks", "20", "--keep"]).start();
    demo.read_to("demo: 20 tasks");
    kill(demo.process("ingress"), Signal::SIGKILL).unwrap();
    let (code, errors, left) = demo.end();
    assert_eq!((code, left), (Some(1), Vec::new()));
    assert!(errors.contains("ingress ended (signal: 9"), "{errors}");
}

/// A directory with the real programs, but for one that is this shell script. `$REAL` in it is the real one.
fn programs_with(name: &str, script: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let real = programs();
    for program in ["ingress", "projector", "reconciler"]
        .into_iter()
        .filter(|program| *program != name)
    {
        symlink(real.join(program), directory.path().join(program)).unwrap();
    }
    let script = format!("#!/bin/sh\nREAL='{}'\n{script}", real.join(name).display());
    let program = directory.path().join(name);
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    directory
}

#[test]
fn a_program_that_does_not_start_is_named_with_the_end_of_its_log() {
    let faulty = programs_with("ingress", "echo the secret is missing >&2; exit 64");
    let demo = Demo::new(&["--profile-dir", faulty.path().to_str().unwrap()]).start();
    let (code, errors, left) = demo.end();
    assert_eq!((code, left), (Some(1), Vec::new()));
    assert!(
        errors.contains("ingress did not become ready") && errors.contains("the secret is missing"),
        "{errors}"
    );
}

/// Rows of ids that begin with 0 are swallowed, those that begin with 1 are written twice.
const SABOTAGE: &str = "
create function swallow() returns trigger language plpgsql as $$ begin return null; end $$;
create function repeat() returns trigger language plpgsql as
  $$ begin update answers set status = status where task_id = new.task_id; return null; end $$;
create trigger swallow before insert on answers for each row when (new.task_id like '0%') execute function swallow();
create trigger repeat after insert on answers for each row when (new.task_id like '1%') execute function repeat();
";

#[test]
fn rows_that_are_dropped_or_written_twice_are_counted_and_fail_the_demo() {
    let psql = sandbox::servers::postgres_bin().unwrap().join("psql");
    let script = format!(
        "if [ \"$1\" != migrate ]; then exec \"$REAL\" \"$@\"; fi\n\
         \"$REAL\" migrate && {} -q \"$DATABASE_URL\" <<'END'\n{SABOTAGE}END\n",
        psql.display()
    );
    let faulty = programs_with("projector", &script);
    let output = Demo::new(&["--tasks", "200", "--profile-dir", faulty.path().to_str().unwrap()]).output();
    let (told, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let last = told.lines().last().unwrap_or_default();
    let counts: Vec<u32> = last
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    let &[tasks, answered, lost, duplicated] = counts.as_slice() else {
        panic!("{told}\n{errors}")
    };
    assert_eq!((tasks, answered + lost), (200, 200), "{told}");
    assert!(lost > 0 && duplicated > 0, "{told}");
    assert_eq!(output.status.code(), Some(1), "{told}\n{errors}");
}
