//! The store's tests: real files in temporary folders, real processes, and disks that fail.

mod basics;
mod blobs;
mod crashes;
mod damage;
mod faults;
mod full_disk;
mod holes;
mod index;
mod listing;
mod migration;
mod model;
mod operations;
mod places;
mod processes;
mod sample;
mod search;
mod simulated;
mod special;
mod tails;
mod torn;
