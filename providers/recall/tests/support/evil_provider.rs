//! A provider that misbehaves on demand.

fn main() {}
