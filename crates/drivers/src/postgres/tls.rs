//! TLS to the server by rustls: the server's certificate is always checked against roots and name.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use forebay::runtime::files::{self, NAMED_FILE_BYTES_MAX};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client;

use super::OpenError;
use super::address::{Address, ClientFiles};

/// Makes TLS connections, or none where the address does without.
#[derive(Clone)]
pub(super) struct Tls(Option<TlsConnector>);

impl Tls {
    /// Reads the roots that `address` names, or the system's.
    pub(super) fn open(address: &Address) -> Result<Tls, OpenError> {
        if !address.tls() {
            return Ok(Tls(None));
        }
        let mut roots = RootCertStore::empty();
        match address.root_certificates() {
            Some(file) => {
                let wrong = |why: String| OpenError::RootCertificates { file: file.display().to_string(), why };
                let text = files::read(file, NAMED_FILE_BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
                for certificate in CertificateDer::pem_slice_iter(&text) {
                    let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
                    roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
                }
                if roots.is_empty() {
                    return Err(wrong("it holds no certificate".into()));
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    let (file, why) = ("of the system".to_owned(), "there are none".to_owned());
                    return Err(OpenError::RootCertificates { file, why });
                }
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| OpenError::RootCertificates { file: "of TLS".into(), why: error.to_string() })?
            .with_root_certificates(roots);
        let config = match address.client() {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let (chain, key) = of_client(files)?;
                let wrong = |error: rustls::Error| client_wrong(&files.certificate, error.to_string());
                builder.with_client_auth_cert(chain, key).map_err(wrong)?
            }
        };
        Ok(Tls(Some(TlsConnector::from(Arc::new(config)))))
    }
}

fn client_wrong(file: &Path, why: String) -> OpenError {
    OpenError::ClientCertificate { file: file.display().to_string(), why }
}

/// Our certificate, those that vouch for it, and its key.
fn of_client(given: &ClientFiles) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), OpenError> {
    let read =
        |file: &Path| files::read(file, NAMED_FILE_BYTES_MAX).map_err(|error| client_wrong(file, error.to_string()));
    let chain = CertificateDer::pem_slice_iter(&read(&given.certificate)?).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| client_wrong(&given.certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(client_wrong(&given.certificate, "it holds no certificate".into()));
    }
    let key = PrivateKeyDer::from_pem_slice(&read(&given.key)?);
    let key = key.map_err(|error| client_wrong(&given.key, error.to_string()))?;
    Ok((chain, key))
}

/// One handshake to come.
pub(super) struct Handshake {
    connector: Option<TlsConnector>,
    name: Option<ServerName<'static>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Stream<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Handshake> {
        let name = match self.0 {
            Some(_) => Some(ServerName::try_from(domain.to_owned()).map_err(io::Error::other)?),
            None => None,
        };
        Ok(Handshake { connector: self.0.clone(), name })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            match (self.connector, self.name) {
                (Some(connector), Some(name)) => connector.connect(name, stream).await.map(|tls| Stream(Box::new(tls))),
                _ => Err(io::Error::other("TLS is not asked for")),
            }
        })
    }
}

/// A socket under TLS.
pub(super) struct Stream<S>(Box<client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
