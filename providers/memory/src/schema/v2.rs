//! Schema 2: what a memory is about.

/// The speaker or thing that a memory is about is a field of its own.
pub(crate) const V2: &str = "ALTER TABLE memory_record ADD COLUMN subject TEXT;";
