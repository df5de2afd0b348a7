//! Confined commands, seen from outside: every user and every tier that this machine has.

mod absent;
mod altered;
mod crowd;
mod daily;
mod escapes;
mod place;
mod read_only;
mod told;
mod ways_out;

use bridle_world::sandbox::Tier;

use place::{Place, USERS, User};

const TIERS: [Tier; 2] = [Tier::Full, Tier::Landlock];

/// A workspace with everything that is worth protecting.
fn rich(user: User) -> Place {
    let mut place = Place::new(user).with_repository();
    place.shell(
        "echo a >a; git add a; git commit -qm a; git init -q sub; mkdir .idea elsewhere; echo >.idea/x; \
         ln -s elsewhere .claude; rm .git/hooks/*; echo >.git/hooks/pre-commit.sample; \
         git config core.hooksPath tools/hooks; mkdir -p tools/hooks",
    );
    place.policy.writable.push(place.base.join("home/cache"));
    place.look();
    place
}

#[test]
fn a_confined_command_runs_and_ends_as_its_own() {
    for user in USERS {
        for tier in TIERS {
            let place = Place::new(user);
            let outcome = place.run(tier, "echo hi; exit 7");
            assert_eq!(outcome.error, None, "{user:?} {tier:?}");
            assert_eq!(outcome.tier, tier, "{user:?}: {:?}", outcome.cause);
            assert_eq!((outcome.code, outcome.output.as_str()), (Some(7), "hi\n"));
            assert_eq!(outcome.denied, "none");
        }
    }
}
