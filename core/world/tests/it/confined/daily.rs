//! Work that must go on in workspace-write without the network, and sandboxes in sandboxes.

use bridle_world::sandbox::{Policy, Tier};

use super::TIERS;
use super::place::{Place, USERS, User, is_root};
use crate::order::{Order, Outcome};
use crate::rig::probe;

/// Says that a check cannot run here, and whether so.
fn is_missing(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing = !std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if missing {
        println!("SKIP daily-{program}: {program} is not installed");
    }
    missing
}

/// Runs `command` in both tiers, where it must succeed.
fn works(program: &str, prepare: &str, command: &str) {
    if is_missing(program) {
        return;
    }
    for tier in TIERS {
        let mut place = Place::new(User::Own);
        place.shell(prepare);
        place.look();
        let outcome = place.run(tier, command);
        assert_eq!((outcome.error, outcome.code), (None, Some(0)), "{tier:?}: {}", outcome.output);
    }
}

#[test]
fn cargo_builds_and_tests() {
    works(
        "cargo",
        "mkdir src; printf '[package]\\nname = \"p\"\\nedition = \"2024\"\\n[workspace]\\n' >Cargo.toml; \
         echo '#[test] fn t() {}' >src/lib.rs",
        "CARGO_HOME=$PWD/.home cargo test --offline -q",
    );
}

#[test]
fn npm_runs_and_installs_from_a_folder() {
    works(
        "npm",
        "mkdir dep; echo '{\"name\":\"dep\",\"version\":\"1.0.0\"}' >dep/package.json; \
         echo '{\"name\":\"p\",\"version\":\"1.0.0\",\"scripts\":{\"t\":\"node -e 1\"},\
         \"dependencies\":{\"dep\":\"file:dep\"}}' >package.json",
        "npm install --offline --no-audit --cache $TMPDIR/npm && npm run t && test -e node_modules/dep",
    );
}

/// Makes a package that can be installed without the network.
const WHEEL: &str = r#"python3 -c '
import zipfile
with zipfile.ZipFile("p-1-py3-none-any.whl", "w") as z:
    z.writestr("p.py", "")
    z.writestr("p-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: p\nVersion: 1\n")
    z.writestr("p-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr("p-1.dist-info/RECORD", "")
'"#;

#[test]
fn pip_installs_and_python_forks() {
    works(
        "pip",
        WHEEL,
        "python3 -m pip install -q --no-index --no-cache-dir --disable-pip-version-check --target out *.whl; \
         test -e out/p.py && python3 -c 'import multiprocessing as m; \
         p = m.Process(target=print); p.start(); p.join(); exit(p.exitcode)'",
    );
}

#[test]
fn make_runs_a_compiler() {
    works(
        "make",
        "printf 'int main(void) { return 0; }\\n' >main.c; printf 'main: main.c\\n\\tcc -o $@ $<\\n' >Makefile",
        "make && ./main",
    );
}

#[test]
fn a_linked_worktree_and_a_submodule_can_be_worked_in() {
    for tier in TIERS {
        let mut place = Place::new(User::Own).with_repository();
        place.shell(
            "echo a >a; git add a; git commit -qm a; git worktree add -q tree; \
             git clone -q . ../lib && git -c protocol.file.allow=always submodule add -q ../lib lib; \
             git commit -qm lib",
        );
        place.look();
        let outcome = place.run(
            tier,
            "for d in tree lib; do (cd $d && git config --get user.email || true; echo $d >b; \
             git add b && git -c user.email=a@b -c user.name=a commit -qm b) || exit 1; done; \
             git status --short",
        );
        assert_eq!((outcome.error, outcome.code), (None, Some(0)), "{tier:?}: {}", outcome.output);
        if tier == Tier::Full {
            for command in [
                "echo x >tree/.git",
                "echo x >lib/.git",
                "echo x >>.git/modules/lib/config",
                "echo x >.git/modules/lib/hooks/x",
                "echo x >.git/worktrees/tree/commondir",
                "rm lib/.git",
                "rm -r .git/worktrees/tree",
            ] {
                let outcome = place.run(tier, command);
                assert_ne!(outcome.code, Some(0), "{command}");
            }
        }
    }
}

/// Has a host that is itself confined run `command` confined.
fn nested(place: &Place, outer: Tier, command: &str) -> Outcome {
    // The outer one gives it another `/tmp` already.
    let order = Order {
        look: false,
        at_most: Tier::Full,
        policy: Policy { temporary: None, ..place.policy.clone() },
        cwd: place.ws(),
        command: command.to_owned(),
    };
    fs_err::write(place.ws().join("order"), serde_json::to_string(&order).unwrap()).unwrap();
    place.give(&place.ws());
    let outcome = place.run(outer, &format!("{} confined <order", probe().display()));
    assert_eq!((&outcome.error, outcome.code), (&None, Some(0)), "{}", outcome.output);
    serde_json::from_str(&outcome.output).unwrap_or_else(|_| panic!("{}", outcome.output))
}

#[test]
fn inside_a_sandbox_the_second_tier_stands_and_says_that_it_cannot_see() {
    for user in USERS {
        for outer in TIERS {
            let mut place = Place::new(user);
            place.policy.writable.push(place.base.join("records"));
            let outcome = nested(&place, outer, "echo x >made; echo x >../outside/new");
            assert_eq!((outcome.error, outcome.tier), (None, Tier::Landlock), "{user:?} {outer:?}");
            assert!(outcome.cause.is_some());
            assert_eq!((outcome.code, outcome.denied.as_str()), (Some(1), "suspected"));
            assert_eq!(place.shell("ls made; ls ../outside"), "made\nfile\n");
        }
    }
}

#[test]
fn where_user_namespaces_cannot_be_made_the_second_tier_stands_and_says_why() {
    if !is_root() {
        println!("SKIP root-without-setfcap: needs root");
        return;
    }
    let place = Place::new(User::Own);
    let outcome = place.run_with(
        &["setpriv", "--bounding-set=-setfcap", "--inh-caps=-setfcap"],
        Tier::Full,
        "echo x >made; echo x >../outside/new",
    );
    assert_eq!((outcome.error, outcome.tier), (None, Tier::Landlock));
    let cause = outcome.cause.unwrap();
    assert!(cause.contains("uid_map"), "{cause}");
    assert_eq!(place.shell("ls made; ls ../outside"), "made\nfile\n");
}

#[test]
fn a_policy_that_cannot_be_put_in_force_runs_nothing() {
    for user in USERS {
        let place = Place::new(user);
        let outcome = place.run(Tier::None, "touch made");
        assert!(outcome.error.unwrap().starts_with("sandbox: "), "{user:?}");
        for tier in TIERS {
            let mut place = Place::new(user);
            place.policy.roots.push(place.base.join("gone"));
            place.policy.records = place.base.join("gone");
            place.look();
            let outcome = place.run(tier, "touch made");
            if tier == Tier::Full {
                let error = outcome.error.unwrap();
                assert!(error.starts_with("sandbox: ") && error.contains("gone"), "{error}");
                assert_eq!(place.shell("ls"), "");
            }
        }
    }
}
