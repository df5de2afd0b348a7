//! The memory of closed sessions goes back to the system, which the heap would keep for the next ones: a
//! moment after the last of those that are closed together, and never more often than that; and once more
//! when the threads are gone that worked for them.

use std::sync::Arc;
use std::time::Duration;

use bridle_world::heap;

use super::handlers::Server;

/// How long sessions that are closed wait for others.
const SOON: Duration = Duration::from_secs(1);

/// How long the runtime's threads for what blocks wait for more of it, and a little longer. Until they
/// end, each keeps some of what it freed, spread over many pages.
const LATER: Duration = Duration::from_secs(12);

/// Gives back what closed sessions leave, until the connection ends.
pub(super) async fn give_back(server: Arc<Server>) {
    let end = server.tasks.token().clone();
    let each = async {
        loop {
            server.closed.notified().await;
            after(&server, SOON).await;
            let others = server.closed.notified();
            tokio::select! {
                biased;
                () = others => server.closed.notify_one(),
                () = after(&server, LATER) => {}
            }
        }
    };
    end.run_until_cancelled(each).await;
}

/// Gives back what is free then.
async fn after(server: &Server, pause: Duration) {
    server.clock.sleep(pause).await;
    // A panic there is told by its hook, and costs nobody anything.
    drop(tokio::task::spawn_blocking(heap::give_back).await);
}
