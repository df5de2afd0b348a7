//! What clients differ in, all of it: one field for each difference, read once from `initialize`.
//! What a client says that it can do decides; its name only where nothing else tells.

use agent_client_protocol::v1::schema::InitializeRequest;

/// Clients that choose a model by the older `models` beside `modes`, and cannot say so: the
/// beginnings of their names, in small letters.
const KNOW_ONLY_MODELS: [&str; 3] = ["agent-shell", "avante", "marimo"];

/// What this client takes beyond the basics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClientTraits {
    /// Shows notices (`session.notices`); else they are messages.
    pub(super) notices: bool,
    /// Shows compactions (`session.compaction`); else they are notices.
    pub(super) compaction: bool,
    /// Tells plans apart by their ids (`plan`, unstable); else there is one, without an id.
    pub(super) plans: bool,
    /// Shows forms (`elicitation.form`); else questions are text.
    pub(super) forms: bool,
    /// Opens addresses for a person (`elicitation.url`).
    pub(super) visits: bool,
    /// Shows the output of commands as that of a terminal (`_meta.terminal_output`); else the end
    /// of it is text.
    pub(super) terminal_output: bool,
    /// How it lets a person log in.
    pub(super) login: Login,
    /// Needs `models` in the answers that open a session.
    pub(super) root_models: bool,
}

/// How a client lets a person log in with a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Login {
    /// Not at all.
    #[default]
    Elsewhere,
    /// It runs the configured command with arguments of ours (`auth.terminal`).
    Terminal,
    /// It runs a command of ours (`_meta["terminal-auth"]`).
    OwnCommand,
}

impl ClientTraits {
    pub(super) fn of(request: &InitializeRequest) -> Self {
        // Presence is support, whatever the object holds.
        let client = &request.client_capabilities;
        let says = |name: &str| {
            let value = client.meta.as_ref().and_then(|meta| meta.get(name));
            value.is_some_and(|value| value.as_bool() == Some(true))
        };
        let name = request.client_info.as_ref().map(|info| info.name.to_lowercase());
        Self {
            notices: client.session.as_ref().is_some_and(|session| session.notices.is_some()),
            compaction: client.session.as_ref().is_some_and(|it| it.compaction.is_some()),
            plans: client.plan.is_some(),
            forms: client.elicitation.as_ref().is_some_and(|forms| forms.supports_form()),
            visits: client.elicitation.as_ref().is_some_and(|forms| forms.url.is_some()),
            terminal_output: says("terminal_output"),
            login: match client.auth.terminal {
                true => Login::Terminal,
                false if says("terminal-auth") => Login::OwnCommand,
                false => Login::Elsewhere,
            },
            root_models: name
                .is_some_and(|name| KNOW_ONLY_MODELS.iter().any(|old| name.starts_with(old))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(client: Value, capabilities: Value) -> ClientTraits {
        let request = json!({
            "protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": client,
        });
        ClientTraits::of(&serde_json::from_value(request).unwrap())
    }

    fn with(capabilities: Value) -> ClientTraits {
        of(Value::Null, capabilities)
    }

    #[test]
    fn a_client_that_says_nothing_gets_the_basics() {
        assert_eq!(with(json!({})), ClientTraits::default());
        assert_eq!(with(json!({"session": {"notices": null}})), ClientTraits::default());
    }

    #[test]
    fn notices() {
        assert!(with(json!({"session": {"notices": {}}})).notices);
    }

    #[test]
    fn compaction() {
        assert!(with(json!({"session": {"compaction": {}}})).compaction);
        assert!(!with(json!({"session": {"notices": {}}})).compaction);
    }

    #[test]
    fn plans() {
        assert!(with(json!({"plan": {}})).plans);
        assert!(!with(json!({"plan": null, "session": {"compaction": {}}})).plans);
    }

    #[test]
    fn forms() {
        assert!(with(json!({"elicitation": {"form": {}}})).forms);
        assert!(!with(json!({"elicitation": {"url": {}}})).forms);
        assert!(with(json!({"elicitation": {"url": {}}})).visits);
        assert!(!with(json!({"elicitation": {"form": {}}})).visits);
    }

    #[test]
    fn terminal_output() {
        assert!(with(json!({"_meta": {"terminal_output": true}})).terminal_output);
        assert!(
            !with(json!({"_meta": {"terminal_output": "yes"}, "terminal": true})).terminal_output
        );
    }

    #[test]
    fn login() {
        let login = |capabilities| with(capabilities).login;
        let both = json!({"auth": {"terminal": true}, "_meta": {"terminal-auth": true}});
        assert_eq!(login(both), Login::Terminal);
        assert_eq!(login(json!({"_meta": {"terminal-auth": true}})), Login::OwnCommand);
        assert_eq!(login(json!({"auth": {}, "terminal": true})), Login::Elsewhere);
    }

    #[test]
    fn root_models() {
        let named = |name: &str| of(json!({"name": name, "version": "1"}), json!({})).root_models;
        assert!(["marimo", "avante.nvim", "Agent-Shell"].into_iter().all(named));
        assert!(!["zed", "acpx", "not-marimo"].into_iter().any(named));
    }
}
