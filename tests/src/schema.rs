//! Whether what the agent says fits the protocol's JSON schemas: the one that the pinned SDK's
//! own types generate, with no unknown key at the root of parameters, results and updates, and
//! the newer one that the protocol publishes, with what is not stable in it yet, where
//! `tests/interop/install` has put it.
//! SCHEMA-001 and SCHEMA-002 of the conformance registry.

use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;

use agent_client_protocol::v1::schema::{
    AgentNotification, AgentRequest, AgentResponse, Error, ProtocolLevelNotification,
};
use boon::{Compiler, Draft, SchemaIndex, Schemas};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// Where the published schema lies once it is installed, below this crate.
const PUBLISHED: &str =
    "interop/node_modules/@agentclientprotocol/sdk/schema/v1/schema.unstable.json";

/// Answered for clients of old, and in no schema.
const LEGACY: &str = "session/set_model";

/// The clients that get `models` beside `modes`, which is in no schema either.
const OLD_CLIENTS: [&str; 3] = ["agent-shell", "avante", "marimo"];

/// One edition of the protocol: what each method takes and returns.
pub struct Schema {
    schemas: Schemas,
    params: HashMap<String, SchemaIndex>,
    results: HashMap<String, SchemaIndex>,
    error: SchemaIndex,
    /// Whether it has every method that the agent may use.
    is_whole: bool,
}

impl Schema {
    /// What the pinned SDK's types say.
    pub fn pinned() -> &'static Self {
        static PINNED: OnceLock<Schema> = OnceLock::new();
        PINNED.get_or_init(|| {
            let mut generator = SchemaSettings::draft2020_12().into_generator();
            generator.subschema_for::<AgentRequest>();
            generator.subschema_for::<AgentNotification>();
            generator.subschema_for::<ProtocolLevelNotification>();
            generator.subschema_for::<AgentResponse>();
            generator.subschema_for::<Error>();
            let mut document = json!({"$defs": generator.take_definitions(true)});
            forbid_unknown_keys(&mut document);
            Self::compile(document, true)
        })
    }

    /// What the protocol's site says; `None` where it is not installed.
    pub fn published() -> Option<&'static Self> {
        static PUBLISHED_SCHEMA: OnceLock<Option<Schema>> = OnceLock::new();
        let read = || {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PUBLISHED);
            let text = fs_err::read_to_string(path).ok()?;
            Some(Self::compile(serde_json::from_str(&text).expect("JSON"), false))
        };
        PUBLISHED_SCHEMA.get_or_init(read).as_ref()
    }

    fn compile(document: Value, is_whole: bool) -> Self {
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        let definitions = document["$defs"].clone();
        compiler.add_resource("acp.json", document).expect("one resource");
        let mut schemas = Schemas::new();
        let mut compiled = |name: &str| {
            let place = format!("acp.json#/$defs/{name}");
            compiler.compile(&place, &mut schemas).unwrap_or_else(|error| panic!("{error:#}"))
        };
        let error = compiled("Error");
        let (mut params, mut results) = (HashMap::new(), HashMap::new());
        for (name, definition) in definitions.as_object().expect("definitions") {
            let Some(method) = definition["x-method"].as_str() else { continue };
            match (definition["x-side"].as_str(), name.ends_with("Response")) {
                (Some("agent"), true) => results.insert(method.to_owned(), compiled(name)),
                (Some("client" | "protocol"), false) => {
                    params.insert(method.to_owned(), compiled(name))
                }
                _ => None,
            };
        }
        Self { schemas, params, results, error, is_whole }
    }

    /// What is wrong with a message of the agent, where `method` is that of the request which a
    /// response answers.
    pub fn breach(&self, message: &Value, method: Option<&str>) -> Option<String> {
        let (part, schema) = match (message["method"].as_str(), method) {
            (Some(own), _) => (&message["params"], self.params.get(own)),
            (None, _) if message.get("error").is_some() => (&message["error"], Some(&self.error)),
            (None, Some(method)) => (&message["result"], self.results.get(method)),
            (None, None) => return None,
        };
        let method = message["method"].as_str().or(method).unwrap_or_default();
        let Some(schema) = schema else {
            let is_known = !self.is_whole || method.starts_with('_') || method == LEGACY;
            return (!is_known).then(|| format!("`{method}` is not in the schema"));
        };
        self.schemas.validate(part, *schema).err().map(|error| format!("{error}"))
    }
}

/// Makes unknown keys an error at the root of what the agent sends, and in its updates.
fn forbid_unknown_keys(document: &mut Value) {
    for (_, definition) in document["$defs"].as_object_mut().expect("definitions") {
        if definition.get("x-method").is_some() {
            definition["unevaluatedProperties"] = json!(false);
        }
    }
    let update = &mut document["$defs"]["SessionNotification"]["properties"]["update"];
    *update = json!({"allOf": [update.take()], "unevaluatedProperties": false});
}

/// Judges the messages of one connection in order, since a response does not say what it answers.
#[derive(Default)]
pub struct SchemaCheck {
    /// The methods of the client's open requests.
    open: HashMap<String, String>,
    is_old_client: bool,
}

impl SchemaCheck {
    /// The client has said this.
    pub fn client_said(&mut self, message: &Value) {
        if let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) {
            let name = message["params"]["clientInfo"]["name"].as_str().unwrap_or_default();
            self.is_old_client |= OLD_CLIENTS.iter().any(|old| name.starts_with(old));
            self.open.insert(id.to_string(), method.to_owned());
        }
    }

    /// What is wrong with what the agent has said.
    pub fn agent_said(&mut self, message: &Value) -> Option<String> {
        let is_response = message.get("method").is_none();
        let method = is_response.then(|| self.open.remove(&message["id"].to_string())).flatten();
        let mut message = message.clone();
        if let (true, Some(result)) = (self.is_old_client, message["result"].as_object_mut()) {
            result.remove("models");
        }
        let mut editions = [Some(Schema::pinned()), Schema::published()].into_iter().flatten();
        editions.find_map(|schema| schema.breach(&message, method.as_deref()))
    }
}
