//! The user's rules about files that are read for a model without a call of it: instructions and skills.

use std::path::Path;

use bridle_agent::PermissionPolicy;
use bridle_compose::Scope;

/// Asks the policy of a session, as it is at the moment.
#[derive(Clone, Default)]
pub(crate) struct ReadRules(Option<Scope>);

impl ReadRules {
    /// The rules of the session with this scope.
    pub(crate) fn of(scope: &Scope) -> Self {
        Self(Some(scope.clone()))
    }

    /// Why the file at `path`, which `real` is with links resolved, is not read; `None` where no rule
    /// is about either.
    pub(crate) fn refusal(&self, path: &Path, real: &Path) -> Option<String> {
        let policy = self.0.as_ref()?.get::<dyn PermissionPolicy>()?;
        let rule = policy.keeps_back(real).or_else(|| policy.keeps_back(path))?;
        Some(format!("the user's rule `{rule}` keeps it back"))
    }
}
