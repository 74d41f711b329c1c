//! What the person wants of the recall of the next turns. A wish ranks and leaves out; it makes nothing mandatory.

use std::sync::{Arc, Mutex, PoisonError};

use agentspine_gate::Id;
use agentspine_gate::recall::{Answer, LeftOut};

/// Wishes that hold now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wished {
    /// Memories that every turn is given, first of all.
    pub pinned: Vec<Id>,
    /// What the next turn is not given, unless its provider is required.
    pub left_out: Vec<Id>,
}

impl Wished {
    /// Takes what the person does not want out of an answer, and says so.
    pub(crate) fn apply(&self, answer: &mut Answer) {
        let mut told = Vec::new();
        answer.items.retain(|item| {
            let wanted = !self.left_out.contains(&item.id);
            if !wanted {
                let (id, title) = (item.id.clone(), item.claim.clone());
                told.push(LeftOut { id, title, why: "you left it out of this turn".to_owned() });
            }
            wanted
        });
        answer.left_out.splice(0..0, told);
    }
}

/// The wishes, shared between the screen that changes them and the recall that heeds them.
#[derive(Clone, Default)]
pub struct Wishes(Arc<Mutex<Wished>>);

impl Wishes {
    /// Replaces all wishes.
    pub fn set(&self, wished: Wished) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = wished;
    }

    /// The wishes as they are.
    pub fn now(&self) -> Wished {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A turn passed: what was to be left out of it is wanted again.
    pub fn passed(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).left_out.clear();
    }
}
