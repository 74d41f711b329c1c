//! `[proxy]` as it is now: a reload replaces it for the requests that come after.

use std::sync::{Arc, PoisonError, RwLock};

use agentspine_model::Url;

use super::workspaces::Upstream;
use crate::config::ProxySettings;

/// Where requests go; shared by all of them.
pub(crate) struct Settings(RwLock<Arc<ProxySettings>>);

impl Settings {
    /// With what the configuration said at the start.
    pub(crate) fn new(settings: ProxySettings) -> Self {
        Self(RwLock::new(Arc::new(settings)))
    }

    /// Where an upstream lives now.
    pub(crate) fn base(&self, upstream: Upstream) -> Url {
        let now = self.now();
        match upstream {
            Upstream::Anthropic => now.anthropic.clone(),
            Upstream::OpenAi => now.openai.clone(),
            Upstream::ChatGpt => now.chatgpt.clone(),
        }
    }

    fn now(&self) -> Arc<ProxySettings> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces it.
    pub(crate) fn set(&self, settings: ProxySettings) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }
}
