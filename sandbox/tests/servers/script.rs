//! `scripts/servers`, which `make servers` runs.

use std::{path::PathBuf, process::Command};

/// `scripts/servers` with `directories` in front of PATH, each holding a nats-server that claims to be of a version.
fn script(versions: &[&str], nats_server: Option<&str>) -> (bool, String, Vec<PathBuf>) {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let claim = |version: &&str| {
        let directory = dir.path().join(version);
        let program = directory.join("nats-server");
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(&program, format!("#!/bin/sh\necho nats-server: v{version}\n")).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        program
    };
    let programs: Vec<PathBuf> = versions.iter().map(claim).collect();
    let directories = programs
        .iter()
        .map(|program| program.parent().unwrap().display().to_string());
    let prepend = directories.map(|directory| directory + ":").collect::<String>();
    // The shell knows its own PATH, so that this test need not.
    let run = r#"PATH="$1$PATH" exec "$2""#;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/servers");
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", run, "sh", &prepend, path])
        .env_remove("NATS_SERVER");
    if let Some(named) = nats_server {
        command.env("NATS_SERVER", named);
    }
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8(said).unwrap(),
        programs,
    )
}

#[test]
fn the_script_takes_the_first_server_on_the_path_that_is_new_enough() {
    let (found, said, programs) = script(&["2.9.10", "2.11.99", "2.12.0", "2.15.1"], None);
    assert!(
        found && said.contains(&format!("({})", programs[2].display())),
        "{said}"
    );
    let (found, said, programs) = script(&["10.0.1"], None);
    assert!(
        found && said.contains(&format!("({})", programs[0].display())),
        "{said}"
    );
}

#[test]
fn the_script_says_in_one_line_that_a_named_server_is_none() {
    let (found, said, _) = script(&[], Some("/nowhere/nats-server"));
    assert!(!found);
    assert_eq!(
        said,
        "servers: NATS_SERVER names /nowhere/nats-server, which is no program\n"
    );
}
