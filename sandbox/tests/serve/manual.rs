//! docs/sandbox.md holds: its commands are run against the program, and it tells of every route, flag and fault.

use std::fs;
use std::process::Command;
use std::time::Duration;

use sandbox::eventually;
use serde_json::json;

use crate::program::{SANDBOX, Serve};
use crate::receiver::Receiver;

const SOON: Duration = Duration::from_secs(60);

fn manual() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/sandbox.md")).unwrap()
}

/// The commands of the manual, in order.
fn commands() -> Vec<String> {
    let manual = manual();
    let blocks = manual.split("```sh\n").skip(1);
    let lines = blocks.flat_map(|block| block.split("```").next().unwrap().lines());
    lines.map(str::to_owned).collect()
}

/// `curl` with what it must come to: a status, one of two, or curl's own exit code.
const CHECKS: &str = r#"
check() {
    wanted=$1; shift
    ended=0; got=$(curl -s -o "$answer" -w '%{http_code}' "$@") || ended=$?
    if [ $ended != 0 ]; then got="exit $ended"; fi
    case " or $wanted or " in
        *" or $got or "*) ;;
        *) echo "wanted $wanted, got $got: curl $*" >&2; cat "$answer" >&2; exit 1 ;;
    esac
}
"#;

/// A command as the test runs it: where the manual says what `curl` comes to, that is checked.
fn checked(line: &str) -> String {
    let said = line
        .strip_prefix("curl ")
        .and_then(|rest| rest.split_once("   # "));
    match said {
        Some((arguments, outcome)) => {
            let wanted = outcome.split(':').next().unwrap().trim();
            format!("check '{wanted}' {arguments}")
        }
        None => line.to_owned(),
    }
}

#[tokio::test]
async fn every_command_of_the_manual_comes_to_what_the_manual_says() {
    let receiver = Receiver::start().await;
    let hook = format!("http://{}/hooks/answers", receiver.address);
    let serve = Serve::start(&["--speed", "20", "--hook-url", &hook]);
    receiver.trust(&serve.secret);
    let files = tempfile::tempdir().unwrap();
    let commands = commands();
    let curls = commands.iter().filter(|line| line.starts_with("curl "));
    assert!(
        curls.clone().all(|line| checked(line).starts_with("check ")),
        "a command does not say what it comes to"
    );
    assert!(curls.count() > 40);
    let script: Vec<String> = commands.iter().map(|line| checked(line)).collect();
    // The key of the manual is the one that the default seed gives; the port and the receiver are the test's own.
    assert!(
        script[1].contains(&serve.key),
        "{} does not hold {}",
        script[1],
        serve.key
    );
    let script = format!(
        "set -eu\nanswer={}\n{CHECKS}\n{}",
        files.path().join("answer").display(),
        script.join("\n")
    )
    .replace("http://127.0.0.1:7070", &serve.url)
    .replace("http://127.0.0.1:8080/hooks/answers", &hook);

    let run = tokio::process::Command::new("sh")
        .args(["-c", &script])
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(SOON, run)
        .await
        .expect("done in time")
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    eventually("a test delivery", SOON, async || {
        receiver.verified().iter().any(|body| body["test"] == true)
    })
    .await;
}

/// Method and path, without query and with what varies left out.
fn route(line: &str) -> Option<(String, String)> {
    let line = line.strip_prefix("curl ")?.split("   # ").next()?;
    let path = line.split("$api").nth(1)?.split(['"', ' ', '?']).next()?;
    let method = match line.split_once("-X ") {
        Some((_, rest)) => rest.split(' ').next()?,
        None if line.contains(" -d ") => "POST",
        None => "GET",
    };
    let varies = |part: &str| part.starts_with(['$', '{']) || part.bytes().all(|byte| byte.is_ascii_digit());
    let path: Vec<&str> = path
        .split('/')
        .skip(1)
        .map(|part| if varies(part) { "*" } else { part })
        .collect();
    Some((method.to_owned(), path.join("/")))
}

#[test]
fn every_route_of_the_dashboard_is_tried_in_the_manual() {
    let serve = Serve::start(&[]);
    let listed = serve.get("/dashboard");
    let tried: Vec<_> = commands().iter().filter_map(|line| route(line)).collect();
    let routes = listed["routes"].as_array().unwrap();
    assert!(routes.len() > 12);
    for listed in routes {
        let (method, path) = (
            listed["method"].as_str().unwrap(),
            listed["path"].as_str().unwrap(),
        );
        let listed = route(&format!("curl -X {method} $api{path} ")).unwrap();
        assert!(tried.contains(&listed), "{method} {path} is not tried");
    }
}

#[test]
fn every_fault_of_the_manual_is_taken_and_there_are_no_others() {
    let serve = Serve::start(&[]);
    let manual = manual();
    let table = manual
        .split("| `\"fault\"` |")
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next()
        .unwrap();
    let cells = table.lines().skip(2).filter_map(|row| row.split('|').nth(1));
    let named: Vec<&str> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    for fault in &named {
        let wish = json!({"fault": fault, "status": 503, "to": "/", "pauseMs": 1, "bytes": 1});
        assert_eq!(serve.post("/dashboard/faults", &wish)["success"], true, "{fault}");
    }
    let refused = serve.post("/dashboard/faults", &json!({"fault": "?"}));
    let known = refused["error"]["details"][0]["message"].as_str().unwrap();
    let known: Vec<&str> = known.split('`').skip(3).step_by(2).collect();
    assert!(known.len() > 14, "{refused}");
    assert!(
        known.iter().all(|fault| named.contains(fault)),
        "{known:?} are not all in {named:?}"
    );
}

#[test]
fn every_flag_and_its_default_is_in_the_manual() {
    let help = Command::new(SANDBOX).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let flags: Vec<&str> = words
        .split(" --")
        .skip(1)
        .filter(|part| !part.starts_with("help"))
        .collect();
    assert!(flags.len() > 7, "{words}");
    let manual = manual();
    for flag in flags {
        let name = flag.split(' ').next().unwrap();
        let default = flag
            .split_once("[default: ")
            .map(|(_, rest)| rest.split(']').next().unwrap());
        let row = match default {
            Some(default) => format!("| `--{name}` | `{default}` |"),
            None => format!("| `--{name}` |  |"),
        };
        assert!(manual.contains(&row), "the manual lacks {row}");
    }
}
