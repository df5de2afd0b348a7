//! The tests of the crate: what may enter a log, what it folds to, and that nothing gets lost.

mod admission;
mod blob;
mod damage;
mod fold;
mod fork;
mod lines;
mod repair;
mod replay;
mod sample;
mod surface;
