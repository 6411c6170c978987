//! The certificate of the public port.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use service::ConfigFaults;

/// `Some(None)` for plain HTTP; `None` when what was set cannot be used.
#[expect(
    clippy::option_option,
    reason = "absent by choice is another thing than unusable"
)]
pub(super) fn server(
    cert: Option<&Path>,
    key: Option<&Path>,
    faults: &mut ConfigFaults,
) -> Option<Option<Arc<ServerConfig>>> {
    match (cert, key) {
        (None, None) => Some(None),
        (Some(cert), Some(key)) => faults.take(load(cert, key)).map(Some),
        (Some(_), None) => {
            faults.push("--tls-key is needed beside --tls-cert");
            None
        }
        (None, Some(_)) => {
            faults.push("--tls-cert is needed beside --tls-key");
            None
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum TlsError {
    #[error("--tls-cert: reading {path}")]
    Cert { path: String, source: pem::Error },
    #[error("--tls-cert: {path} holds no certificate")]
    NoCert { path: String },
    #[error("--tls-key: reading {path}")]
    Key { path: String, source: pem::Error },
    #[error("--tls-cert and --tls-key")]
    Pair(#[source] rustls::Error),
}

fn load(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let (cert_path, key_path) = (cert.display().to_string(), key.display().to_string());
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect);
    let chain = chain.map_err(|source| TlsError::Cert {
        path: cert_path.clone(),
        source,
    })?;
    if chain.is_empty() {
        return Err(TlsError::NoCert { path: cert_path });
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::Key {
        path: key_path,
        source,
    })?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has suites for TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(TlsError::Pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
