//! kill -9 of `bridle acp` under load, again and again.

use bridle_tests::{Client, rounds};
use rustix::process::Signal;

use crate::load::{Death, Load};

struct Kill;

impl Death for Kill {
    const COUNTS_LAST_WORDS: bool = true;

    fn strike(&mut self, client: &Client) {
        client.signal(Signal::KILL);
    }
}

#[tokio::test]
async fn kill_9_under_load_loses_nothing_that_was_acknowledged() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut load = Load::new(seed).await;
    for _ in 0..rounds(50, 150) {
        load.round(&mut Kill).await;
    }
    load.end().await;
}
