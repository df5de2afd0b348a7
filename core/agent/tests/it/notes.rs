//! The worked example of a capability that is made of plugins: notes.
//!
//! [`store`] is the seam and its two providers, [`tools`] what a model gets of it. A provider is a
//! row, and so is the consumer: either can be swapped without a change of the other.

mod contract;
mod store;
mod tools;
