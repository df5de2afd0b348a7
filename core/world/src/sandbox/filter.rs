//! Which system calls a confined command is refused, and which are looked at while they wait.
//!
//! Refused: a new namespace or mount, where the walls could be taken down; calls that whole
//! classes of kernel faults came from and that builds do not need; sockets to somewhere else.
//! Looked at: changes of files by name, so that a refusal can be told. What is looked at goes on
//! unchanged: mounts and Landlock decide.

use libc::c_long;

use super::bpf::{Action, Condition, Rule};
use super::policy::{Access, Network};

/// What decides over the rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter {
    pub(super) access: Access,
    pub(super) network: Network,
    /// The command has mounts, sockets and processes of its own.
    pub(super) namespaces: bool,
    /// Somebody answers the calls that are to be looked at.
    pub(super) watched: bool,
}

const REFUSED: Action = Action::Fail(libc::EPERM as u16);
const UNKNOWN: Action = Action::Fail(libc::ENOSYS as u16);

/// Refused whatever their arguments are.
const NEVER: [c_long; 27] = [
    // Other namespaces, roots and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    // The kernel's keys, which belong to the user and not to the command.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Ways into the kernel that are not for builds.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_quotactl,
];

/// Said not to exist, so that programs use what they used before these came.
const UNSUPPORTED: [c_long; 5] = [
    // Their flags are in memory, where they could change after a look.
    libc::SYS_clone3,
    libc::SYS_openat2,
    // Its operations pass no filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Changes of metadata, which Landlock does not know.
const METADATA: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

const SYS_FCHMODAT2: c_long = 452;
const SYS_SETXATTRAT: c_long = 463;
const SYS_REMOVEXATTRAT: c_long = 466;
const SYS_FILE_SETATTR: c_long = 469;

/// Requests to a file system that change what it notes of a file: its flags, its project, its
/// version.
const METADATA_REQUESTS: [u32; 3] = [0x4008_6602, 0x401c_5820, 0x4008_7602];

/// Where a path stands among the arguments of a call that changes files: the folder that it is
/// relative to, if the call takes one, and the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathArgument {
    pub(super) folder: Option<usize>,
    pub(super) path: usize,
    pub(super) told_by: ToldBy,
    /// The call acts on a link itself, not on what it leads to.
    pub(super) name_itself: bool,
}

/// How an argument tells a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToldBy {
    Text,
    /// The descriptor of what is open there.
    Descriptor,
    /// The address of a socket, whose length is the next argument.
    Address,
}

/// A call that changes files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) number: c_long,
    pub(super) paths: &'static [PathArgument],
    /// The argument that says whether it changes anything: the flags of an open.
    pub(super) flags: Option<u32>,
}

const fn plain(path: usize) -> PathArgument {
    PathArgument { folder: None, path, told_by: ToldBy::Text, name_itself: true }
}

const fn opened(path: usize) -> PathArgument {
    PathArgument { told_by: ToldBy::Descriptor, ..followed(plain(path)) }
}

const fn at(folder: usize, path: usize) -> PathArgument {
    PathArgument { folder: Some(folder), ..plain(path) }
}

const fn followed(argument: PathArgument) -> PathArgument {
    PathArgument { name_itself: false, ..argument }
}

const fn change(number: c_long, paths: &'static [PathArgument]) -> Change {
    Change { number, paths, flags: None }
}

impl Change {
    /// The one that a call with this number makes, if it makes any.
    pub(super) fn by(number: c_long) -> Option<&'static Self> {
        CHANGES.iter().chain([&REQUEST]).find(|it| it.number == number)
    }

    /// Whether it changes what is noted of a file and nothing in it.
    pub(super) fn is_of_metadata(&self) -> bool {
        METADATA.contains(&self.number) || self.number == REQUEST.number
    }
}

/// The requests of [`METADATA_REQUESTS`].
const REQUEST: Change = change(libc::SYS_ioctl, &[opened(0)]);

