//! Faults that can be planted to see that the tests would notice them. They exist only with the
//! feature `planted-faults`, which nothing but `tests/planted-faults` turns on; without it none
//! is ever in.

/// One way to get a model's wire wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plant {
    /// Results stand in the order in which they came.
    ArrivalOrder,
    /// Another model's reasoning goes back as if it were this one's.
    ForeignReasoning,
    /// Reasoning without a text is left out.
    NoEmptyReasoning,
    /// An id that occurs twice stays.
    RepeatedIds,
    /// What was kept of the last request is taken for the start of any other.
    StaleStart,
    /// The newest images push out the older ones.
    ShiftingImages,
    /// What the user says of a model changes nothing.
    NoOverride,
}

impl Plant {
    /// Whether this fault is in: the one that `BRIDLE_MODEL_PLANT` names.
    #[cfg(feature = "planted-faults")]
    pub(crate) fn is_in(self) -> bool {
        std::env::var("BRIDLE_MODEL_PLANT").is_ok_and(|name| name == format!("{self:?}"))
    }

    /// Whether this fault is in: never.
    #[cfg(not(feature = "planted-faults"))]
    pub(crate) const fn is_in(self) -> bool {
        let _ = self;
        false
    }
}
