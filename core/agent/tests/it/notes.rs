//! The worked example of a capability that is made of plugins: notes.
//!
//! [`store`] is the seam and its two providers, [`tools`] what a model gets of it, [`policy`] what
//! a host forbids. Each is a row, and each can be swapped without a change of the others:
//! [`contract`] shows it of the rows alone, [`turns`] in whole turns.

mod contract;
mod policy;
mod store;
mod tools;
mod turns;
