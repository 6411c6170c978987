//! A small disk that can be filled to the last byte.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use nix::unistd::Uid;

use super::ServerError;

/// `$1` is where to mount, `$2` the size in bytes, `$3` where others find what was mounted. It lives until the pipe closes,
/// because we let go of it or because we are dead, and the disk goes with it.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
mount -t tmpfs -o "size=$2,mode=0777" tmpfs "$1" || exit 1
echo "$3$1"
cat > /dev/null
umount -l "$1"
rmdir "$1"
"#;

/// A disk in memory, of a size. Gone when dropped, with what is on it.
///
/// Root mounts it for everybody. Anybody else mounts it in a user namespace, and reaches into that.
#[derive(Debug)]
pub struct Disk {
    root: PathBuf,
    holder: Child,
}

impl Disk {
    /// An empty disk of `bytes`.
    ///
    /// # Errors
    /// When this user may not mount one: neither as root nor in a user namespace.
    pub fn new(bytes: u64) -> Result<Self, ServerError> {
        let dir = tempfile::Builder::new()
            .prefix("answerlog-disk-")
            .tempdir()
            .map_err(ServerError::io("creating a temporary directory"))?
            .keep();
        let mut command = if Uid::effective().is_root() {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", SCRIPT, "disk"]).arg(&dir);
            shell.args([&bytes.to_string(), ""]);
            shell
        } else {
            let mut unshare = Command::new("unshare");
            let script = format!("set -- \"$1\" \"$2\" \"/proc/$$/root\"\n{SCRIPT}");
            unshare.args(["--user", "--map-root-user", "--mount", "/bin/sh", "-c"]);
            unshare.arg(script).arg("disk").arg(&dir).arg(bytes.to_string());
            unshare
        };
        let attempt = || format!("mounting a disk of {bytes} bytes");
        let mut holder = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(ServerError::io(attempt()))?;
        let mut root = String::new();
        if let Some(said) = holder.stdout.take() {
            BufReader::new(said)
                .read_line(&mut root)
                .map_err(ServerError::io(attempt()))?;
        }
        let root = root.trim_end();
        if root.is_empty() {
            let mut output = String::new();
            if let Some(mut said) = holder.stderr.take() {
                said.read_to_string(&mut output)
                    .map_err(ServerError::io(attempt()))?;
            }
            let program = "mount".into();
            return Err(ServerError::Failed { program, output });
        }
        let root = PathBuf::from(root);
        Ok(Self { root, holder })
    }

    /// Its root directory, which everybody may write to.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Takes every byte that is left.
    ///
    /// # Errors
    /// When it refuses for another reason than that it is full.
    pub fn fill(&self) -> Result<(), ServerError> {
        let fill = || {
            let mut ballast = File::options().create(true).append(true).open(self.ballast())?;
            // Ever smaller pieces: a large one may fail where a small one still fits.
            for size in [1 << 20, 4096, 1] {
                let piece = vec![0; size];
                loop {
                    match ballast.write(&piece) {
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(())
        };
        fill().map_err(ServerError::io("filling a disk"))
    }

    /// Gives back what [`fill`](Self::fill) took.
    ///
    /// # Errors
    /// When it was not filled.
    pub fn clear(&self) -> Result<(), ServerError> {
        fs::remove_file(self.ballast()).map_err(ServerError::io("clearing a disk"))
    }

    fn ballast(&self) -> PathBuf {
        self.root.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        // It is unmounted when this returns.
        let _ = self.holder.wait();
    }
}
