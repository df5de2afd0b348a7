//! Parts that write down what is done to them, and stop the test when it is done wrongly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{ActivateError, Needs as _, Plugin, Plugins, Row, RowState, Scope, ServiceKey, Setup};

/// Services that differ in their type only. Each remembers which activation made it.
pub(super) struct A {
    pub(super) token: Token,
}
pub(super) struct B {
    pub(super) token: Token,
}
pub(super) struct C {
    pub(super) token: Token,
}

/// What was set up and is not undone yet, by activation.
#[derive(Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<Book>>);

#[derive(Default)]
pub(super) struct Book {
    next: u64,
    /// The effects of each live activation, oldest first.
    pub(super) live: BTreeMap<u64, Vec<u32>>,
    /// Which activations a live one was given services by.
    uses: BTreeMap<u64, Vec<u64>>,
    /// Everything that happened, in words.
    pub(super) story: Vec<String>,
    pub(super) wrong: Vec<String>,
    /// Rows that are active, to notice a second activation.
    rows: BTreeSet<String>,
}

/// One activation in the ledger.
#[derive(Clone)]
pub(super) struct Token {
    pub(super) number: u64,
    pub(super) row: String,
    ledger: Ledger,
}

impl Ledger {
    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap()
    }

    pub(super) fn story(&self) -> Vec<String> {
        std::mem::take(&mut self.book().story)
    }

    fn begin(&self, row: &str, uses: Vec<u64>) -> Token {
        let mut book = self.book();
        let number = book.next;
        book.next += 1;
        if !book.rows.insert(row.to_owned()) {
            book.wrong.push(format!("{row} is activated a second time"));
        }
        for used in &uses {
            if !book.live.contains_key(used) {
                book.wrong.push(format!("{row} was given a service of a dead activation"));
            }
        }
        book.live.insert(number, Vec::new());
        book.uses.insert(number, uses);
        book.story.push(format!("+{row}"));
        Token { number, row: row.to_owned(), ledger: self.clone() }
    }
}

impl Token {
    fn set_up(&self, effect: u32) {
        self.ledger.book().live.get_mut(&self.number).unwrap().push(effect);
    }

    fn undo(&self, effect: u32) {
        let mut book = self.ledger.book();
        let stack = book.live.get_mut(&self.number);
        let undone = stack.and_then(Vec::pop);
        if undone != Some(effect) {
            book.wrong.push(format!("{}: undid {effect}, due was {undone:?}", self.row));
        }
        let used = book.uses.iter().find(|(user, uses)| {
            uses.contains(&self.number) && book.live.get(user).is_some_and(|live| !live.is_empty())
        });
        if let Some((user, _)) = used {
            let text = format!("{} is undone while activation {user} uses it", self.row);
            book.wrong.push(text);
        }
        if effect == 0 {
            let text = format!("-{}", self.row);
            book.story.push(text);
            book.live.remove(&self.number);
            book.uses.remove(&self.number);
            book.rows.remove(&self.row);
        }
    }
}

/// A guard whose drop is noted.
struct Guard(Token, u32);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.undo(self.1);
    }
}

/// How a part behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Fault {
    #[default]
    None,
    /// Fails when half of it is set up.
    Half,
    /// Panics when half of it is set up.
    Panic,
    /// One of its effects cannot be undone.
    Undo,
    /// One of its effects panics when it is undone.
    UndoPanic,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PartConfig {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) fault: Fault,
    /// How often it lets others run while it is set up.
    #[serde(default)]
    pub(super) yields: u32,
}

/// Sets up four effects, two of them asynchronous, with the fault in the middle.
async fn set_up(
    token: &Token,
    config: &PartConfig,
    setup: &Setup,
    provide: impl FnOnce(&Setup, Token) -> Result<(), ActivateError>,
) -> Result<(), ActivateError> {
    for effect in 0..2 {
        token.set_up(effect);
        let guard = Guard(token.clone(), effect);
        setup.own(format!("effect {effect}"), guard)?;
    }
    for _ in 0..config.yields {
        tokio::task::yield_now().await;
    }
    provide(setup, token.clone())?;
    match config.fault {
        Fault::Half => return Err(ActivateError::Unable("half of it was enough".to_owned())),
        Fault::Panic => panic!("as planned"),
        _ => (),
    }
    for effect in 2..4 {
        token.set_up(effect);
        let (token, fault, yields) = (token.clone(), config.fault, config.yields);
        setup.on_retract(format!("effect {effect}"), move || async move {
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            token.undo(effect);
            match fault {
                Fault::Undo if effect == 2 => Err("it sticks".into()),
                Fault::UndoPanic if effect == 2 => panic!("as planned"),
                _ => Ok(()),
            }
        })?;
    }
    Ok(())
}

