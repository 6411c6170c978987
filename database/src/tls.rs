//! How connections to Postgres are made: plainly, or by TLS with a certificate that is always checked.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use deadpool_postgres::Connect;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore, crypto};
use thiserror::Error;
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

/// Why certificate authorities cannot be used.
#[derive(Debug, Error)]
pub enum AuthoritiesError {
    /// The file cannot be read, or a certificate in it is none.
    #[error("reading certificate authorities from {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::pki_types::pem::Error,
    },
    /// A certificate cannot be used as an authority.
    #[error("using a certificate of {} as an authority", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// There is nothing in it.
    #[error("no certificate in {}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl Connector {
    /// TLS with the certificate authorities of a PEM file.
    ///
    /// # Errors
    /// When the file cannot be read or holds no certificate.
    pub fn with_authorities(path: &PathBuf) -> Result<Self, AuthoritiesError> {
        let unreadable = |source| AuthoritiesError::Unreadable {
            path: path.clone(),
            source,
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
            roots
                .add(certificate.map_err(unreadable)?)
                .map_err(|source| AuthoritiesError::Unusable {
                    path: path.clone(),
                    source,
                })?;
        }
        if roots.is_empty() {
            return Err(AuthoritiesError::Empty { path: path.clone() });
        }
        let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has the default versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self::Tls(MakeRustlsConnect::new(config)))
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
