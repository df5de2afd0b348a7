//! Runs every try of [`super::escapes`], and compares with another sandbox.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use bridle_world::sandbox::Tier;

use super::escapes::{TRIES, Try};
use super::place::{Place, USERS, User};
use super::{TIERS, rich};

/// Everything outside of the workspace, with its metadata.
fn surroundings(place: &Place) -> String {
    place.shell(
        "cd .. && find outside home/.ssh home/.bashrc -printf '%p %m %T@ %s %n\\n' 2>&1 | sort",
    )
}

/// A process that stands outside. It ends with this, also when a test fails.
struct Victim(std::process::Child);

impl Drop for Victim {
    fn drop(&mut self) {
        // It may have been ended.
        self.0.kill().and_then(|()| self.0.wait()).ok();
    }
}

/// Which tries succeed, in this order.
fn tried(place: &Place, run: impl FnOnce(&str) -> String) -> Vec<&'static str> {
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let sockets = tempfile::tempdir().unwrap();
    place.give(sockets.path());
    let socket = sockets.path().join("socket");
    let _unix = UnixListener::bind(&socket).unwrap();
    place.give(&socket);
    let elsewhere = place.base.join("home/socket");
    let _elsewhere = UnixListener::bind(&elsewhere).unwrap();
    place.give(&elsewhere);
    let name = format!("bridle-{}", socket.display());
    let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&abstract_name).unwrap();
    let mut victim = Victim(place.as_user("sleep").arg("600").spawn().unwrap());
    let mut script = format!(
        "export W={0}/ws O={0}/outside H={0}/home HOME={0}/home TCP={1} UNIX={2} ABSTRACT={name} \
         VICTIM={3}\n",
        place.base.display(),
        tcp.local_addr().unwrap().port(),
        socket.display(),
        victim.0.id(),
    );
    for it in TRIES {
        let Try { name, script: line, .. } = it;
        script +=
            &format!("( {line} ) >/dev/null 2>&1 && echo 'can {name}' || echo 'cannot {name}'\n");
    }
    let output = run(&script);
    victim.0.kill().unwrap();
    let status = victim.0.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "it was signalled");
    let told =
        |word: &str, it: &Try| output.lines().any(|line| line == format!("{word} {}", it.name));
    assert!(TRIES.iter().all(|it| told("can", it) || told("cannot", it)), "{output}");
    TRIES.iter().filter(|it| told("can", it)).map(|it| it.name).collect()
}

#[test]
fn no_way_out_succeeds_and_work_does() {
    for user in USERS {
        for tier in TIERS {
            let place = rich(user);
            let before = surroundings(&place);
            let can = tried(&place, |script| {
                let outcome = place.run(tier, script);
                assert_eq!((outcome.error, outcome.tier), (None, tier), "{user:?}");
                outcome.output
            });
            let wrong = TRIES.iter().filter(|it| {
                let may = if tier == Tier::Full { it.allowed.0 } else { it.allowed.1 };
                let (can, must) = (can.contains(&it.name), may && it.allowed.0);
                (can && !may) || (must && !can)
            });
            let wrong: Vec<&str> = wrong.map(|it| it.name).collect();
            assert!(wrong.is_empty(), "{user:?} {tier:?}: {wrong:?}");
            if tier == Tier::Full {
                assert_eq!(surroundings(&place), before, "{user:?}");
            }
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "another sandbox is what ours is compared with")]
fn bubblewrap_refuses_nothing_that_is_allowed_here() {
    if !std::path::Path::new("/usr/bin/bwrap").exists() {
        println!("SKIP bubblewrap: bwrap is not installed");
        return;
    }
    let place = rich(User::Own);
    let base = place.base.display();
    let can = tried(&place, |script| {
        let mut theirs = std::process::Command::new("/usr/bin/bwrap");
        let flags = format!(
            "--new-session --die-with-parent --ro-bind / / --dev /dev --bind {base}/tmp /tmp --tmpfs /run \
             --bind {base}/ws {base}/ws --bind {base}/home/cache {base}/home/cache \
             --tmpfs {base}/home/.ssh --ro-bind {base}/ws/.git/config {base}/ws/.git/config \
             --ro-bind {base}/ws/.git/hooks {base}/ws/.git/hooks --unshare-all --cap-drop ALL --proc /proc",
        );
        theirs.args(flags.split_whitespace()).args(["/bin/bash", "-c", script]);
        let output = theirs.current_dir(place.ws()).env("TMPDIR", "/tmp").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    let stricter = TRIES.iter().filter(|it| it.allowed.0 && !can.contains(&it.name));
    assert_eq!(stricter.map(|it| it.name).collect::<Vec<_>>(), Vec::<&str>::new());
    // And it lets through what is refused here, so the tries do try something.
    for name in ["git-attributes", "tasks", "user-namespace", "move-sub", "keys-of-the-kernel"] {
        assert!(can.contains(&name), "{name}: {can:?}");
    }
}
