//! Looking into the store without writing: what a receipt's call injected, and what the proxy took it for.

use std::collections::HashMap;
use std::path::Path;

use agentspine_gate::span::Span;
use agentspine_gate::{Id, ReceiptId};
use rusqlite::{Connection, OptionalExtension as _};
use serde_json::Value;

use super::{Result, rows, schema};

/// Kind of the event that the proxy keeps of a call: `{"receipt", "sort"}`.
const CALL_KIND: &str = "call";
/// Most sorts remembered; then all are forgotten and read again.
const SORTS_MAX: usize = 10_000;

/// The store, read-only.
pub(crate) struct Look {
    pub(super) connection: Connection,
    sorts: HashMap<ReceiptId, String>,
    /// How far each session's events were read for sorts.
    read: HashMap<Id, i64>,
}

impl Look {
    /// Opens the store where it exists.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>> {
        let connection = schema::look(path)?;
        Ok(connection.map(|connection| Self { connection, sorts: HashMap::new(), read: HashMap::new() }))
    }

    /// The text that this receipt's call injected; `None` where none is kept (any more).
    pub(crate) fn span(&self, receipt: ReceiptId) -> Result<Option<Span>> {
        let sql = "SELECT place, receipt_id, text FROM span WHERE receipt_id = ?1 ORDER BY rowid LIMIT 1";
        let mut select = self.connection.prepare_cached(sql)?;
        select.query_row([receipt.to_hex()], |row| Ok(rows::span(row))).optional()?.transpose()
    }

    /// What the proxy recognised a call as, such as `Title`; `None` where it did not say.
    pub(crate) fn sort(&mut self, session: &Id, receipt: ReceiptId) -> Result<Option<String>> {
        if !self.sorts.contains_key(&receipt) {
            self.read_on(session)?;
        }
        Ok(self.sorts.get(&receipt).cloned())
    }

    fn read_on(&mut self, session: &Id) -> Result<()> {
        if self.sorts.len() > SORTS_MAX {
            (self.sorts, self.read) = (HashMap::new(), HashMap::new());
        }
        let last = self.read.get(session).copied().unwrap_or_default();
        let sql = "SELECT seq, body FROM event WHERE session_id = ?1 AND seq > ?2 AND kind = ?3 ORDER BY seq";
        let mut select = self.connection.prepare_cached(sql)?;
        let mut found = select.query((session.as_str(), last, CALL_KIND))?;
        while let Some(row) = found.next()? {
            let body: Value = serde_json::from_str(&row.get::<_, String>(1)?).unwrap_or_default();
            let word = |name: &str| body.get(name).and_then(Value::as_str);
            if let (Some(receipt), Some(sort)) = (word("receipt").and_then(ReceiptId::parse), word("sort")) {
                self.sorts.insert(receipt, sort.to_owned());
            }
            self.read.insert(session.clone(), row.get(0)?);
        }
        Ok(())
    }
}
