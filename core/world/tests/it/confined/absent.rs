//! Names that are kept from being taken while a command runs, and what stands there meanwhile.

use std::os::unix::fs::PermissionsExt as _;

use bridle_world::sandbox::Tier;

use super::TIERS;
use super::place::{Place, USERS, is_root};

#[test]
fn placeholders_are_gone_when_a_command_has_ended() {
    for user in USERS {
        let mut place = Place::new(user);
        place.look();
        assert!(!place.policy.protected.absent.is_empty());
        let outcome = place.run(Tier::Full, "ls -A; mkdir .git/x .vscode/x; touch y");
        assert!(outcome.output.contains(".git\n"), "{}", outcome.output);
        assert_eq!(place.shell("ls -A"), "y\n");
        assert_eq!(place.shell("ls -A ../records"), "lock\nspare\n");
    }
}

/// What a mask would hide cannot be made where it is not, nor lose its place by the way to it.
#[test]
fn no_way_to_what_is_masked_can_be_taken_over() {
    for user in USERS {
        let mut place = Place::new(user);
        place.shell("mkdir -p .local/x/keys; echo key >.local/x/keys/id");
        place.look();
        place.policy.masked.push(place.ws().join(".local/x/keys"));
        let roots = place.policy.roots.clone();
        let absent = [".config/bridle", ".state"].map(|name| place.ws().join(name));
        place.policy.protected.keep_absent(absent.into_iter(), &roots);
        let outcome = place.run(
            Tier::Full,
            "for c in 'echo x >.config/bridle/config.toml' 'mkdir .config/bridle/x' \
             'mv .config .c' 'rmdir .config/bridle' 'ln -sT .. .state' 'mv .local .l' \
             'mv .local/x .local/y' 'cat .local/x/keys/id'; \
             do (eval \"$c\") 2>/dev/null && echo \"can $c\"; done; echo x >.config/other",
        );
        assert_eq!((outcome.code, outcome.output.as_str()), (Some(0), ""), "{user:?}");
        assert_eq!(place.shell("find . -type f | sort"), "./.config/other\n./.local/x/keys/id\n");
        assert_eq!(place.shell("ls -A .config"), "other\n");
    }
}

/// A second command finds the placeholders of a first, which go before it has ended.
#[test]
fn placeholders_stand_as_long_as_any_command_needs_them() {
    for user in USERS {
        let mut place = Place::new(user);
        place.shell("git init -q --template= .; mkfifo a b c d");
        place.look();
        let outcome = std::thread::scope(|scope| {
            let first = scope.spawn(|| place.run(Tier::Full, "echo >a; cat b"));
            // The first runs, so what the second finds are its placeholders.
            place.shell("cat a");
            let mut second = place.policy.clone();
            second.protected = bridle_world::sandbox::Protected::below(&place.ws()).unwrap();
            let script = "echo >c; cat d; \
                          mkdir -p .git/hooks; echo x >.git/hooks/pre-commit; mkdir .vscode/x";
            let second = scope.spawn(|| place.run_under(&[], second, Tier::Full, script));
            place.shell("cat c; echo >b");
            assert_eq!(first.join().unwrap().code, Some(0));
            place.shell("echo >d");
            second.join().unwrap()
        });
        assert_ne!(outcome.code, Some(0), "{user:?}: {}", outcome.output);
        assert_eq!(place.shell("echo .[^.]*; ls .git"), ".git\nHEAD\nconfig\nobjects\nrefs\n");
    }
}

/// B079: a workspace that is no repository, in which its user can make nothing, or that is another's.
#[test]
fn where_nothing_can_be_made_commands_run_all_the_same() {
    for user in USERS {
        for tier in TIERS {
            let mut place = Place::new(user);
            place.look();
            place.shell("echo a >a; chmod 555 . ..");
            let outcome = place.run(tier, "cat a && ls -A | grep -v '^[.]'");
            let ended = (outcome.error, outcome.code, outcome.output.as_str());
            assert_eq!(ended, (None, Some(0), "a\na\n"), "{user:?} {tier:?}");
            if is_root() {
                std::os::unix::fs::chown(place.ws(), Some(12_345), Some(12_345)).unwrap();
                let outcome = place.run(tier, "cat a && ! touch b");
                assert_eq!((outcome.error, outcome.code), (None, Some(0)), "{user:?} {tier:?}");
            }
            assert_eq!(place.shell("ls -A"), "a\n", "{user:?} {tier:?}");
            fs_err::set_permissions(&place.base, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}
