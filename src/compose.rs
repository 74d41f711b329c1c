//! Builds gate, recall, memory, model and screen from one [`crate::config::Config`].
