//! Work on many independent items, on a few threads that end before it returns.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The most threads, the caller's included.
const MAX_THREADS: usize = 4;

/// The results in the order of the items. A panic goes on in the caller.
pub(crate) fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(number) else { return done };
            done.push((number, work(item)));
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let others = cores.min(MAX_THREADS).min(items.len()).saturating_sub(1);
    let mut done = thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, run).ok();
        let threads: Vec<_> = (0..others).filter_map(spawn).collect();
        let mut done = run();
        for thread in threads {
            match thread.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}
