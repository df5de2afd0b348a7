//! The store's tests: real files in temporary folders, real processes, and disks that fail.

mod basics;
mod sample;
