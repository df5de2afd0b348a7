//! Faults that can be planted to see that the tests would notice them. They exist only with the
//! feature `planted-faults`, which nothing but `tests/planted-faults` turns on; without it none
//! is ever in.

/// One way to get durability wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plant {
    /// Names are never made durable.
    NoFolderSync,
    /// A batch is acknowledged before it is synced.
    EarlyAnswer,
    /// A torn end is taken for frames and written behind.
    TrustedTail,
    /// A torn end is cut without a sync.
    UnsyncedCut,
    /// A sync that failed is tried again and believed.
    RepeatedSync,
    /// The lock file goes with its holder.
    DeletedLock,
    /// A log takes the place of what has its name.
    PublishOver,
}

impl Plant {
    /// Whether this fault is in: the one that `BRIDLE_STORE_PLANT` names.
    #[cfg(feature = "planted-faults")]
    pub(crate) fn is_in(self) -> bool {
        std::env::var("BRIDLE_STORE_PLANT").is_ok_and(|name| name == format!("{self:?}"))
    }

    /// Whether this fault is in: never.
    #[cfg(not(feature = "planted-faults"))]
    pub(crate) const fn is_in(self) -> bool {
        let _ = self;
        false
    }
}
