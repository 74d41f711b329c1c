//! The HTTP client: rustls with ring, no retries, no redirects, no environment proxy, no total timeout.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, NoProxy, Proxy, Url, redirect, retry};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Hosts a configured proxy is not asked for.
const DIRECT: &str = "localhost,127.0.0.0/8,::1";
/// How long an unused connection is kept. Short: a server that closes one as we write costs a spent receipt.
const POOL_IDLE: Duration = Duration::from_secs(20);

/// How the client behaves. Nothing here is read from the environment.
#[derive(Clone)]
pub struct HttpConfig {
    /// Proxy for everything but this machine; may hold credentials, so it has no `Debug`.
    pub proxy: Option<Url>,
    /// PEM file of certificate authorities trusted besides the system's.
    pub ca_file: Option<PathBuf>,
    /// Longest wait for a connection.
    pub connect: Duration,
    /// Longest wait for the response head.
    pub head: Duration,
    /// Longest silence in the middle of an answer.
    pub idle: Duration,
    /// Longest wait for a local server's list of models.
    pub probe: Duration,
    /// Pause between two words of the demo model; zero where nobody watches.
    pub demo_pause: Duration,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            proxy: None,
            ca_file: None,
            connect: Duration::from_secs(10),
            head: Duration::from_mins(10),
            idle: Duration::from_mins(5),
            probe: Duration::from_millis(150),
            demo_pause: Duration::ZERO,
        }
    }
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// `ca_file` cannot be read, or holds no certificate.
    #[error("[http] ca_file holds no readable PEM certificate")]
    CaFile,
    /// `proxy` is no proxy URL.
    #[error("[http] proxy is no proxy URL")]
    Proxy,
    /// The TLS library refused.
    #[error("no TLS client could be made: {0}")]
    Tls(#[from] rustls::Error),
    /// The HTTP library refused.
    #[error("no HTTP client could be made")]
    Client,
}

pub(crate) fn client(config: &HttpConfig) -> Result<Client, HttpError> {
    let builder = Client::builder()
        .tls_backend_preconfigured(tls(config)?)
        .retry(retry::never())
        .redirect(redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .connect_timeout(config.connect)
        .pool_idle_timeout(POOL_IDLE)
        .tcp_nodelay(true);
    let builder = match &config.proxy {
        Some(url) => builder.proxy(proxy(url)?),
        None => builder,
    };
    builder.build().map_err(|_| HttpError::Client)
}

fn proxy(url: &Url) -> Result<Proxy, HttpError> {
    let proxy = Proxy::all(url.clone()).map_err(|_| HttpError::Proxy)?;
    Ok(proxy.no_proxy(NoProxy::from_string(DIRECT)))
}

/// The system's certificates and `ca_file`'s. Where the system has none, local servers must still be reachable: then
/// only `ca_file` is trusted, and an https server fails at its handshake.
fn tls(config: &HttpConfig) -> Result<ClientConfig, HttpError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let extra = extra_roots(config)?;
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let tls = match system_verifier(extra.clone(), provider) {
        Ok(verifier) => builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)),
        Err(_) => builder.with_root_certificates(store(extra)),
    };
    Ok(tls.with_no_client_auth())
}

fn system_verifier(
    extra: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
) -> Result<rustls_platform_verifier::Verifier, rustls::Error> {
    rustls_platform_verifier::Verifier::new_with_extra_roots(extra, provider)
}

fn store(roots: Vec<CertificateDer<'static>>) -> RootCertStore {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots);
    store
}

fn extra_roots(config: &HttpConfig) -> Result<Vec<CertificateDer<'static>>, HttpError> {
    let Some(path) = &config.ca_file else { return Ok(Vec::new()) };
    // A pipe or a device would be read for ever.
    if !std::fs::metadata(path).is_ok_and(|at| at.is_file()) {
        return Err(HttpError::CaFile);
    }
    let found = CertificateDer::pem_file_iter(path).map_err(|_| HttpError::CaFile)?;
    let roots = found.collect::<Result<Vec<_>, _>>().map_err(|_| HttpError::CaFile)?;
    if roots.is_empty() { Err(HttpError::CaFile) } else { Ok(roots) }
}
