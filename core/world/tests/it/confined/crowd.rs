//! How many processes a command may have at once.
//!
//! Nothing here starts them without end: each try stops at a number of its own, or at the first that is
//! refused.

use bridle_world::sandbox::{Policy, Tier};

use super::TIERS;
use super::place::{Place, USERS, User, is_root};
use crate::rig::{GateReader, Rig, text};

/// How many a command may have.
const LIMIT: u32 = 64;

/// How many more the kernel may let there be, where it counts by their numbers.
const MARGIN: u32 = 310;

/// Starts children that wait until this ends, at most so many, and tells how many there were when one was
/// refused and why.
fn starting(most: u32, then: &str) -> String {
    format!(
        "exec python3 - <<'E'
import os
mine, ends = os.pipe()
for count in range({most}):
    try:
        child = os.fork()
    except OSError as error:
        print(count, os.strerror(error.errno), flush=True)
        break
    if child == 0:
        os.close(ends)
        os.read(mine, 1)
        os._exit(0)
else:
    print('all', flush=True)
{then}
E"
    )
}

/// How many processes and threads there are now.
fn on_this_machine() -> u32 {
    let text = fs_err::read_to_string("/proc/loadavg").unwrap();
    text.split(['/', ' ']).nth(4).unwrap().parse().unwrap()
}

#[test]
fn a_command_has_only_so_many_processes_and_hears_of_no_sandbox() {
    for user in USERS {
        for tier in TIERS {
            let place = Place::new(user);
            let policy = Policy { processes: LIMIT, ..place.policy.clone() };
            let shared = if tier == Tier::Landlock { 2 * on_this_machine() } else { 0 };
            let most = LIMIT + MARGIN + shared;
            let outcome = place.run_under(&[], policy, tier, &starting(most, ""));
            assert_eq!((outcome.error, outcome.code), (None, Some(0)), "{user:?} {tier:?}");
            assert_eq!(outcome.denied, "none", "{user:?} {tier:?}");
            // Nothing limits root in that tier, and that is said.
            let unlimited = tier == Tier::Landlock && user == User::Own && is_root();
            assert_eq!(outcome.unlimited.is_some(), unlimited, "{:?}", outcome.unlimited);
            if unlimited {
                assert_eq!(outcome.output, "all\n");
                continue;
            }
            let (count, why) = outcome.output.split_once(' ').unwrap();
            assert_eq!(why, "Resource temporarily unavailable\n", "{user:?} {tier:?}");
            let count: u32 = count.parse().unwrap();
            // It has a shell, perhaps, and its supervisor.
            assert!(count + 4 >= LIMIT && count < most, "{user:?} {tier:?}: {count} of {most}");
        }
    }
}

/// That nothing further can be started is found out by trying, and told.
#[tokio::test]
async fn a_command_that_has_all_that_it_may_have_is_told_of() {
    for (limit, crowded) in [(LIMIT, true), (2 * LIMIT + MARGIN, false)] {
        let mut rig = Rig::confined(Tier::Full);
        let gate = rig.gate("gate");
        rig.confinement.as_mut().unwrap().processes = limit;
        let command = starting(LIMIT + MARGIN, "open('gate', 'w').write('x'); os.read(mine, 1)");
        let run = rig.run(&command);
        let reader = tokio::task::spawn_blocking(move || GateReader::open(&gate).line());
        let (finished, ()) = tokio::join!(run, async {
            assert!(reader.await.unwrap().is_some());
            rig.clock.time_out();
        });
        let finished = finished.unwrap();
        assert_eq!(finished.crowded, crowded, "{limit}: {}", text(&finished));
        assert_eq!(text(&finished) != "all\n", crowded, "{limit}: {}", text(&finished));
        assert!(finished.timed_out && finished.left == 0, "{finished:?}");
        assert_eq!(rig.marked(), Vec::<String>::new());
    }
}
