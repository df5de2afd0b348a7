//! The surface: the ordered events that produce model messages now.
