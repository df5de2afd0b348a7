//! Commands under a supervisor: start, watch, cap, end.

/// Runs commands of this host. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Processes {
    _private: (),
}
