//! The store through its public interface, on files that are kept in the repository.

// A broken expectation must end the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::string_slice)]

mod corpus;
mod damaged;
