//! TLS: certificate, key, and who may be a client. The files are read again when they change, or when told so; while
//! they can't be used, what was read before stays.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use forebay::runtime::files::{self, NAMED_FILE_BYTES_MAX};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use thiserror::Error;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

/// How often new connections look whether the files have changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The files that TLS is served with, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those between it and its root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Roots of clients' certificates; without it clients need none.
    pub client_roots: Option<PathBuf>,
}

/// Why TLS can't be served with the files there are.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file can't be read.
    #[error("can't read the {what} {file}: {why}; check {setting}", file = file.display())]
    File {
        /// Which of them.
        what: &'static str,
        /// Its path.
        file: PathBuf,
        /// What is wrong.
        why: String,
        /// The setting that names it.
        setting: &'static str,
    },
    /// The certificate's time is over, or has not come.
    #[error("the certificate {file} {why}; put a valid one there, with its key", file = file.display())]
    Time {
        /// Its path.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Certificate and key do not belong together, or are of no use.
    #[error(
        "the certificate {certificate} and the key {key} can't be used together: {why}; --tls-key has to be the key \
         that the certificate was made for",
        certificate = certificate.display(),
        key = key.display()
    )]
    Pair {
        /// The certificate's path.
        certificate: PathBuf,
        /// The key's path.
        key: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// When the files were changed.
type Stamp = [Option<SystemTime>; 3];

/// What TLS is served with.
pub struct Tls {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
    looked: Mutex<(Stamp, Duration)>,
}

impl Tls {
    /// Reads the files. `now_ms` is the wall clock, ms since the Unix epoch.
    pub fn open(files: TlsFiles, now_ms: u64) -> Result<Tls, TlsError> {
        let stamp = files.stamp();
        let config = RwLock::new(Arc::new(files.read(now_ms)?));
        Ok(Tls { files, config, looked: Mutex::new((stamp, Duration::ZERO)) })
    }

    /// Reads the files again; if they can't be used, what was read before stays.
    pub fn reload(&self, now_ms: u64) -> Result<(), TlsError> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).0 = self.files.stamp();
        let config = Arc::new(self.files.read(now_ms)?);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        tracing::info!(certificate = %self.files.certificate.display(), "read certificate and key");
        Ok(())
    }

    /// What the next connection is served with. `elapsed` is a clock that never goes back.
    pub fn config(&self, now_ms: u64, elapsed: Duration) -> Arc<ServerConfig> {
        if self.changed(elapsed)
            && let Err(error) = self.reload(now_ms)
        {
            tracing::warn!(%error, "serving on with the certificate that was read before");
        }
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn changed(&self, elapsed: Duration) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if elapsed.saturating_sub(looked.1) < LOOK_EVERY {
            return false;
        }
        looked.1 = elapsed;
        looked.0 != self.files.stamp()
    }
}

impl TlsFiles {
    fn stamp(&self) -> Stamp {
        let changed = |file: &Path| std::fs::metadata(file).and_then(|data| data.modified()).ok();
        [changed(&self.certificate), changed(&self.key), self.client_roots.as_deref().and_then(changed)]
    }

    fn read(&self, now_ms: u64) -> Result<ServerConfig, TlsError> {
        let chain = certificates("certificate", "--tls-cert", &self.certificate)?;
        self.check_time(&chain[0], now_ms)?;
        let key = files::read(&self.key, NAMED_FILE_BYTES_MAX).map_err(pem::Error::Io);
        let key = key.and_then(|text| PrivateKeyDer::from_pem_slice(&text));
        let key = key.map_err(|error| file_error("key", "--tls-key", &self.key, why(&error)))?;
        let pair = |error: rustls::Error| TlsError::Pair {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            why: error.to_string(),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().map_err(pair)?;
        let builder = match &self.client_roots {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let refused = |why: String| file_error("clients' roots", "--tls-client-ca", file, why);
                let mut roots = RootCertStore::empty();
                for root in certificates("clients' roots", "--tls-client-ca", file)? {
                    roots.add(root).map_err(|error| refused(error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| refused(error.to_string()))?)
            }
        };
        builder.with_single_cert(chain, key).map_err(pair)
    }

    /// Clients would refuse it, each with a text of its own; so it is said here.
    fn check_time(&self, certificate: &CertificateDer<'_>, now_ms: u64) -> Result<(), TlsError> {
        let now = UnixTime::since_unix_epoch(Duration::from_millis(now_ms));
        let refused = |why: String| file_error("certificate", "--tls-cert", &self.certificate, why);
        let parsed = EndEntityCert::try_from(certificate).map_err(|error| refused(error.to_string()))?;
        let anchor = anchor_from_trusted_cert(certificate).map_err(|error| refused(error.to_string()))?;
        let (algorithms, anchors) = (webpki::ALL_VERIFICATION_ALGS, [anchor]);
        // Who has signed it is the clients' business; its time is looked at before that.
        let verified = parsed.verify_for_usage(algorithms, &anchors, &[], now, KeyUsage::server_auth(), None, None);
        let why = match verified.err() {
            Some(webpki::Error::CertExpired { not_after, .. }) => {
                format!("has expired {} h ago", now.as_secs().saturating_sub(not_after.as_secs()) / 3600)
            }
            Some(webpki::Error::CertNotValidYet { not_before, .. }) => {
                format!("is not valid for another {} h", not_before.as_secs().saturating_sub(now.as_secs()) / 3600)
            }
            _ => return Ok(()),
        };
        Err(TlsError::Time { file: self.certificate.clone(), why })
    }
}

fn file_error(what: &'static str, setting: &'static str, file: &Path, why: String) -> TlsError {
    TlsError::File { what, file: file.into(), why, setting }
}

fn why(error: &rustls::pki_types::pem::Error) -> String {
    match error {
        rustls::pki_types::pem::Error::Io(error) => error.to_string(),
        rustls::pki_types::pem::Error::NoItemsFound => "nothing of the kind is in it (PEM)".into(),
        error => error.to_string(),
    }
}

/// The certificates of a file, at least one.
fn certificates(
    what: &'static str,
    setting: &'static str,
    file: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refused = |error: rustls::pki_types::pem::Error| file_error(what, setting, file, why(&error));
    let text = files::read(file, NAMED_FILE_BYTES_MAX).map_err(|error| refused(pem::Error::Io(error)))?;
    let read = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>().map_err(refused)?;
    match read.is_empty() {
        true => Err(refused(rustls::pki_types::pem::Error::NoItemsFound)),
        false => Ok(read),
    }
}
