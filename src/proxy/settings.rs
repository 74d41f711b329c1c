//! `[proxy]` as it is now: a reload replaces it for the requests that come after.

use std::sync::{Arc, PoisonError, RwLock};

use crate::config::ProxySettings;

/// Where requests go; shared by all of them.
pub(crate) struct Settings(RwLock<Arc<ProxySettings>>);

impl Settings {
    /// With what the configuration said at the start.
    pub(crate) fn new(settings: ProxySettings) -> Self {
        Self(RwLock::new(Arc::new(settings)))
    }

    /// What holds for a request that begins now.
    pub(crate) fn now(&self) -> Arc<ProxySettings> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces it.
    pub(crate) fn set(&self, settings: ProxySettings) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }
}
