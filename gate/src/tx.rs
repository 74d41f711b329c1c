//! Transactions whose BEGIN and COMMIT are compiled once a connection.
//!
//! `rusqlite`'s own compile both each time, which costs about as much as the rows of a short one.

use std::ops::Deref;

use rusqlite::Connection;

/// A transaction. Rolled back when dropped uncommitted.
pub struct Tx<'c>(&'c Connection);

impl<'c> Tx<'c> {
    /// Begins one that writes, with the write lock: a deferred one that reads first fails at once when another process
    /// writes.
    pub fn write(conn: &'c Connection) -> rusqlite::Result<Self> {
        Self::begin(conn, "BEGIN IMMEDIATE")
    }

    /// Begins one that looks: its first read takes the snapshot that all others see.
    pub fn read(conn: &'c Connection) -> rusqlite::Result<Self> {
        Self::begin(conn, "BEGIN DEFERRED")
    }

    fn begin(conn: &'c Connection, sql: &str) -> rusqlite::Result<Self> {
        conn.prepare_cached(sql)?.execute([])?;
        Ok(Self(conn))
    }

    /// Commits it, as durably as the connection's `synchronous` says.
    pub fn commit(self) -> rusqlite::Result<()> {
        self.0.prepare_cached("COMMIT")?.execute([]).map(drop)
    }
}

impl Deref for Tx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0
    }
}

impl Drop for Tx<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // One that cannot even be rolled back ends with its connection; nothing of it was committed.
            let _ = self.0.prepare_cached("ROLLBACK").and_then(|mut back| back.execute([]));
        }
    }
}
