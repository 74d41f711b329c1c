//! Single-use tokens between the two steps of forgetting, kept in the ledger so that the steps may be two processes.

use agentspine_gate::seams::Rng;
use agentspine_gate::{Digest, Id, ids};
use rusqlite::{OptionalExtension as _, TransactionBehavior, params};
use serde::{Deserialize, Deserializer};

use super::{PREVIEW_MS, ToolError};
use crate::ledger::{Ledger, StoreError};
use crate::record::MemoryScope;

/// Most open previews of one ledger; the one that expires first makes room.
const PREVIEWS_MAX: i64 = 100;
/// Bytes of a token.
const TOKEN_BYTES: usize = 16;

/// What a preview gives and a confirmation takes, once. The ledger keeps its digest alone.
pub(super) struct Token(String);

impl Token {
    pub(super) fn draw(rng: &dyn Rng) -> Result<Self, ToolError> {
        let mut bytes = [0; TOKEN_BYTES];
        rng.fill(&mut bytes).map_err(|_| ToolError::Randomness)?;
        Ok(Self(ids::hex(&bytes)))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    fn digest(&self) -> String {
        Digest::of(format!("preview v1\0{}", self.0).as_bytes()).to_hex()
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let bytes = ids::unhex(&text).filter(|bytes| bytes.len() == TOKEN_BYTES);
        bytes.map(|_| Self(text)).ok_or_else(|| serde::de::Error::custom("not a preview token"))
    }
}

/// Keeps what a preview listed. Expired previews go, also those of a clock that was set back since.
pub(super) fn keep(
    ledger: &mut Ledger,
    token: &Token,
    scope: &MemoryScope,
    memories: &[Id],
    now_ms: i64,
) -> Result<(), StoreError> {
    let tx = ledger.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let expires = now_ms.saturating_add(PREVIEW_MS);
    tx.execute(
        "DELETE FROM memory_preview WHERE expires_at <= ?1 OR expires_at > ?2",
        params![now_ms, expires],
    )?;
    tx.execute(
        "DELETE FROM memory_preview WHERE digest IN
         (SELECT digest FROM memory_preview ORDER BY expires_at DESC, digest LIMIT -1 OFFSET ?)",
        [PREVIEWS_MAX - 1],
    )?;
    let ids = memories.iter().map(Id::as_str).collect::<Vec<_>>().join("\n");
    tx.execute(
        "INSERT INTO memory_preview (digest, scope_digest, memory_ids, expires_at) VALUES (?, ?, ?, ?)",
        params![token.digest(), scope.digest().to_hex(), ids, expires],
    )?;
    tx.commit()?;
    Ok(())
}

/// Takes what a preview of exactly this scope listed; a second time there is nothing to take.
pub(super) fn redeem(
    ledger: &mut Ledger,
    token: &Token,
    scope: &MemoryScope,
    now_ms: i64,
) -> Result<Option<Vec<Id>>, StoreError> {
    let tx = ledger.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let latest = now_ms.saturating_add(PREVIEW_MS);
    let listed: Option<String> = tx
        .query_row(
            "DELETE FROM memory_preview
             WHERE digest = ?1 AND scope_digest = ?2 AND expires_at > ?3 AND expires_at <= ?4 RETURNING memory_ids",
            params![token.digest(), scope.digest().to_hex(), now_ms, latest],
            |row| row.get(0),
        )
        .optional()?;
    tx.commit()?;
    let Some(listed) = listed else { return Ok(None) };
    let ids = listed.lines().map(|id| Id::new(id).map_err(|_| StoreError::Corrupt));
    ids.collect::<Result<Vec<_>, _>>().map(Some)
}
