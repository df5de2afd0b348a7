//! SIGINT, SIGTERM and SIGHUP: the first asks for an orderly end, the second SIGINT ends at once.

use bridle_compose::TaskSet;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Exit;

/// A token that is cancelled by the first signal. Watches until `tasks` closes.
///
/// # Errors
/// When the process cannot listen to signals.
pub(super) fn stop_token(tasks: &TaskSet) -> std::io::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let stop = CancellationToken::new();
    let (asked, closing) = (stop.clone(), tasks.token().clone());
    tasks.spawn(async move {
        loop {
            tokio::select! {
                biased;
                () = closing.cancelled() => return,
                _ = interrupt.recv() => {
                    if asked.is_cancelled() {
                        std::process::exit(Exit::Cancelled as i32);
                    }
                }
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            asked.cancel();
        }
    });
    Ok(stop)
}
