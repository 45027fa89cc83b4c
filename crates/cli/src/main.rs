//! The `doorbell` command.
fn main() {}
