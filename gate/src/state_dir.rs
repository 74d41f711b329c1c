//! The state directory: 0700, outside every project, not on a network file system.
