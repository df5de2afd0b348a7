//! Faults that can be planted to see that the tests would notice them. They exist only with the
//! feature `planted-faults`, which nothing but `tests/planted-faults` turns on; without it none
//! is ever in.

/// One way to get a turn wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plant {
    /// A turn is reported as over before the last update of it.
    EarlyEnd,
    /// The wait before a retry does not hear a cancel.
    DeafRetry,
    /// Results are recorded in the order in which their bodies ended.
    CompletionOrder,
    /// A yes counts for every later call.
    ReusedPermission,
    /// A body with effects runs before its call is durable.
    NoFlush,
}

impl Plant {
    /// Whether this fault is in: the one that `BRIDLE_AGENT_PLANT` names.
    #[cfg(feature = "planted-faults")]
    pub(crate) fn is_in(self) -> bool {
        std::env::var("BRIDLE_AGENT_PLANT").is_ok_and(|name| name == format!("{self:?}"))
    }

    /// Whether this fault is in: never.
    #[cfg(not(feature = "planted-faults"))]
    pub(crate) const fn is_in(self) -> bool {
        let _ = self;
        false
    }
}
