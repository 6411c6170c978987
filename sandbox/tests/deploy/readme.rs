//! The README names every setting of the programs with its variable and its default.

use std::process::Command;

use crate::{program, read};

/// A setting as `--help` prints it.
#[derive(Debug)]
struct Setting {
    flag: String,
    variable: String,
    default: Option<String>,
}

impl Setting {
    /// How its row in the README begins.
    fn row(self) -> String {
        let Self {
            flag,
            variable,
            default,
        } = self;
        match default {
            Some(default) => format!("| `{flag}` | `{variable}` | `{default}` |"),
            None => format!("| `{flag}` | `{variable}` |  |"),
        }
    }
}

fn settings(name: &str, arguments: &[&str], least: usize) -> Vec<Setting> {
    let output = Command::new(program(name))
        .args(arguments)
        .arg("--help")
        .env_clear()
        .output()
        .unwrap();
    assert!(output.status.success(), "`{name} --help` fails");
    let help = String::from_utf8(output.stdout).unwrap();
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    // Each setting begins with its flag and has its variable behind it; the text between may name other flags.
    let mut settings = Vec::new();
    let mut rest = words.as_str();
    while let Some((before, after)) = rest.split_once("[env: ") {
        // Where a value may hold a password it is left out, and its `=` with it.
        let (shown, after) = after.split_once(']').unwrap();
        let variable = shown.split('=').next().unwrap();
        let flag = before
            .split(' ')
            .collect::<Vec<_>>()
            .windows(2)
            .rfind(|pair| pair[0].starts_with("--") && pair[1].starts_with('<'))
            .unwrap_or_else(|| panic!("{variable} has no flag in `{name} --help`"))[0]
            .to_owned();
        let default = after
            .strip_prefix(" [default: ")
            .map(|text| text.split(']').next().unwrap().to_owned());
        settings.push(Setting {
            flag,
            variable: variable.to_owned(),
            default,
        });
        rest = after;
    }
    assert!(
        settings.len() >= least,
        "`{name} --help` names hardly any setting"
    );
    settings
}

#[test]
fn the_readme_names_every_setting_with_its_variable_and_default() {
    let readme = read("README.md");
    let ingress = settings("ingress", &[], 20);
    let projector = settings("projector", &["run"], 20);
    let verify = settings("projector", &["verify"], 20);
    let rebuild = settings("projector", &["rebuild"], 20);
    let reconciler = settings("reconciler", &["run"], 40);
    let record = settings("reconciler", &["record"], 5);
    let tools = [
        settings("projector", &["explain"], 15),
        settings("projector", &["parked", "list"], 4),
        settings("projector", &["parked", "retry"], 15),
        settings("projector", &["erase"], 15),
    ];
    let missing: Vec<String> = ingress
        .into_iter()
        .chain(projector)
        .chain(verify)
        .chain(rebuild)
        .chain(reconciler)
        .chain(record)
        .chain(tools.into_iter().flatten())
        .map(Setting::row)
        .filter(|row| !readme.contains(row))
        .collect();
    assert!(
        missing.is_empty(),
        "the README lacks these rows:\n{}",
        missing.join("\n")
    );
}
