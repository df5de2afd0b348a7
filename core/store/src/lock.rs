//! The kernel lock of one session folder.
