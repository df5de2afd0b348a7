//! The power is cut while logs are written: real ext4 and xfs file systems in image files, stopped
//! by the kernel's shutdown call, with and without their journal. What was acknowledged is there
//! after the next mount, every log opens, and the work goes on.
//!
//! Only what was heard before the cut was asked for counts as acknowledged: on ext4 an fsync that is
//! under way at that moment was seen to succeed although its data was gone after the mount. A real
//! power cut leaves nobody to hear such an answer.

use std::path::PathBuf;

use bridle_tests::{Client, rounds, skip};
use rustix::process::Signal;

use crate::image::{Image, Journal};
use crate::load::{Death, Load};
use crate::store_process::{Acknowledged, StoreProcess, lost};

const NAMESPACE: &str = "BRIDLE_TEST_NAMESPACE";

/// Of so many cuts one hits the agent, the others a process that does nothing but write.
const AGENT_EVERY: usize = 4;

#[tokio::test]
async fn a_power_cut_loses_nothing_that_was_acknowledged() {
    if std::env::var_os(NAMESPACE).is_none() {
        return again_in_a_namespace().await;
    }
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut lost = 0;
    for kind in ["ext4", "xfs"] {
        let mut load = Load::new(seed).await;
        let (file, at) = (load.scene.place.user_home().join("disk"), state(&load));
        fs_err::create_dir_all(&at).unwrap();
        let image = match Image::mount(kind, file, at) {
            Ok(image) => image,
            Err(error) => return skip("power-cut", &error.to_string()),
        };
        lost += cut_again_and_again(kind, &mut load, &image, fastrand::Rng::with_seed(seed)).await;
    }
    assert_eq!(lost, 0, "acknowledged events are lost");
}

/// Mounts of this test would otherwise be copied into the namespaces that other tests make.
#[expect(clippy::disallowed_methods, reason = "the test starts itself")]
async fn again_in_a_namespace() {
    let mut command = tokio::process::Command::new("unshare");
    command.arg("-m").arg(std::env::current_exe().unwrap()).args([
        "--exact",
        "power_cuts::a_power_cut_loses_nothing_that_was_acknowledged",
        "--nocapture",
    ]);
    match command.env(NAMESPACE, "own").kill_on_drop(true).output().await {
        Ok(output) if output.status.success() => {
            print!("{}", String::from_utf8_lossy(&output.stdout));
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            match said.starts_with("unshare:") {
                true => skip("power-cut", &said),
                false => panic!("{}{said}", String::from_utf8_lossy(&output.stdout)),
            }
        }
        Err(error) => skip("power-cut", &format!("unshare: {error}")),
    }
}

fn state(load: &Load) -> PathBuf {
    load.scene.place.sessions().parent().unwrap().to_owned()
}

/// Returns how many acknowledged events of the writing process were lost.
async fn cut_again_and_again(
    kind: &str,
    load: &mut Load,
    image: &Image,
    mut rng: fastrand::Rng,
) -> u64 {
    let cuts = rounds(20, 40);
    let (mut all, mut losses) = (Acknowledged::default(), Vec::new());
    let own = state(load).join("of-the-store");
    for cut in 0..cuts {
        let journal = rng.choice([Journal::Lost, Journal::Written]).unwrap();
        if cut % AGENT_EVERY == 0 {
            load.round(&mut PowerCut { image, journal }).await;
            continue;
        }
        let mut writer = StoreProcess::start(&own, rng.u64(..));
        for _ in 0..rng.usize(1..60) {
            assert!(writer.hears(), "the writer has failed before the cut");
        }
        image.cut(journal);
        writer.kill();
        image.restart();
        losses.push(lost(&own, &writer.acknowledged));
        all.extend(std::mem::take(&mut writer.acknowledged));
    }
    load.end().await;
    println!(
        "{kind}: {cuts} cuts, {} events and {} blobs acknowledged; lost in {} of {} cuts of the store",
        all.events(),
        all.blobs(),
        losses.iter().filter(|lost| **lost > 0).count(),
        losses.len()
    );
    losses.push(lost(&own, &all));
    losses.iter().sum()
}

/// The machine stops under the agent.
struct PowerCut<'a> {
    image: &'a Image,
    journal: Journal,
}

impl Death for PowerCut<'_> {
    const COUNTS_LAST_WORDS: bool = false;

    fn strike(&mut self, client: &Client) {
        self.image.cut(self.journal);
        client.signal(Signal::KILL);
    }

    fn afterwards(&mut self) {
        self.image.restart();
    }
}