/// The calls that change files, but for [`REQUEST`]; what an open file holds is changed by more.
pub(super) const CHANGES: &[Change] = &[
    Change { number: libc::SYS_openat, paths: &[followed(at(0, 1))], flags: Some(2) },
    change(libc::SYS_unlinkat, &[at(0, 1)]),
    change(libc::SYS_renameat, &[at(0, 1), at(2, 3)]),
    change(libc::SYS_renameat2, &[at(0, 1), at(2, 3)]),
    change(libc::SYS_mkdirat, &[at(0, 1)]),
    change(libc::SYS_mknodat, &[at(0, 1)]),
    change(libc::SYS_linkat, &[at(2, 3)]),
    change(libc::SYS_symlinkat, &[at(1, 2)]),
    change(libc::SYS_truncate, &[followed(plain(0))]),
    change(libc::SYS_fchmodat, &[followed(at(0, 1))]),
    change(SYS_FCHMODAT2, &[followed(at(0, 1))]),
    change(libc::SYS_fchownat, &[followed(at(0, 1))]),
    change(libc::SYS_utimensat, &[followed(at(0, 1))]),
    change(libc::SYS_setxattr, &[followed(plain(0))]),
    change(libc::SYS_lsetxattr, &[plain(0)]),
    change(libc::SYS_removexattr, &[followed(plain(0))]),
    change(libc::SYS_lremovexattr, &[plain(0)]),
    change(libc::SYS_fchmod, &[opened(0)]),
    change(libc::SYS_fchown, &[opened(0)]),
    change(libc::SYS_fsetxattr, &[opened(0)]),
    change(libc::SYS_fremovexattr, &[opened(0)]),
    change(libc::SYS_bind, &[PathArgument { told_by: ToldBy::Address, ..plain(1) }]),
    #[cfg(target_arch = "x86_64")]
    Change { number: libc::SYS_open, paths: &[followed(plain(0))], flags: Some(1) },
    #[cfg(target_arch = "x86_64")]
    change(libc::SYS_creat, &[followed(plain(0))]),
    #[cfg(target_arch = "x86_64")]
    change(libc::SYS_unlink, &[plain(0)]),
    #[cfg(target_arch = "x86_64")]
    change(libc::SYS_rmdir, &[plain(0)]),
    #[cfg(target_arch = "x86_64")]
    change(libc::SYS_rename, &[plain(0), plain(1)]),
    #[cfg(target_arch = "x86_64")]
    change(libc::SYS_mkdir, &[plain(0)]),
    #[cfg(target_arch = "x86_64")]
    change(libc::SYS_mknod, &[plain(0)]),
    #[cfg(target_arch = "x86_64")]
    change(libc::SYS_link, &[plain(1)]),
    #[cfg(target_arch = "x86_64")]
    change(libc::SYS_symlink, &[plain(1)]),
    #[cfg(target_arch = "x86_64")]
    change(libc::SYS_chmod, &[followed(plain(0))]),
    #[cfg(target_arch = "x86_64")]
    change(libc::SYS_chown, &[followed(plain(0))]),
    #[cfg(target_arch = "x86_64")]
    change(libc::SYS_lchown, &[plain(0)]),
    #[cfg(target_arch = "x86_64")]
    change(libc::SYS_utime, &[followed(plain(0))]),
    #[cfg(target_arch = "x86_64")]
    change(libc::SYS_utimes, &[followed(plain(0))]),
    #[cfg(target_arch = "x86_64")]
    change(libc::SYS_futimesat, &[followed(at(0, 1))]),
];

/// A call that reaches for an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    pub(super) number: c_long,
    pub(super) by: ReachBy,
}

/// How a call tells the address that it reaches for.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReachBy {
    /// By the arguments that say where it is and how long.
    Address { at: u32, length: u32 },
    /// In a message, to which its second argument points.
    Message,
    /// In each of a list of messages, which its second and third argument are.
    Messages,
}

/// The calls that reach for an address. One that only sends, where a connection is, names none.
pub(super) const REACHES: [Reach; 4] = [
    Reach { number: libc::SYS_connect, by: ReachBy::Address { at: 1, length: 2 } },
    Reach { number: libc::SYS_sendto, by: ReachBy::Address { at: 4, length: 5 } },
    Reach { number: libc::SYS_sendmsg, by: ReachBy::Message },
    Reach { number: libc::SYS_sendmmsg, by: ReachBy::Messages },
];

