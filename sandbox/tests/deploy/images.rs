//! The images of the programs.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use crate::{
    ROOT,
    compose_file::{OURS, compose},
    program, read, said,
};

/// The stages of the Dockerfile, each with its instructions.
fn stages() -> BTreeMap<String, Vec<String>> {
    let text = read("Dockerfile").replace("\\\n", " ");
    let mut stages: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut stage = String::new();
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if line.starts_with("FROM ") {
            line.split_whitespace().last().unwrap().clone_into(&mut stage);
        }
        stages.entry(stage.clone()).or_default().push(line.to_owned());
    }
    stages
}

#[test]
fn images_hold_one_program_run_it_as_nobody_and_check_its_health() {
    let (compose, stages) = (compose(), stages());
    let build = stages["build"].join("\n");
    let toolchain = format!("FROM rust:{}-bookworm AS build", rust_version());
    assert_eq!(stages["build"][0], toolchain);
    for name in OURS {
        let service = &compose.services[name];
        let target = &service.build.as_ref().unwrap().target;
        let image = &stages[target];
        assert_eq!(service.image, format!("answerlog-{target}"));
        assert!(service.read_only);
        assert!(build.contains(&format!("cargo build --locked --release -p {target} ")));
        assert!(build.contains(&format!(
            "deploy/image-root /image/{target} target/release/{target}"
        )));
        for instruction in [
            format!("FROM scratch AS {target}"),
            format!("COPY --from=build /image/{target} /"),
            "USER 65532:65532".to_owned(),
            format!(r#"ENTRYPOINT ["/{target}"]"#),
        ] {
            assert!(image.contains(&instruction), "{target}: {instruction}");
        }
        let check = format!(r#"CMD ["/{target}", "healthcheck"]"#);
        assert!(
            image
                .iter()
                .any(|line| line.starts_with("HEALTHCHECK ") && line.ends_with(&check)),
            "{target}"
        );
    }
}

fn rust_version() -> String {
    let manifest = read("Cargo.toml");
    let line = manifest
        .lines()
        .find(|line| line.starts_with("rust-version"))
        .unwrap();
    line.split('"').nth(1).unwrap().to_owned()
}

/// The image of a program is no more than what it needs to run, and is that.
#[test]
fn the_root_of_an_image_holds_the_program_its_libraries_and_no_shell() {
    let dir = tempfile::tempdir().unwrap();
    let script = Path::new(ROOT).join("deploy/image-root");
    let made = Command::new(script)
        .arg(dir.path())
        .arg(program("ingress"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", said(&made));
    let mut files: Vec<String> = Vec::new();
    let mut left = vec![dir.path().to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                left.push(entry);
            } else {
                files.push(entry.file_name().unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    assert!(
        files.contains(&"ingress".to_owned()) && files.contains(&"ca-certificates.crt".to_owned()),
        "{files:?}"
    );
    assert!(files.iter().any(|file| file.starts_with("ld-linux")), "{files:?}");
    let other = files
        .iter()
        .find(|file| !["ingress", "ca-certificates.crt"].contains(&file.as_str()) && !file.contains(".so"));
    assert_eq!(other, None);
}
