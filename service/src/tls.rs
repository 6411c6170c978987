//! TLS as a client: which certificate authorities are trusted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{ClientConfig, RootCertStore, crypto};
use thiserror::Error;

/// Why a file of certificate authorities cannot be used.
#[derive(Debug, Error)]
pub enum AuthoritiesError {
    /// The file cannot be read, or something in it is not a certificate.
    #[error("reading certificate authorities from {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// A certificate cannot be used as an authority.
    #[error("using a certificate of {} as an authority", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The file holds no certificate.
    #[error("no certificate in {}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Adds the certificate authorities of the PEM file at `path` to `roots`.
///
/// # Errors
/// When the file cannot be read, or holds no certificate that can be used. Some may have been added by then.
pub fn add_authorities(roots: &mut RootCertStore, path: &Path) -> Result<(), AuthoritiesError> {
    let unreadable = |source| AuthoritiesError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mut found = false;
    for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
        roots
            .add(certificate.map_err(unreadable)?)
            .map_err(|source| AuthoritiesError::Unusable {
                path: path.to_owned(),
                source,
            })?;
        found = true;
    }
    if found {
        Ok(())
    } else {
        Err(AuthoritiesError::Empty {
            path: path.to_owned(),
        })
    }
}

/// A client that trusts `roots` and shows no certificate of its own.
pub fn client_config(roots: RootCertStore) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn add(text: &str) -> Result<(), AuthoritiesError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.pem");
        fs::write(&path, text).unwrap();
        add_authorities(&mut RootCertStore::empty(), &path)
    }

    #[test]
    fn a_file_without_an_authority_is_refused_for_a_reason() {
        assert!(matches!(add(""), Err(AuthoritiesError::Empty { .. })));
        assert!(matches!(add("no PEM"), Err(AuthoritiesError::Empty { .. })));
        let broken = "-----BEGIN CERTIFICATE-----\n%\n-----END CERTIFICATE-----\n";
        assert!(matches!(add(broken), Err(AuthoritiesError::Unreadable { .. })));
        let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(matches!(add(junk), Err(AuthoritiesError::Unusable { .. })));
        let nowhere = add_authorities(&mut RootCertStore::empty(), Path::new("/nowhere/ca.pem"));
        assert!(matches!(nowhere, Err(AuthoritiesError::Unreadable { .. })));
    }
}
