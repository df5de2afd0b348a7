//! The server: a listener on loopback and the handle a test holds.

use std::fmt;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::dispatch::{self, Shared};
use crate::{Delivery, Recorded, Reply, Script, Violation};

/// The most connections served at once; more wait in the listener's queue.
const MAX_CONNECTIONS: usize = 256;

/// A running server. Dropping it stops it and closes its connections.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

impl ModelServer {
    /// Starts a server on a free port of 127.0.0.1, on the caller's runtime.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn start(script: Script) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(script));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, tasks })
    }

    /// The base URL to which `/v1/messages` is appended: Anthropic's rules.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The base URL under which DeepSeek's rules hold.
    pub fn deepseek_url(&self) -> String {
        format!("http://{}/anthropic", self.address)
    }

    /// Appends a reply to the script's queue.
    pub fn push(&self, reply: impl Into<Reply>) {
        self.shared.push(reply.into());
    }

    /// All requests so far, in order of arrival, refused ones included.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.record.requests()
    }

    /// All broken rules so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.shared.record.violations()
    }

    /// Waits until at least `count` requests have arrived, and returns all.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn wait_for_requests(&self, count: usize) -> Vec<Recorded> {
        self.shared
            .record
            .wait(|requests| (requests.len() >= count).then(|| requests.to_vec()))
            .await
    }

    /// Waits until the answer to the request of that number (from 0) has ended in whatever way.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn wait_for_delivery(&self, number: usize) -> Delivery {
        self.shared
            .record
            .wait(|requests| {
                let delivery = requests.get(number)?.delivery;
                (delivery != Delivery::Pending).then_some(delivery)
            })
            .await
    }

    /// Stops the server and waits until its connections are closed.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

impl fmt::Debug for ModelServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelServer").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Accepts until it is dropped; its connections end with it.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let is_full = connections.len() >= MAX_CONNECTIONS;
        tokio::select! {
            biased;
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a connection of the model server failed");
                }
            }
            accepted = listener.accept(), if !is_full => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, Arc::clone(&shared)));
                }
                Err(error) => {
                    tracing::error!(%error, "the model server cannot accept");
                    return;
                }
            },
        }
    }
}

fn serve(stream: TcpStream, shared: Arc<Shared>) -> impl Future<Output = ()> + Send {
    let service = service_fn(move |request| dispatch::answer(Arc::clone(&shared), request));
    async move {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "the connection keeps its delay");
        }
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        // A client that goes away and a scripted cut both end here; the record tells them apart.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}
