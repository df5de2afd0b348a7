//! Faults that can be planted to see that the tests would notice them. They exist only with the
//! feature `planted-faults`, which nothing but `tests/planted-faults` turns on; without it none
//! is ever in.

/// Names the fault that is in.
const VARIABLE: &str = "BRIDLE_WORLD_PLANT";

/// One way to get a change of a file, or the end of a command, wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plant {
    /// Names are never made durable.
    NoFolderSync,
    /// A name appears before the content is durable.
    NoFileSync,
    /// A replaced file gets the mode of a new one.
    NoMode,
    /// What was displaced is not looked at.
    NoSecondLook,
    /// A new file takes the place of what has its name.
    PublishOver,
    /// Only the command's own process group is killed.
    GroupKill,
    /// A command gets every descriptor that the agent has.
    InheritedDescriptors,
    /// A confined command is refused no system call.
    NoSeccomp,
    /// A confined command is held by mounts only.
    NoLandlock,
    /// What is protected in a workspace is not mounted over.
    NoPins,
    /// A command is locked in when its program may have run already.
    PolicyAfterExec,
    /// What came to a protected name stays there.
    NoAside,
    /// A command starts as many processes as it likes.
    NoProcessLimit,
    /// Nobody waits for what is held absent to go, nor removes it in the place of who was killed.
    NoTidying,
    /// A refusal is told from what a command wrote.
    DenialByText,
}

impl Plant {
    /// The variable that names the one that is in, for a supervisor, whose environment is empty.
    pub(crate) fn passed_on() -> impl Iterator<Item = (&'static str, String)> {
        let planted = cfg!(feature = "planted-faults").then(|| std::env::var(VARIABLE).ok());
        planted.flatten().map(|name| (VARIABLE, name)).into_iter()
    }

    /// Whether this fault is in: the one that `BRIDLE_WORLD_PLANT` names.
    #[cfg(feature = "planted-faults")]
    pub(crate) fn is_in(self) -> bool {
        std::env::var(VARIABLE).is_ok_and(|name| name == format!("{self:?}"))
    }

    /// Whether this fault is in: never.
    #[cfg(not(feature = "planted-faults"))]
    pub(crate) const fn is_in(self) -> bool {
        let _ = self;
        false
    }
}
