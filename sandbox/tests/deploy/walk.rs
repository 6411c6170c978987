//! A page of the documentation as a person walks through it: its shell commands, run as they stand there.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Command, Output},
};

use sandbox::servers::postgres_bin;

use crate::{deployment::Deployment, program, read, said};

/// A section of the page; each of its blocks is run once, in order, and none is left out.
pub(crate) struct Section {
    title: String,
    blocks: std::vec::IntoIter<String>,
}

/// The blocks of shell commands below a heading.
fn blocks(page: &str, title: &str) -> Vec<String> {
    let heading = format!("## {title}\n");
    let (_, rest) = page
        .split_once(&heading)
        .unwrap_or_else(|| panic!("no section {title:?}"));
    let section = rest.split("\n## ").next().unwrap();
    section
        .split("```sh\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

/// The titles of the sections that hold commands.
pub(crate) fn sections_with_commands(page: &str) -> Vec<String> {
    let titles = page.lines().filter_map(|line| line.strip_prefix("## "));
    titles
        .filter(|title| !blocks(page, title).is_empty())
        .map(ToOwned::to_owned)
        .collect()
}

impl Section {
    pub(crate) fn of(path: &str, title: &str) -> Self {
        let blocks = blocks(&read(path), title);
        assert!(!blocks.is_empty(), "{title} has no commands");
        Self {
            title: title.to_owned(),
            blocks: blocks.into_iter(),
        }
    }

    /// Runs the next block, which must hold `words`: so that it is seen here which one it is.
    #[track_caller]
    pub(crate) fn run(&mut self, person: &Person, words: &str) -> Output {
        person.shell(&self.block(words))
    }

    /// The next block, for a command that is run more than once.
    #[track_caller]
    pub(crate) fn block(&mut self, words: &str) -> String {
        let block = self
            .blocks
            .next()
            .unwrap_or_else(|| panic!("{} has no more commands", self.title));
        assert!(
            block.contains(words),
            "{words:?} is not in the next block:\n{block}"
        );
        block
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.blocks.next(), None, "{}: not walked through", self.title);
        }
    }
}

/// Somebody with a shell in a checkout of the project, beside the deployment.
pub(crate) struct Person {
    dir: PathBuf,
    variables: Vec<(String, OsString)>,
    replaced: Vec<(&'static str, &'static str)>,
}

impl Person {
    pub(crate) fn beside(deployment: &Deployment) -> Self {
        let dir = deployment.dir.path().join("checkout");
        fs::create_dir_all(dir.join("deploy")).unwrap();
        symlink(deployment.dir.path().join("secrets"), dir.join("deploy/secrets")).unwrap();
        let programs = program("projector");
        let path = [
            programs.parent().unwrap().to_owned(),
            postgres_bin().unwrap(),
            "/usr/bin".into(),
            "/bin".into(),
        ];
        let url = deployment.inside("projector", "/run/secrets/database.url");
        let url = fs::read_to_string(url).unwrap();
        let mut person = Self {
            dir,
            variables: Vec::new(),
            replaced: Vec::new(),
        };
        person.set("PATH", std::env::join_paths(path).unwrap());
        person.set("NATS_URL", deployment.nats.url());
        person.set("DATABASE_URL", url.trim());
        person.set("NATS_STORE", deployment.nats.store_dir());
        person
    }

    /// A variable of the shell.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.retain(|(set, _)| set != name);
        self.variables.push((name.to_owned(), value.into()));
    }

    /// A value of the page that is another one here.
    pub(crate) fn replace(&mut self, in_page: &'static str, here: &'static str) {
        self.replaced.push((in_page, here));
    }

    /// Runs a command, or several.
    pub(crate) fn shell(&self, commands: &str) -> Output {
        let mut script = commands.to_owned();
        for (in_page, here) in &self.replaced {
            script = script.replace(in_page, here);
        }
        Command::new("/bin/sh")
            .args(["-c", &script])
            .current_dir(&self.dir)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap()
    }
}

/// What it printed, once it has ended as it should.
#[track_caller]
pub(crate) fn well(output: &Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, said(output));
    said(output)
}
