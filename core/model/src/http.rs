//! The one HTTP client of the process, built on first use and off the driver; and secrets.
//!
//! HTTP/1.1 over rustls with ring. Redirects are off: a key goes to the host that the user named
//! and to no other. There is a limit for connecting and one for silence, and none for the whole,
//! because a long answer is not a fault.

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bridle_compose::{Clock, SystemClock};
use reqwest::{Certificate, Client, ClientBuilder, Url};
use tokio::sync::OnceCell;

use crate::{FailureCode, ModelFailure};

/// How long a connection may take to be made, TLS included.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest file of certificates that is read.
const MAX_CA_FILE: u64 = 4 << 20;

/// A key. Its `Debug` shows nothing, and it has no `Display`.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a key.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The key, for the one header that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Shared handle to the process's client; cheap to clone.
#[derive(Clone)]
pub struct HttpClient {
    shared: Arc<Shared>,
    idle: Duration,
}

struct Shared {
    clock: Arc<dyn Clock>,
    ca_file: Option<PathBuf>,
    /// For `http` on this machine: needs neither proxies nor root certificates, whose loading
    /// would be most of the time of a first turn.
    loopback: OnceCell<Client>,
    /// For `https` on this machine.
    loopback_tls: OnceCell<Client>,
    /// For everything else; heeds the system's proxy settings.
    remote: OnceCell<Client>,
}

impl HttpClient {
    /// How long a provider may be silent unless the user says otherwise. Providers ping while a
    /// model thinks.
    pub const DEFAULT_IDLE: Duration = Duration::from_secs(180);

    /// A handle that gives a provider up after `idle` without a byte. Builds nothing yet.
    pub fn new(clock: Arc<dyn Clock>, idle: Duration) -> Self {
        Self::trusting(clock, idle, None)
    }

    /// As [`HttpClient::new`], and trusts the certificates in `ca_file` (PEM) besides those of the
    /// system. The file is read when the first client is built that needs it.
    pub fn trusting(clock: Arc<dyn Clock>, idle: Duration, ca_file: Option<PathBuf>) -> Self {
        let shared = Shared {
            clock,
            ca_file,
            loopback: OnceCell::new(),
            loopback_tls: OnceCell::new(),
            remote: OnceCell::new(),
        };
        Self { shared: Arc::new(shared), idle }
    }

    /// The same client, which gives a provider up after `idle` without a byte.
    #[must_use]
    pub fn patient(&self, idle: Duration) -> Self {
        Self { idle, ..self.clone() }
    }

    /// Builds what a call to `base_url` needs (proxy settings, root certificates), so that the
    /// first prompt does not wait for it. Opens no connection.
    ///
    /// # Errors
    /// `InvalidRequest` when `base_url` is not a URL or the root certificates cannot be loaded.
    ///
    /// # Cancel safety
    /// Cancel safe: the next call builds again.
    pub async fn warm(&self, base_url: &str) -> Result<(), ModelFailure> {
        let url = Url::parse(base_url).map_err(|error| {
            ModelFailure::new(FailureCode::InvalidRequest, format!("base URL: {error}"))
        })?;
        self.client_for(&url).await.map(drop)
    }

    /// The client that may talk to `url`.
    pub(crate) async fn client_for(&self, url: &Url) -> Result<Client, ModelFailure> {
        let encrypted = url.scheme() != "http";
        let local = is_loopback(url);
        let cell = match (local, encrypted) {
            (true, false) => &self.shared.loopback,
            (true, true) => &self.shared.loopback_tls,
            (false, _) => &self.shared.remote,
        };
        let ca_file = self.shared.ca_file.clone().filter(|_| encrypted || !local);
        cell.get_or_try_init(|| async move {
            // Root certificates are read from disk and parsed: milliseconds, off the async threads.
            tokio::task::spawn_blocking(move || build(local, encrypted, ca_file.as_deref()))
                .await
                .unwrap_or_else(|_| Err("building the HTTP client failed".to_owned()))
        })
        .await
        .cloned()
        .map_err(|reason| {
            // Waiting does not bring a missing certificate.
            ModelFailure::new(
                FailureCode::InvalidRequest,
                format!("the HTTP client could not be set up: {reason}"),
            )
        })
    }

