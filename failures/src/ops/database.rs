//! The database server: killed, read-only, put back to an older state.

use std::time::Duration;

use sandbox::servers::{Backup, Postgres};

use crate::world::{Host, World};

impl World {
    /// The database server, when it is this world's own.
    ///
    /// # Panics
    /// When it is shared with other tests: see [`Setup::postgres`](crate::Setup::postgres).
    pub fn postgres(&mut self) -> &mut Postgres {
        match &mut self.postgres {
            Host::Own(server) => server,
            Host::Shared(_) => panic!("this world shares its database server"),
        }
    }

    /// Kills the database server as a crash would (SIGKILL). Its data stay.
    pub fn kill_database(&mut self) {
        self.postgres().kill();
    }

    /// Starts it again on its port and data, killing it first when it runs; returns when it takes clients.
    pub async fn restart_database(&mut self) {
        self.postgres().restart().await;
    }

    /// Lets every new transaction be read-only, as a server does that is about to be failed over or whose disk is
    /// nearly full; or no longer.
    ///
    /// # Panics
    /// When the server does not take the setting.
    pub async fn set_read_only(&mut self, read_only: bool) {
        let set = if read_only {
            "alter system set default_transaction_read_only = on"
        } else {
            "alter system reset default_transaction_read_only"
        };
        let sql = self.sql().await;
        for statement in [set, "select pg_reload_conf()"] {
            sql.simple_query(statement)
                .await
                .unwrap_or_else(|e| panic!("{statement}: {e}"));
        }
        // A signal tells the sessions; a new one has it from its start.
        let expected = if read_only { "on" } else { "off" };
        sandbox::eventually("the setting is in force", Duration::from_secs(10), async || {
            let row = self
                .sql()
                .await
                .query_one("show default_transaction_read_only", &[])
                .await;
            row.is_ok_and(|row| row.get::<_, &str>(0) == expected)
        })
        .await;
    }

    /// Copies everything that the database server holds, under whatever load there is.
    ///
    /// # Panics
    /// When the server gives no copy: [`PostgresOptions::backups`](sandbox::servers::PostgresOptions::backups) is needed.
    pub async fn back_up_database(&mut self) -> Backup {
        let backup = self.postgres().back_up().await;
        backup.unwrap_or_else(|e| panic!("backing up the database: {e}"))
    }

    /// Puts back what the database server held when `backup` was made: everything committed since is lost. It runs when
    /// this returns.
    ///
    /// # Panics
    /// When it does not come back.
    pub async fn put_back_database(&mut self, backup: &Backup) {
        let put_back = self.postgres().put_back(backup).await;
        put_back.unwrap_or_else(|e| panic!("putting the database back: {e}"));
    }
}
