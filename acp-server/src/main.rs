//! The `bridle` binary.
fn main() {}
