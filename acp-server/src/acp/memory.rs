//! The memory of closed sessions goes back to the system, which the heap would keep for the next ones: a
//! moment after the last of those that are closed together, and never more often than that.

use std::sync::Arc;
use std::time::Duration;

use bridle_world::heap;

use super::handlers::Server;

/// How long sessions that are closed wait for others.
const PAUSE: Duration = Duration::from_secs(1);

/// Gives back what closed sessions leave, until the connection ends.
pub(super) async fn give_back(server: Arc<Server>) {
    let end = server.tasks.token().clone();
    let each = async {
        loop {
            server.closed.notified().await;
            server.clock.sleep(PAUSE).await;
            // A panic there is told by its hook, and costs nobody anything.
            drop(tokio::task::spawn_blocking(heap::give_back).await);
        }
    };
    end.run_until_cancelled(each).await;
}
