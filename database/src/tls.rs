//! How connections to Postgres are made: plainly, or by TLS with a certificate that is always checked.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;

use deadpool_postgres::Connect;
use rustls::RootCertStore;
use service::tls::{AuthoritiesError, add_authorities, client_config};
use tokio::task::JoinHandle;
use tokio_postgres::tls::NoTls;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Makes connections to Postgres.
#[derive(Clone)]
pub enum Connector {
    /// Without TLS.
    Plain,
    /// With TLS; the server's certificate must be signed by one of the given authorities and be made out to the
    /// host's name.
    Tls(MakeRustlsConnect),
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Tls(_) => "Tls",
        })
    }
}

impl Connector {
    /// TLS with the certificate authorities of a PEM file.
    ///
    /// # Errors
    /// See [`AuthoritiesError`].
    pub fn with_authorities(path: &Path) -> Result<Self, AuthoritiesError> {
        let mut roots = RootCertStore::empty();
        add_authorities(&mut roots, path)?;
        Ok(Self::Tls(MakeRustlsConnect::new(client_config(roots))))
    }
}

impl Connect for Connector {
    fn connect(
        &self,
        config: &Config,
    ) -> Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), tokio_postgres::Error>> + Send + '_>>
    {
        let config = config.clone();
        Box::pin(async move {
            // The end of a connection shows in every request on it: there is nothing to add by logging it here.
            match self {
                Self::Plain => {
                    let (client, connection) = config.connect(NoTls).await?;
                    Ok((client, tokio::spawn(async { drop(connection.await) })))
                }
                Self::Tls(tls) => {
                    let (client, connection) = config.connect(tls.clone()).await?;
                    Ok((client, tokio::spawn(async { drop(connection.await) })))
                }
            }
        })
    }
}
