//! Who rules on a call: the mode's table with the user's rules, before hooks and a person are
//! asked, and guards after all of them.

use async_trait::async_trait;
use bridle_compose::{ActivateError, Plugin, ServiceKey, Setup};
use std::path::Path;
use std::sync::Arc;

use crate::display::ToolKind;
use crate::hooks::CallInfo;
use crate::mode::Ruling;
use crate::rules::{Effect, Rule, Rules, RulesConfig};
use crate::tool::Access;

/// Rules on calls. A session without one runs nothing.
pub trait PermissionPolicy: Send + Sync + 'static {
    /// Rules on a call, in the mode that it is made in.
    fn rule(&self, call: &CallInfo) -> Judgement;

    /// The user's rule that denies reading this file or asks before it: what is read for the model
    /// without a call of it is not read then.
    fn keeps_back(&self, path: &Path) -> Option<String>;
}

/// What a policy says of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What becomes of it.
    pub ruling: Ruling,
    /// The user's rule that said so, where it was one and not the mode.
    pub rule: Option<String>,
}

/// Looks at a call that everything else let through, a person's yes included. It can only say no:
/// a service that a row adds to a session's scope.
#[async_trait]
pub trait CallGuard: Send + Sync + 'static {
    /// Checks a call.
    ///
    /// # Errors
    /// Why the call may not run, for the model.
    ///
    /// # Cancel safety
    /// Cancel safe: dropped when the turn is cancelled.
    async fn check(&self, call: &CallInfo) -> Result<(), String>;
}

/// The table of the modes, and the rules that a user puts beside it.
#[derive(Clone, Debug)]
pub struct ModeTable {
    /// The user's rules.
    pub rules: Rules,
}

impl PermissionPolicy for ModeTable {
    fn rule(&self, call: &CallInfo) -> Judgement {
        let start = Judgement { ruling: Ruling::Allow, rule: None };
        let judged = call.accesses.iter().map(|access| self.rule_one(call, access));
        judged.fold(start, Judgement::strictest)
    }

    fn keeps_back(&self, path: &Path) -> Option<String> {
        self.rules.about_reading(path).map(ToString::to_string)
    }
}

impl ModeTable {
    /// A rule refuses or asks whatever the mode says; it allows only what the mode asks about.
    fn rule_one(&self, call: &CallInfo, access: &Access) -> Judgement {
        let mode = call.mode.rule(std::slice::from_ref(access));
        let searches = call.display.kind == ToolKind::Search;
        let rule = self.rules.strongest(&call.name, access, searches);
        match (mode, rule) {
            (mode @ (Ruling::Deny(_) | Ruling::Cancel), _) | (mode, None) => {
                Judgement { ruling: self.mistrusted(mode, access), rule: None }
            }
            (_, Some(rule)) if rule.effect == Effect::Deny => Judgement::by(rule, Ruling::Deny),
            (mode, Some(rule)) if rule.effect == Effect::Ask => {
                let asked = Judgement::by(rule, |text| Ruling::Ask(vec![text]));
                Judgement { ruling: asked.ruling.strictest(mode), ..asked }
            }
            // What a command needs beyond the sandbox is a person's to grant, call by call.
            (mode, Some(_)) if asks_for_more(access) => Judgement { ruling: mode, rule: None },
            (Ruling::Ask(_), Some(rule)) => {
                Judgement { ruling: Ruling::Allow, rule: Some(rule.to_string()) }
            }
            (mode, Some(_)) => Judgement { ruling: mode, rule: None },
        }
    }

    /// When rules could not be read, nobody knows what they would have refused.
    fn mistrusted(&self, ruling: Ruling, access: &Access) -> Ruling {
        if self.rules.are_whole() || (ruling == Ruling::Allow && is_harmless(access)) {
            return ruling;
        }
        ruling.strictest(Ruling::Ask(vec![
            "some of your permission rules could not be read".to_owned(),
        ]))
    }
}

fn is_harmless(access: &Access) -> bool {
    matches!(access, Access::ReadInside(_))
}

fn asks_for_more(access: &Access) -> bool {
    matches!(access, Access::Run { network, unconfined, .. } if *network || *unconfined)
}

impl Judgement {
    fn by(rule: &Rule, ruling: impl FnOnce(String) -> Ruling) -> Self {
        let text = match rule.effect {
            Effect::Deny => format!(
                "Denied by the user's rule `{rule}`. Do not try to reach the same effect another \
                 way; say what you would do."
            ),
            Effect::Ask | Effect::Allow => format!("your rule `{rule}` asks"),
        };
        Self { ruling: ruling(text), rule: Some(rule.to_string()) }
    }

    /// The stricter of the two, with its rule; of two that allow, the one that a rule allowed.
    fn strictest(self, other: Self) -> Self {
        let ruling = self.ruling.clone().strictest(other.ruling.clone());
        let decides = |judged: &Self| {
            std::mem::discriminant(&judged.ruling) == std::mem::discriminant(&ruling)
        };
        let rule = [self, other].into_iter().filter(decides).find_map(|judged| judged.rule);
        Self { ruling, rule }
    }
}

/// The row of [`ModeTable`].
pub struct PermissionModes;

#[async_trait]
impl Plugin for PermissionModes {
    const NAME: &'static str = "permission-modes";
    type Config = RulesConfig;
    type Needs = ();

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn PermissionPolicy>()]
    }

    async fn activate(
        &self,
        config: RulesConfig,
        (): (),
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let rules =
            Rules::new(&config).map_err(|error| ActivateError::Unable(error.to_string()))?;
        let table = ModeTable { rules };
        Ok(setup.provide::<dyn PermissionPolicy>(Arc::new(table))?)
    }
}

#[cfg(test)]
mod tests;