    /// The clock that silence is measured with.
    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.shared.clock
    }

    /// Waits for `future`, but not longer than a provider may be silent.
    pub(crate) async fn unless_silent<T>(
        &self,
        future: impl Future<Output = T>,
    ) -> Result<T, ModelFailure> {
        let silence = self.shared.clock.sleep(self.idle);
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = silence => Err(ModelFailure::new(
                FailureCode::Silent,
                format!("the provider was silent for {} s", self.idle.as_secs_f64()),
            )),
        }
    }
}

impl Default for HttpClient {
    /// With the real clock and [`HttpClient::DEFAULT_IDLE`].
    fn default() -> Self {
        Self::new(Arc::new(SystemClock), Self::DEFAULT_IDLE)
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").field("idle", &self.idle).finish_non_exhaustive()
    }
}

/// The deepest cause of an error, which names the fault without the URL around it.
pub fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// How clients of this program reach `url`: who they say they are, how long they wait for a connection,
/// which proxies and certificates they heed. Reads certificates from the disk where `url` needs any.
///
/// # Errors
/// What is wrong with `ca_file`, for a person.
pub fn client_builder(url: &Url, ca_file: Option<&Path>) -> Result<ClientBuilder, String> {
    builder(is_loopback(url), url.scheme() != "http", ca_file)
}

fn build(local: bool, encrypted: bool, ca_file: Option<&Path>) -> Result<Client, String> {
    let builder = builder(local, encrypted, ca_file)?.redirect(reqwest::redirect::Policy::none());
    builder.build().map_err(|error| innermost(&error))
}

fn builder(local: bool, encrypted: bool, ca_file: Option<&Path>) -> Result<ClientBuilder, String> {
    // A second installation is refused, and then the first one serves.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut builder = Client::builder()
        .user_agent(concat!("bridle/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT);
    if local {
        builder = builder.no_proxy();
    }
    if local && !encrypted {
        builder = builder.tls_certs_only([]);
    }
    if let Some(path) = ca_file {
        builder = builder.tls_certs_merge(certificates(path)?);
    }
    Ok(builder)
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, String> {
    let fault = |reason: &dyn fmt::Display| format!("ca_file {}: {reason}", path.display());
    let metadata = fs_err::metadata(path).map_err(|error| format!("ca_file: {error}"))?;
    if !metadata.is_file() || metadata.len() > MAX_CA_FILE {
        return Err(fault(&format!("is no regular file of at most {MAX_CA_FILE} bytes")));
    }
    let pem = fs_err::read(path).map_err(|error| format!("ca_file: {error}"))?;
    let certificates =
        Certificate::from_pem_bundle(&pem).map_err(|error| fault(&innermost(&error)))?;
    if certificates.is_empty() {
        return Err(fault(&"holds no certificate in PEM form"));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_nothing() {
        assert_eq!(format!("{:?}", Secret::new("sk-marker")), "Secret");
    }

    #[test]
    fn loopback_hosts_are_told_from_others() {
        for (url, expected) in [
            ("http://127.0.0.1:8080/v1", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:1", true),
            ("https://localhost", true),
            ("http://model.localhost", true),
            ("http://10.0.0.1", false),
            ("https://api.anthropic.com", false),
            ("http://127.0.0.1.example.com", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[tokio::test]
    async fn warming_builds_once_and_a_bad_url_is_refused() {
        let http = HttpClient::default();
        http.warm("http://127.0.0.1:1").await.unwrap();
        assert!(http.shared.loopback.initialized());
        assert!(!http.shared.remote.initialized());
        let failure = http.warm("no url").await.unwrap_err();
        assert_eq!(failure.code, FailureCode::InvalidRequest);
    }
}
