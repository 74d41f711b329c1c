//! Shared ground.
