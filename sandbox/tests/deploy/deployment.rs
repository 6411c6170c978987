//! compose.yaml at work without containers: its services run here as the file says. Only names of hosts and paths inside
//! containers are put in their place, and the stream is small.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command},
};

use http::Uri;
use sandbox::{
    api::{self, Api},
    clock::Clock,
    eventually,
    provider::{Provider, Settings, secrets::Secret},
    seed::Seed,
    sender::Account,
    servers::{NatsServer, Port, Postgres},
};

use crate::{
    SOON,
    broker::{make_secrets, options},
    compose_file::{Compose, compose},
    program, said,
};

pub(crate) const WEBHOOK_SECRET: &str = "whsec_a-secret-of-the-dashboard";

/// A deployment on this machine: the directories and servers that compose.yaml would make.
pub(crate) struct Deployment {
    pub(crate) compose: Compose,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) nats: NatsServer,
    pub(crate) postgres: Postgres,
    pub(crate) account: Account,
    pub(crate) provider: Api,
}

impl Deployment {
    pub(crate) async fn start() -> Self {
        let compose = compose();
        let dir = tempfile::tempdir().unwrap();
        let secrets = make_secrets(dir.path());
        fs::write(secrets.join("webhook.secrets"), format!("{WEBHOOK_SECRET}\n")).unwrap();

        let account = Account::new(Provider::new(
            Settings::loopback(Uri::from_static("http://127.0.0.1:9/hook")),
            Secret::generate(Seed(1), 0),
            Seed(1),
        ));
        let api = api::Settings::new(Seed(1));
        fs::write(secrets.join("provider.key"), format!("{}\n", api.key.expose())).unwrap();
        let provider = Api::start(account.clone(), api, Clock::system()).await.unwrap();

        let options = options(dir.path(), &compose.configs["nats.conf"].file);
        let (nats, postgres) = tokio::join!(NatsServer::start_with(options), Postgres::start());
        let deployment = Self {
            compose,
            dir,
            nats: nats.unwrap(),
            postgres,
            account,
            provider,
        };
        deployment.make_database().await;
        deployment
    }

    /// What the image of Postgres does at its first start with the variables of the service.
    pub(crate) async fn make_database(&self) {
        let variables = &self.compose.services["postgres"].environment;
        let (user, database) = (&variables["POSTGRES_USER"], &variables["POSTGRES_DB"]);
        let password =
            fs::read_to_string(self.inside("postgres", &variables["POSTGRES_PASSWORD_FILE"])).unwrap();
        let (client, connection) = tokio_postgres::connect(&self.postgres.url(), tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client
            .batch_execute(&format!(
                "create role {user} superuser login password '{password}'"
            ))
            .await
            .unwrap();
        client
            .batch_execute(&format!("create database {database} owner {user}"))
            .await
            .unwrap();

        // The URL names the host of the deployment.
        let url = self.dir.path().join("secrets/database.url");
        let text = fs::read_to_string(&url).unwrap();
        assert!(
            text.contains(&format!("//{user}:{password}@postgres:5432/{database}")),
            "{text}"
        );
        fs::write(
            &url,
            text.replace("postgres:5432", &self.postgres.addr().to_string()),
        )
        .unwrap();
    }

    /// The file that a path inside the containers of a service stands for.
    pub(crate) fn inside(&self, service: &str, path: &str) -> PathBuf {
        let name = path.strip_prefix("/run/secrets/").unwrap();
        let granted = self.compose.services[service]
            .secrets
            .iter()
            .any(|mount| mount.source() == name);
        assert!(granted, "{service} reads {path}, which is not among its secrets");
        self.dir
            .path()
            .join("secrets")
            .join(self.compose.secrets[name].file.file_name().unwrap())
    }

    /// A command of a service with its variables, and nothing else.
    pub(crate) fn command(
        &self,
        service: &str,
        arguments: &[String],
        admin: SocketAddr,
        public: SocketAddr,
    ) -> Command {
        let service_of = &self.compose.services[service];
        let mut command = Command::new(program(&service_of.build.as_ref().unwrap().target));
        command.args(arguments).env_clear();
        // The broker reserves it, and by deploy/nats.conf has no more than three quarters of what is free on this disk.
        command.env("STREAM_MAX_BYTES", "64MiB");
        for (name, value) in &service_of.environment {
            match name.as_str() {
                "NATS_URL" => {
                    assert_eq!(value, "nats://nats:4222");
                    command.env(name, self.nats.url())
                }
                "PROVIDER_URL" => {
                    assert_eq!(value, "${PROVIDER_URL:-https://api.answerline.dev}");
                    command.env(name, self.provider.url())
                }
                "LISTEN" => command.env(name, public.to_string()),
                "ADMIN_LISTEN" => command.env(name, admin.to_string()),
                _ if name.ends_with("_FILE") => command.env(name, self.inside(service, value)),
                _ => command.env(name, value),
            };
        }
        command
    }

    pub(crate) fn run(&self, service: &str) -> Running<'_> {
        self.run_with(service, &[])
    }

    /// As [`Deployment::run`], with more variables.
    pub(crate) fn run_with(&self, service: &str, variables: &[(&str, &str)]) -> Running<'_> {
        let (admin, public) = (Port::lease().unwrap(), Port::lease().unwrap());
        let arguments = &self.compose.services[service].command;
        let mut command = self.command(service, arguments, admin.addr(), public.addr());
        let log = self.dir.path().join(format!("{service}-{}.log", admin.number()));
        let output = fs::File::create(&log).unwrap();
        let child = command
            .envs(variables.iter().copied())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        Running {
            deployment: self,
            service: service.to_owned(),
            child,
            admin,
            public,
            log,
        }
    }
}

pub(crate) struct Running<'d> {
    pub(crate) deployment: &'d Deployment,
    pub(crate) service: String,
    pub(crate) child: Child,
    pub(crate) admin: Port,
    pub(crate) public: Port,
    pub(crate) log: PathBuf,
}

impl Running<'_> {
    /// Waits until the health check of the service, run as the container would run it, says that all is right.
    pub(crate) async fn is_healthy(&self) {
        let test = &self.deployment.compose.services[&self.service]
            .healthcheck
            .as_ref()
            .unwrap()
            .test;
        assert_eq!(test[..2], ["CMD".to_owned(), format!("/{}", self.service)]);
        eventually(&format!("{} is healthy", self.service), SOON, async || {
            let check = self
                .deployment
                .command(&self.service, &test[2..], self.admin.addr(), self.public.addr())
                .output();
            let check = check.unwrap();
            if check.status.success() {
                Ok(())
            } else {
                Err((said(&check), fs::read_to_string(&self.log).unwrap()))
            }
        })
        .await;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