macro_rules! part {
    ($plugin:ident, $name:literal, needs($($need:ident),*), provides($($service:ident)?)) => {
        pub(super) struct $plugin(pub(super) Ledger);

        #[async_trait]
        impl Plugin for $plugin {
            const NAME: &'static str = $name;
            type Config = PartConfig;
            type Needs = ($(Arc<$need>,)*);

            fn provides() -> Vec<ServiceKey> {
                vec![$(ServiceKey::of::<$service>())?]
            }

            #[allow(non_snake_case, reason = "each value is named like its type")]
            async fn activate(
                &self,
                config: PartConfig,
                ($($need,)*): Self::Needs,
                setup: &Setup,
            ) -> Result<(), ActivateError> {
                let name = if config.name.is_empty() { $name } else { &config.name };
                let token = self.0.begin(name, vec![$($need.token.number),*]);
                set_up(&token, &config, setup, |_setup, _token| {
                    $(_setup.provide(Arc::new($service { token: _token }))?;)?
                    Ok(())
                })
                .await
            }
        }
    };
}

part!(GivesA, "gives-a", needs(), provides(A));
part!(AToB, "a-to-b", needs(A), provides(B));
part!(AbToC, "ab-to-c", needs(A, B), provides(C));
part!(UsesC, "uses-c", needs(C), provides());
part!(WrapsA, "wraps-a", needs(A), provides(A));
part!(BToA, "b-to-a", needs(B), provides(A));

pub(super) fn plugins(ledger: &Ledger) -> Plugins {
    Plugins::new()
        .with(GivesA(ledger.clone()))
        .with(AToB(ledger.clone()))
        .with(AbToC(ledger.clone()))
        .with(UsesC(ledger.clone()))
        .with(WrapsA(ledger.clone()))
        .with(BToA(ledger.clone()))
}

/// A row whose part calls itself by the row's id.
pub(super) fn row(id: &str, plugin: &str, fault: &str, yields: u32) -> Row {
    let config = serde_json::json!({ "name": id, "fault": fault, "yields": yields });
    Row { plugin: Some(plugin.to_owned()), ..Row::new(id).with(config) }
}

/// A plain row named like its plugin.
pub(super) fn plain(plugin: &str) -> Row {
    row(plugin, plugin, "none", 0)
}

/// How the rows of a scope stand, in words.
pub(super) async fn standing(scope: &Scope) -> Vec<String> {
    let rows = scope.rows().await.into_iter().map(|row| match row.state {
        RowState::Active => row.id,
        RowState::Pending(missing) => format!("{} waits for {missing:?}", row.id),
        RowState::Failed(reason) => format!("{} failed: {reason}", row.id),
        RowState::Disabled => format!("{} is off", row.id),
    });
    rows.collect()
}

/// What the needs of a part are, for a model of what should be active.
pub(super) fn needs_of(plugin: &str) -> Vec<ServiceKey> {
    match plugin {
        "a-to-b" => <AToB as Plugin>::Needs::keys(),
        "ab-to-c" => <AbToC as Plugin>::Needs::keys(),
        "uses-c" => <UsesC as Plugin>::Needs::keys(),
        "wraps-a" => <WrapsA as Plugin>::Needs::keys(),
        "b-to-a" => <BToA as Plugin>::Needs::keys(),
        _ => Vec::new(),
    }
}

/// What a part provides.
pub(super) fn provided_by(plugin: &str) -> Vec<ServiceKey> {
    match plugin {
        "gives-a" | "wraps-a" | "b-to-a" => vec![ServiceKey::of::<A>()],
        "a-to-b" => vec![ServiceKey::of::<B>()],
        "ab-to-c" => vec![ServiceKey::of::<C>()],
        _ => Vec::new(),
    }
}
