//! What compose.yaml says agrees with itself, with the files that it mounts, and with the programs.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    ROOT,
    compose_file::{Mount, OURS, compose},
    program, read, said,
};

/// A variable that a program does not know would be ignored without a word.
#[test]
fn every_variable_of_a_service_is_a_setting_of_its_program() {
    let compose = compose();
    for name in OURS {
        let service = &compose.services[name];
        let mut help = Command::new(program(&service.build.as_ref().unwrap().target));
        let help = help
            .args(&service.command)
            .arg("--help")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(help.status.success(), "{name}: {}", said(&help));
        let text = said(&help);
        for variable in service.environment.keys() {
            let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
            assert!(
                text.split(word).any(|known| known == variable),
                "{name} does not know {variable}:\n{text}"
            );
        }
    }
}

#[test]
fn only_the_proxy_is_published_only_the_reconciler_calls_out_and_every_service_can_be_scaled() {
    let compose = compose();
    for (name, service) in &compose.services {
        assert_eq!(service.container_name, None, "{name}");
        let published: &[&str] = if name == "proxy" { &["443:443"] } else { &[] };
        assert_eq!(service.ports, published, "{name}");
    }
    let reaches_out = |name: &str| {
        compose.services[name]
            .networks
            .iter()
            .any(|net| !compose.networks[net].internal)
    };
    let outside: Vec<_> = compose.services.keys().filter(|name| reaches_out(name)).collect();
    assert_eq!(outside, ["proxy", "reconciler"]);
    // Its way out is its own: nobody else is in that network.
    let in_network = |net: &str| {
        let services = compose.services.iter();
        services
            .filter(|(_, service)| service.networks.iter().any(|own| own == net))
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!(in_network("provider"), ["reconciler"]);
    let share = |one: &str, other: &str| {
        let nets = &compose.services[other].networks;
        compose.services[one]
            .networks
            .iter()
            .any(|net| nets.contains(net))
    };
    for (one, other) in [
        ("proxy", "ingress"),
        ("ingress", "nats"),
        ("projector", "nats"),
        ("projector", "postgres"),
        ("reconciler", "nats"),
        ("reconciler", "postgres"),
        ("migrate", "postgres"),
    ] {
        assert!(share(one, other), "{one} cannot reach {other}");
    }
    for (one, other) in [
        ("ingress", "postgres"),
        ("proxy", "reconciler"),
        ("proxy", "nats"),
        ("proxy", "postgres"),
        ("nats", "postgres"),
    ] {
        assert!(!share(one, other), "{one} can reach {other}");
    }
}

#[test]
fn the_proxy_passes_the_route_and_the_port_of_ingress() {
    let compose = compose();
    let (ingress, proxy) = (
        &compose.services["ingress"].environment,
        &compose.services["proxy"].environment,
    );
    assert_eq!(ingress["HOOK_PATH"], proxy["HOOK_PATH"]);
    let caddyfile = read("deploy/Caddyfile");
    let port = ingress["LISTEN"].rsplit(':').next().unwrap();
    for line in [
        "name ingress".to_owned(),
        format!("port {port}"),
        "handle {$HOOK_PATH:/hooks/answers} {".to_owned(),
    ] {
        assert!(caddyfile.lines().any(|found| found.trim() == line), "{line}");
    }
}

#[test]
fn everything_that_is_named_is_there() {
    let compose = compose();
    let mut used = BTreeSet::new();
    for (name, service) in &compose.services {
        for mount in &service.secrets {
            assert!(
                compose.secrets.contains_key(mount.source()),
                "{name}: {}",
                mount.source()
            );
            used.insert(mount.source());
        }
        for mount in &service.configs {
            let file = &compose.configs[mount.source()].file;
            assert!(Path::new(ROOT).join(file).is_file(), "{}", file.display());
        }
        for volume in &service.volumes {
            assert!(
                compose.volumes.contains_key(volume.split(':').next().unwrap()),
                "{name}: {volume}"
            );
        }
        for other in service.depends_on.keys() {
            assert!(compose.services.contains_key(other), "{name}: {other}");
        }
        let files = service
            .environment
            .iter()
            .filter(|(variable, _)| variable.ends_with("_FILE"));
        for (variable, path) in files {
            let secret = path.strip_prefix("/run/secrets/").unwrap();
            assert!(
                service.secrets.iter().any(|mount| mount.source() == secret),
                "{name}: {variable}"
            );
        }
    }
    assert_eq!(used, compose.secrets.keys().map(String::as_str).collect());
}

#[test]
fn the_broker_finds_its_passwords_where_its_configuration_looks() {
    let compose = compose();
    let at = |mounts: &[Mount]| match mounts {
        [Mount::At { target, .. }] => target.clone(),
        _ => panic!("one mount with a target"),
    };
    let nats = &compose.services["nats"];
    let (config, passwords) = (at(&nats.configs), at(&nats.secrets));
    let included = passwords
        .strip_prefix(config.parent().unwrap())
        .unwrap()
        .to_str()
        .unwrap();
    assert!(
        read("deploy/nats.conf")
            .lines()
            .any(|line| line == format!("include {included:?}")),
        "{included}"
    );
    let flags = [
        "nats-server",
        "--config",
        config.to_str().unwrap(),
        "--store_dir",
        "/data",
    ];
    assert_eq!(nats.command, flags);
    assert_eq!(nats.volumes, ["log:/data"]);
}

#[test]
fn containers_get_longer_to_stop_than_the_programs_take() {
    let compose = compose();
    for name in ["ingress", "projector", "reconciler"] {
        let service = &compose.services[name];
        let help = Command::new(program(name))
            .args(&service.command)
            .arg("--help")
            .output()
            .unwrap();
        let text = said(&help);
        let (_, rest) = text.split_once("[env: STOP_GRACE=").unwrap();
        let grace = rest
            .split("[default: ")
            .nth(1)
            .unwrap()
            .split(']')
            .next()
            .unwrap();
        let grace = humantime::parse_duration(grace).unwrap();
        let given = humantime::parse_duration(service.stop_grace_period.as_ref().unwrap()).unwrap();
        assert!(given > grace, "{name}: {given:?} for {grace:?}");
    }
}
