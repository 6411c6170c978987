//! Where everything is that is started.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use sandbox::program;

const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");
const TARGET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target");

/// The programs of ours, those of the peers, and this one.
#[derive(Debug, Clone)]
pub struct Installed {
    /// This program.
    pub bench: PathBuf,
    /// `ingress`.
    pub ingress: PathBuf,
    /// `projector`.
    pub projector: PathBuf,
    /// The inbox in Rust.
    pub inbox: PathBuf,
    /// The directory of programs that come with the Flask receiver.
    pub python: PathBuf,
}

impl Installed {
    /// Looks for everything: our programs in `directory`, Python below the build's directory.
    ///
    /// # Errors
    /// When something is missing.
    pub fn find(directory: &Path) -> Result<Self> {
        let python = Path::new(TARGET).join("peers/venv/bin");
        ensure!(
            python.join("gunicorn").is_file(),
            "there is no gunicorn in {}: `make peers` installs it",
            python.display()
        );
        Ok(Self {
            bench: program::find(directory, "bench")?,
            ingress: program::find(directory, "ingress")?,
            projector: program::find(directory, "projector")?,
            inbox: program::find(directory, "inbox")?,
            python,
        })
    }

    /// The directory of the Flask receiver's source.
    pub fn flask(&self) -> PathBuf {
        Path::new(PEERS).join("flask")
    }

    /// The directory that this program lies in, and so the others of the same build.
    ///
    /// # Errors
    /// When the system does not know.
    pub fn own_directory() -> Result<PathBuf> {
        let own = std::env::current_exe().context("asking where this program is")?;
        let directory = own.parent().context("a program lies in a directory")?;
        // Tests lie one directory further down.
        let above = directory.parent().filter(|_| directory.ends_with("deps"));
        Ok(above.unwrap_or(directory).to_owned())
    }
}