/// The flags of an open that may change something.
const CHANGING: u32 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u32;

/// Every flag of clone that makes a namespace.
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

impl Filter {
    /// The rules, at most one for each call.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let refused = NEVER.iter().map(|number| Rule::always(*number, REFUSED));
        let unsupported = UNSUPPORTED.iter().map(|number| Rule::always(*number, UNKNOWN));
        let mut rules: Vec<Rule> = refused.chain(unsupported).collect();
        rules.push(Rule::unless(
            libc::SYS_clone,
            vec![(vec![Condition::HasAny(0, NEW_NAMESPACES)], REFUSED)],
        ));
        // Typing into a terminal for whoever uses it next.
        let typing = [libc::TIOCSTI as u32, libc::TIOCLINUX as u32].map(|it| (it, REFUSED));
        let bare = !self.namespaces && self.access == Access::ReadOnly;
        let noting = match () {
            () if bare => Some(REFUSED),
            () if self.namespaces && self.watched => Some(Action::Ask),
            () => None,
        };
        let noting = noting.into_iter().flat_map(|action| METADATA_REQUESTS.map(|it| (it, action)));
        let requests = typing.into_iter().chain(noting);
        let cases = requests.map(|(request, action)| (vec![Condition::Is(1, request)], action));
        rules.push(Rule::unless(REQUEST.number, cases.collect()));
        rules.push(self.socket());
        if bare {
            rules.extend(METADATA.iter().map(|number| Rule::always(*number, REFUSED)));
        }
        if self.watched {
            let changes = CHANGES.iter().filter(|it| !bare || !it.is_of_metadata());
            rules.extend(changes.map(|change| match change.flags {
                Some(flags) => {
                    let cases = vec![(vec![Condition::HasAny(flags, CHANGING)], Action::Ask)];
                    Rule::unless(change.number, cases)
                }
                None => Rule::always(change.number, Action::Ask),
            }));
        }
        if self.watched && self.network == Network::Off && self.namespaces {
            rules.extend(REACHES.iter().map(|reach| match reach.by {
                ReachBy::Address { at, .. } => {
                    let named = vec![Condition::HasAny(at, u32::MAX)];
                    Rule::unless(reach.number, vec![(named, Action::Ask)])
                }
                // Whether it names one is in memory.
                ReachBy::Message | ReachBy::Messages => Rule::always(reach.number, Action::Ask),
            }));
        }
        rules
    }

    /// Sockets by family. Without a mount namespace any program of the host can be reached by the
    /// path of its socket, so there is none of that family. In a network of its own a command has
    /// those of the internet, which lead nowhere but to itself.
    fn socket(&self) -> Rule {
        let family = |family: i32| Condition::Is(0, family as u32);
        let outside = if self.watched { Action::Ask } else { REFUSED };
        let mut cases = vec![
            // Questions about interfaces, which many programs ask without using the network.
            (
                vec![family(libc::AF_NETLINK), Condition::Is(2, libc::NETLINK_ROUTE as u32)],
                Action::Allow,
            ),
            (vec![family(libc::AF_NETLINK)], REFUSED),
        ];
        cases.push((
            vec![family(libc::AF_UNIX)],
            if self.namespaces { Action::Allow } else { REFUSED },
        ));
        if self.network == Network::On || self.namespaces {
            cases.push((vec![family(libc::AF_INET)], Action::Allow));
            cases.push((vec![family(libc::AF_INET6)], Action::Allow));
        }
        Rule::unless(libc::SYS_socket, cases).or(match self.network {
            Network::Off => outside,
            Network::On => REFUSED,
        })
    }
}

#[cfg(test)]
mod tests {
    use libc::{SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_USER_NOTIF};

    use super::*;
    use crate::sandbox::bpf::tests::outcome;

    const REFUSED: u32 = SECCOMP_RET_ERRNO | libc::EPERM as u32;

    const OFF: Filter = Filter {
        access: Access::WorkspaceWrite,
        network: Network::Off,
        namespaces: true,
        watched: false,
    };

