//! `bridle acp`: the ACP server on standard input and output.

mod stdio;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::{FutureExt as _, future::FusedFuture as _};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

use super::{Exit, signals};
use crate::composition::App;

/// Serves one client until its input ends or a signal asks for an end; both are the same orderly
/// close.
pub(super) async fn run(app: Arc<App>) -> anyhow::Result<Exit> {
    let stop = signals::stop_token(app.tasks())?;
    let input = UntilStopped::new(stdio::input(), stop);
    let served = crate::acp::serve(Arc::clone(&app), input, stdio::output()).await;
    app.close().await;
    stdio::restore();
    served.map(|()| Exit::Done)
}

/// A reader that ends when a token is cancelled, as if its writer had closed it.
struct UntilStopped<R> {
    reader: R,
    stopped: futures::future::Fuse<BoxFuture<'static, ()>>,
}

impl<R> UntilStopped<R> {
    fn new(reader: R, stop: CancellationToken) -> Self {
        Self { reader, stopped: stop.cancelled_owned().boxed().fuse() }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilStopped<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.stopped.is_terminated() || self.stopped.poll_unpin(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.reader).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_stopped_reader_ends_like_a_closed_one() {
        let (mut writer, reader) = tokio::io::duplex(64);
        let stop = CancellationToken::new();
        let mut reader = UntilStopped::new(reader, stop.clone());
        writer.write_all(b"line\n").await.unwrap();
        let mut buffer = [0; 16];
        assert_eq!(reader.read(&mut buffer).await.unwrap(), 5);
        let end = async { reader.read(&mut buffer).await.unwrap() };
        let (read, ()) = tokio::join!(end, async { stop.cancel() });
        assert_eq!(read, 0);
        assert_eq!(reader.read(&mut buffer).await.unwrap(), 0);
    }
}
