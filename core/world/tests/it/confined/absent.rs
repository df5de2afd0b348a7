//! Names that are kept from being taken while a command runs, and what stands there meanwhile.

use std::os::unix::fs::PermissionsExt as _;

use bridle_world::sandbox::Tier;

use super::TIERS;
use super::place::{Place, USERS, User, is_root};

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

/// A link on the way to what is masked is the user's own, and what it leads to is hidden whatever becomes of it.
#[test]
fn a_link_on_the_way_to_what_is_masked_can_be_replaced_and_leads_to_nothing() {
    for user in USERS {
        let mut place = Place::new(user);
        place.shell("mkdir -p dot/gh; echo key >dot/gh/id; ln -s dot .config");
        place.look();
        place.policy.masked.push(place.ws().join("dot/gh"));
        let outcome = place.run(
            Tier::Full,
            "(cat .config/gh/id || cat dot/gh/id || mv dot d) 2>/dev/null || rm .config && mkdir .config",
        );
        assert_eq!((outcome.code, outcome.output.as_str()), (Some(0), ""), "{user:?}");
        assert_eq!(place.shell("ls -A .config; cat dot/gh/id"), "key\n");
    }
}

/// A mount ends with the file that it holds: whoever replaces that, outside, lets go of it.
#[test]
fn a_protected_file_that_is_replaced_meanwhile_is_no_longer_held() {
    let place = Place::new(User::Own).with_repository();
    place.shell("mkfifo a b");
    std::thread::scope(|scope| {
        let script =
            "! { echo x >>.git/config; } 2>/dev/null && echo >a && cat b && echo '#' >>.git/config";
        let running = scope.spawn(|| place.run(Tier::Full, script));
        place.shell("cat a; git config own.name value; echo >b");
        let outcome = running.join().unwrap();
        assert_eq!((outcome.error, outcome.code), (None, Some(0)), "{}", outcome.output);
    });
    assert_eq!(place.shell("git config own.name; tail -n 1 .git/config"), "value\n#\n");
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

/// However it is made, at a placeholder's name or at one that has none: the program fails, or is told of.
#[test]
fn what_is_made_at_a_protected_name_is_told_and_never_there_and_then_gone() {
    for user in USERS {
        for tier in TIERS {
            for name in [".vscode", "deep/.zed"] {
                for making in [
                    "mkdir NAME",
                    "mkdir -p NAME",
                    "mkdir -p NAME && echo x 2>/dev/null >NAME/x",
                    "install -d NAME",
                    "touch NAME",
                    "echo x >NAME",
                    "ln -sT own NAME",
                    "ln -T own/file NAME",
                    "mkfifo NAME",
                    "mv -T own NAME",
                    "mv -T own/file NAME",
                    "cp -rT own NAME",
                    "python3 -c 'import os; os.makedirs(\"NAME\", exist_ok=True)'",
                    "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"NAME\")'",
                ] {
                    // There are no such sockets in the other tier.
                    if tier == Tier::Landlock && making.contains("AF_UNIX") {
                        continue;
                    }
                    let mut place = Place::new(user);
                    place.shell("mkdir own deep; echo mine >own/file");
                    place.look();
                    let command = making.replace("NAME", name);
                    let outcome = place.run(tier, &format!("{command} 2>/dev/null"));
                    let path = place.ws().join(name);
                    let mut told = outcome.denied.lines().map(std::path::Path::new);
                    let told = told.any(|it| it.starts_with(&path));
                    assert!(told, "{user:?} {tier:?} {command}: {}", outcome.denied);
                    assert!(!path.exists(), "{user:?} {tier:?} {command}");
                    assert_eq!(place.shell("cat own/file"), "mine\n");
                }
            }
        }
    }
}

/// The folder that a placeholder is in stands only for it: to make it works once and for good, with the mode
/// that was asked for, and whatever else comes there is refused by name.
#[test]
fn a_folder_on_the_way_to_what_is_held_absent_stays_when_a_command_makes_it() {
    let held = |place: &mut Place| {
        place.look();
        let absent =
            [".config/x", ".local/share/x", "a/x", "b/x"].map(|name| place.ws().join(name));
        let roots = place.policy.roots.clone();
        place.policy.protected.keep_absent(absent.into_iter(), &roots);
    };
    for user in USERS {
        let mut place = Place::new(user);
        held(&mut place);
        let outcome = place.run(
            Tier::Full,
            "umask 027; mkdir -p .config .local/share && mkdir -m 701 a && ! mkdir a 2>/dev/null",
        );
        let ended = (outcome.code, outcome.denied.as_str());
        assert_eq!(ended, (Some(0), "none"), "{user:?}: {}", outcome.output);
        let left = ".config 750\n.local 750\n.local/share 750\na 701\n";
        let look = "shopt -s dotglob; stat -c '%n %a' * .local/*; find */* -mindepth 1";
        let sorted = format!("({look}) | sort");
        assert_eq!(place.shell(&sorted), left, "{user:?}");
        assert_eq!(place.shell("ls ../records"), "lock\nspare\n");

        for making in ["ln -sT a b", "touch b", "mv -T a b", "mkfifo b", "echo x >b"] {
            let mut place = Place::new(user);
            place.shell("echo x >file; mkdir a");
            held(&mut place);
            let outcome = place.run(Tier::Full, &format!("{making} 2>/dev/null"));
            let told =
                outcome.denied.lines().any(|it| it == place.ws().join("b").to_str().unwrap());
            assert!(told, "{user:?} {making}: {}", outcome.denied);
            assert_eq!(place.shell("echo *"), "a file\n", "{user:?} {making}");
        }
    }
}

/// Of two commands for whose placeholders a folder stands, one makes it; it stays whichever ends first.
#[test]
fn a_folder_that_one_of_two_commands_makes_stays_whichever_ends_first() {
    for first_makes in [true, false] {
        let mut place = Place::new(User::Own);
        place.shell("mkfifo a b c d");
        place.look();
        let (absent, roots) = (place.ws().join(".config/x"), place.policy.roots.clone());
        place.policy.protected.keep_absent([absent].into_iter(), &roots);
        let make = |makes: bool| if makes { "mkdir .config" } else { "true" };
        std::thread::scope(|scope| {
            let script = format!("{}; made=$?; echo >a; cat b; exit $made", make(first_makes));
            let first = scope.spawn({
                let place = &place;
                move || place.run(Tier::Full, &script)
            });
            place.shell("cat a");
            let script = format!("{}; made=$?; echo >c; cat d; exit $made", make(!first_makes));
            let second = scope.spawn({
                let place = &place;
                move || place.run(Tier::Full, &script)
            });
            place.shell("cat c; echo >b");
            assert_eq!(first.join().unwrap().code, Some(0));
            place.shell("echo >d");
            assert_eq!(second.join().unwrap().code, Some(0));
        });
        assert_eq!(place.shell("ls -A; ls -A .config"), ".config\na\nb\nc\nd\n");
    }
}

/// A command that cannot be started leaves nothing either, from the moment on in which that is told.
#[test]
fn a_command_that_cannot_be_started_leaves_no_placeholder() {
    for user in USERS {
        let mut place = Place::new(user);
        place.look();
        place.policy.temporary = Some(place.base.join("nothing"));
        let outcome = place.run(Tier::Full, "true");
        let error = outcome.error.unwrap_or_default();
        assert!(error.starts_with("sandbox: "), "{user:?}: {error}");
        assert_eq!(place.shell("ls -A . ../records"), ".:\n\n../records:\nlock\nspare\n");
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