    fn socket(filter: Filter, family: i32) -> u32 {
        outcome(&filter.rules(), libc::SYS_socket, [family as u64, 1, 0, 0, 0, 0])
    }

    #[test]
    fn without_network_only_the_commands_own_sockets_are_left() {
        let bare = Filter { namespaces: false, ..OFF };
        for (filter, families) in [
            (OFF, &[libc::AF_PACKET, libc::AF_VSOCK, 99][..]),
            (bare, &[libc::AF_INET, libc::AF_INET6, libc::AF_PACKET, libc::AF_VSOCK]),
        ] {
            for family in families.iter().copied() {
                assert_eq!(socket(filter, family), REFUSED, "{family}");
                let watched = Filter { watched: true, ..filter };
                assert_eq!(socket(watched, family), SECCOMP_RET_USER_NOTIF, "{family}");
            }
        }
        assert_eq!(socket(OFF, libc::AF_INET6), SECCOMP_RET_ALLOW);
        assert_eq!(socket(OFF, libc::AF_UNIX), SECCOMP_RET_ALLOW);
        assert_eq!(socket(Filter { namespaces: false, ..OFF }, libc::AF_UNIX), REFUSED);
    }

    #[test]
    fn with_network_the_internet_is_there_and_nothing_else_is() {
        let on = Filter { network: Network::On, ..OFF };
        assert_eq!(socket(on, libc::AF_INET6), SECCOMP_RET_ALLOW);
        assert_eq!(socket(on, libc::AF_VSOCK), REFUSED);
        assert_eq!(socket(Filter { namespaces: false, ..on }, libc::AF_UNIX), REFUSED);
    }

    #[test]
    fn no_call_makes_a_namespace() {
        let rules = OFF.rules();
        for flag in [libc::CLONE_NEWUSER, libc::CLONE_NEWNS, libc::CLONE_NEWNET] {
            let arguments = [(flag | libc::SIGCHLD) as u64, 0, 0, 0, 0, 0];
            assert_eq!(outcome(&rules, libc::SYS_clone, arguments), REFUSED);
        }
        let threads = (libc::CLONE_VM | libc::CLONE_THREAD) as u64;
        assert_eq!(outcome(&rules, libc::SYS_clone, [threads, 0, 0, 0, 0, 0]), SECCOMP_RET_ALLOW);
        let unknown = SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
        assert_eq!(outcome(&rules, libc::SYS_clone3, [0; 6]), unknown);
    }

    #[test]
    fn only_opens_that_may_change_something_are_looked_at() {
        let rules = Filter { watched: true, ..OFF }.rules();
        let open = |flags: i32| outcome(&rules, libc::SYS_openat, [0, 0, flags as u64, 0, 0, 0]);
        assert_eq!(open(libc::O_RDONLY | libc::O_CLOEXEC), SECCOMP_RET_ALLOW);
        for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC] {
            assert_eq!(open(flags), SECCOMP_RET_USER_NOTIF);
        }
    }

    #[test]
    fn only_what_names_an_address_is_looked_at() {
        let rules = Filter { watched: true, ..OFF }.rules();
        let send = |address| outcome(&rules, libc::SYS_sendto, [3, 1, 1, 0, address, 16]);
        assert_eq!(send(0), SECCOMP_RET_ALLOW);
        assert_eq!(send(0x7fff_0000_1000), SECCOMP_RET_USER_NOTIF);
        let connect = outcome(&rules, libc::SYS_connect, [3, 0x1000, 16, 0, 0, 0]);
        assert_eq!(connect, SECCOMP_RET_USER_NOTIF);
    }

    #[test]
    fn no_call_has_two_rules() {
        for namespaces in [false, true] {
            for access in [Access::ReadOnly, Access::WorkspaceWrite] {
                let filter = Filter { access, namespaces, watched: true, ..OFF };
                let mut numbers: Vec<u32> = filter.rules().iter().map(Rule::number).collect();
                let count = numbers.len();
                numbers.sort_unstable();
                numbers.dedup();
                assert_eq!(numbers.len(), count, "{filter:?}");
            }
        }
    }
}
