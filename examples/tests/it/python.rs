//! Python, with what `examples/requirements.txt` asks for.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

pub(crate) const EXAMPLES: &str = env!("CARGO_MANIFEST_DIR");

/// An interpreter, and the directory with the packages.
#[derive(Debug, Clone)]
pub(crate) struct Python {
    pub(crate) interpreter: PathBuf,
    pub(crate) packages: PathBuf,
}

static PYTHON: OnceCell<Python> = OnceCell::const_new();

impl Python {
    /// Installs the packages when they are not there yet, below `target`.
    pub(crate) async fn get() -> &'static Self {
        PYTHON.get_or_init(async || Self::install()).await
    }

    fn install() -> Self {
        let python = |arguments: &[&str]| run(Command::new("python3").args(arguments));
        // By its own name: what `python3` leads to may be a script that needs its environment.
        let named = python(&["-c", "import sys; print(sys.executable)"]).stdout;
        let interpreter = String::from_utf8(named).unwrap().trim().into();

        let requirements = Path::new(EXAMPLES).join("requirements.txt");
        let hash = Sha256::digest(std::fs::read(&requirements).unwrap());
        let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let version = python(&["-c", "import sys; print(*sys.version_info[:2], sep='.')"]).stdout;
        let version = String::from_utf8(version).unwrap();
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let packages = kept.join(format!("python-{}-{hash}", version.trim()));
        if !packages.is_dir() {
            // In two steps, so that the directory is never there by half; not a virtual environment, which needs more than pip.
            let new = tempfile::tempdir_in(kept).unwrap();
            let target = new.path().to_str().unwrap();
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install"])
                .args([
                    "--no-deps",
                    "--only-binary=:all:",
                    "--require-hashes",
                    "--target",
                    target,
                ])
                .arg("--requirement")
                .arg(&requirements);
            run(&mut pip);
            // Another process may have been first.
            if std::fs::rename(new.path(), &packages).is_err() {
                assert!(packages.is_dir(), "{} cannot be made", packages.display());
            }
        }
        Self {
            interpreter,
            packages,
        }
    }

    /// Runs a short program to its end; what it printed.
    pub(crate) fn eval(&self, program: &str, argument: &Path) -> String {
        let output = run(Command::new(&self.interpreter)
            .args(["-c", program])
            .arg(argument));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}; the Python example needs Python 3 with pip, as `make servers` does")
    });
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
