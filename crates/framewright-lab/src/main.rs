//! The `framewright` command.

fn main() {}
