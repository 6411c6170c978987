//! TLS to the database.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};
use sandbox::servers::{Postgres, PostgresOptions};

use crate::answer::Answer;
use crate::world::{World, shared_nats};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/tls")
        .join(name)
}

/// The server reads its key only where nobody else can: a copy that belongs to whoever the server runs as.
fn key_for_the_server(dir: &Path) -> PathBuf {
    let key = dir.join("server.key");
    fs::copy(fixture("server.key"), &key).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    if Uid::effective().is_root() {
        let user = User::from_name("postgres")
            .unwrap()
            .or(User::from_name("nobody").unwrap())
            .unwrap();
        chown(&key, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
    }
    key
}

#[tokio::test]
async fn with_certificate_authorities_the_server_must_show_a_certificate_of_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = dir.path().join("server.pem");
    fs::copy(fixture("server.pem"), &certificate).unwrap();
    let key = key_for_the_server(dir.path());
    let extra = format!(
        "ssl = on\nssl_cert_file = '{}'\nssl_key_file = '{}'\n",
        certificate.display(),
        key.display()
    );
    let options = PostgresOptions {
        extra,
        ..PostgresOptions::default()
    };
    let server = Postgres::start_with(options).await.unwrap();
    let world = World::on(shared_nats().await, server.fresh_database().await).await;

    let stranger = world
        .projector()
        .set("DATABASE_CA", fixture("stranger.pem").display())
        .start();
    stranger.unready("database: connecting to the database").await;
    stranger.unready("certificate").await;

    let authority = fixture("authority.pem");
    let url = format!(
        "{}?sslmode=verify-full&sslrootcert={}",
        world.database.url(),
        authority.display()
    );
    let projector = world.projector().set("DATABASE_URL", url).start_ready().await;
    world.publish(&Answer::of("a")).await;
    world.rows("answers", 1).await;
    let encrypted = "select bool_and(ssl) from pg_stat_ssl join pg_stat_activity using (pid) where application_name = 'projector'";
    assert!(world.value::<bool>(encrypted, &[]).await);
    projector.stop().await;
}
