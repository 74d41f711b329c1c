//! `proxy.json` as it is written: schema `agentspine.proxy/v1`, unknown keys refused.

use std::io;
use std::path::{Path, PathBuf};

use agentspine_gate::Id;
use agentspine_gate::ids::unhex;
use agentspine_gate::instructions::HostHomes;
use agentspine_gate::private::{Unfit, read_private};
use agentspine_gate::turn::{Host, Identity, Injection, InstructionHost};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use super::{Binding, Contents, Known, RegistryError, SECRET_BYTES, Upstreams, Workspace};
use crate::config::Secret;

/// Largest file, bytes: every workspace with long paths fits.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The whole file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Stored {
    schema: Schema,
    port: Option<u16>,
    workspaces: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
enum Schema {
    #[serde(rename = "agentspine.proxy/v1")]
    V1,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    #[serde(serialize_with = "expose", deserialize_with = "secret")]
    secret: Secret,
    dir: PathBuf,
    host: Host,
    instruction_host: InstructionHost,
    identity: Who,
    homes: Homes,
    upstreams: Upstreams,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
    last_used_day: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the keys are the receipt's")]
struct Who {
    agent_id: Id,
    persona_id: Option<Id>,
    user_id: Id,
    tenant_id: Id,
    profile_id: Id,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Homes {
    home: PathBuf,
    claude_config_dir: Option<PathBuf>,
    codex_home: Option<PathBuf>,
    claude_managed_dir: Option<PathBuf>,
}

/// Reads the file; a missing one is empty.
pub(super) fn read(path: &Path) -> Result<Contents, RegistryError> {
    let bytes = match read_private(path, FILE_BYTES_MAX) {
        Ok((bytes, _)) => bytes,
        Err(Unfit::Absent) => return Ok(Contents::default()),
        Err(why) => return Err(RegistryError::unfit(why)),
    };
    let stored: Stored =
        serde_json::from_slice(&bytes).map_err(|cause| RegistryError::Invalid(cause.line()))?;
    Ok(stored.contents())
}

impl Stored {
    /// What is written for these contents.
    pub(super) fn of(contents: &Contents) -> Self {
        let workspaces = contents.workspaces.iter().map(Entry::of).collect();
        Self { schema: Schema::V1, port: contents.port, workspaces }
    }

    /// The file's bytes, wiped when dropped.
    pub(super) fn bytes(&self) -> Result<Zeroizing<Vec<u8>>, RegistryError> {
        // Counted first: a vector that grows leaves copies that nobody wipes.
        let mut length = Count(0);
        let failed = |_| RegistryError::Directory;
        serde_json::to_writer_pretty(&mut length, self).map_err(failed)?;
        let mut bytes = Zeroizing::new(Vec::with_capacity(length.0.saturating_add(1)));
        serde_json::to_writer_pretty(&mut *bytes, self).map_err(failed)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    fn contents(self) -> Contents {
        let workspaces = self.workspaces.into_iter().map(Entry::known).collect();
        Contents { port: self.port, workspaces }
    }
}

impl Entry {
    fn of(known: &Known) -> Self {
        let Workspace { secret, binding, injection } = &*known.workspace;
        let Binding { dir, host, instruction_host, identity, homes, upstreams } = binding.clone();
        Self {
            secret: secret.clone(),
            dir,
            host,
            instruction_host,
            identity: Who {
                agent_id: identity.agent_id,
                persona_id: identity.persona_id,
                user_id: identity.user_id,
                tenant_id: identity.tenant_id,
                profile_id: identity.profile_id,
            },
            homes: Homes {
                home: homes.home,
                claude_config_dir: homes.claude_config_dir,
                codex_home: homes.codex_home,
                claude_managed_dir: homes.claude_managed_dir,
            },
            upstreams,
            paused: *injection == Injection::Paused,
            last_used_day: known.used,
        }
    }
    fn known(self) -> Known {
        let binding = Binding {
            dir: self.dir,
            host: self.host,
            instruction_host: self.instruction_host,
            identity: Identity {
                agent_id: self.identity.agent_id,
                persona_id: self.identity.persona_id,
                user_id: self.identity.user_id,
                tenant_id: self.identity.tenant_id,
                profile_id: self.identity.profile_id,
            },
            homes: HostHomes {
                home: self.homes.home,
                claude_config_dir: self.homes.claude_config_dir,
                codex_home: self.homes.codex_home,
                claude_managed_dir: self.homes.claude_managed_dir,
            },
            upstreams: self.upstreams,
        };
        let injection = if self.paused { Injection::Paused } else { Injection::On };
        Known::new(Workspace { secret: self.secret, binding, injection }, self.last_used_day)
    }
}

fn expose<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}

/// A short or empty secret would let anybody in who guesses it.
fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    let text = Zeroizing::new(String::deserialize(deserializer)?);
    match unhex(&text).map(Zeroizing::new) {
        Some(bytes) if bytes.len() == SECRET_BYTES => Ok(Secret::new(text.to_string())),
        _ => Err(serde::de::Error::custom("not a secret")),
    }
}

/// Counts what is written.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
