//! One client's connection from its first byte until nothing of it is left.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bridle_compose::{SystemClock, TaskSet};
use tokio::io::{AsyncRead, AsyncWrite};

use super::handlers::{self, Server};
use super::inbound::Inbound;
use super::ledger::Ledger;
use super::memory;
use super::outbound::{Outbound, write_lines};
use crate::composition::App;

/// How long a client that has closed its side may take to read what is still for it.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// Serves one client until its input ends, then closes every session, waits until nothing is
/// left, and returns.
///
/// # Errors
/// When the connection itself fails; a client's bad messages are answered, never an error here.
pub async fn serve(
    app: Arc<App>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> anyhow::Result<()> {
    serve_with(Arc::new(Server::new(app, Arc::new(SystemClock))), input, output).await
}

/// [`serve`] over a connection's parts that the caller made.
pub(super) async fn serve_with(
    server: Arc<Server>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> anyhow::Result<()> {
    let ledger = Arc::new(Ledger::new());
    let (outbound, lines) = Outbound::channel(ledger.clone());
    let inbound = Inbound::new(input, outbound.clone(), ledger.clone()).into_stream();
    let transport = agent_client_protocol::Lines::new(outbound.sink(), inbound);

    server.tasks.spawn(memory::give_back(server.clone()));
    let mut writing =
        TaskSet::new().spawn(write_lines(lines, output, server.credits.clone(), ledger));
    let stuck = async {
        server.input_ended.cancelled().await;
        server.clock.sleep(DRAIN_LIMIT).await;
    };
    let ended = tokio::select! {
        served = handlers::serve(server.clone(), transport) => Ended::Served(served),
        written = &mut writing => Ended::Output(written.unwrap_or_else(|e| Err(e.into()))),
        () = stuck => Ended::Stuck,
    };
    server.gone.cancel();
    server.tasks.close().await;
    match ended {
        Ended::Served(served) => {
            let written = tokio::select! {
                written = &mut writing => written.unwrap_or_else(|error| Err(error.into())),
                // Every session is closed, and what they have said last is not read.
                () = server.clock.sleep(DRAIN_LIMIT) => {
                    writing.abort();
                    return Ok(());
                }
            };
            match written {
                Ok(()) => {
                    served.map_err(|error| anyhow::anyhow!("the ACP connection failed: {error}"))
                }
                // The connection fails when its output does; the output knows why.
                failed => Ok(failed.or_else(ignore_departure)?),
            }
        }
        Ended::Output(written) => Ok(written.or_else(ignore_departure)?),
        Ended::Stuck => {
            writing.abort();
            Ok(())
        }
    }
}

enum Ended {
    /// The connection ended, with the input or by an error.
    Served(Result<(), agent_client_protocol::Error>),
    /// The output ended first.
    Output(io::Result<()>),
    /// The input ended and the client reads no more.
    Stuck,
}

/// A client that has gone away is a normal end.
fn ignore_departure(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(()),
        _ => Err(error),
    }
}
