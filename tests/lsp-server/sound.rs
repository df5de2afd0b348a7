//! The language of `toy.rs` behind a protocol library that is not ours: tower-lsp-server frames and types
//! both ways, so that what it does not take, or we do not take of it, is a fault of ours. It never misbehaves.
//!
//! With the argument `push` it reports what is wrong by itself, otherwise it is asked. When it is introduced it
//! asks back all that a server may; a wrong answer ends it with code 9.

// A test program: whatever cannot be done ends it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![allow(clippy::print_stderr, clippy::string_slice, clippy::disallowed_methods)]

mod toy;

use std::sync::Mutex;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower_lsp_server::jsonrpc::{Error, Result};
use tower_lsp_server::ls_types::*;
use tower_lsp_server::{Client, LanguageServer, LspService, Server};

use toy::Toy;

#[tokio::main]
async fn main() {
    let pushes = std::env::args().nth(1).is_some_and(|argument| argument == "push");
    let (service, socket) =
        LspService::new(|client| Sound { client, toy: Mutex::default(), pushes });
    Server::new(tokio::io::stdin(), tokio::io::stdout(), socket).serve(service).await;
}

struct Sound {
    client: Client,
    toy: Mutex<Toy>,
    pushes: bool,
}

impl Sound {
    fn answer<P: Serialize, R: DeserializeOwned>(&self, method: &str, params: P) -> Result<R> {
        let params = serde_json::to_value(params).unwrap();
        let answer = self.toy.lock().unwrap().answer(method, &params);
        Ok(serde_json::from_value(answer.ok_or_else(Error::method_not_found)?).unwrap())
    }

    async fn hear(&self, method: &str, params: impl Serialize) {
        let params = serde_json::to_value(params).unwrap();
        let uri = &params["textDocument"]["uri"];
        let reports = {
            let mut toy = self.toy.lock().unwrap();
            toy.hear(method, &params);
            if self.pushes && uri.is_string() { toy.pushes(uri) } else { Vec::new() }
        };
        for report in reports {
            let report: PublishDiagnosticsParams = serde_json::from_value(report).unwrap();
            let PublishDiagnosticsParams { uri, diagnostics, version } = report;
            self.client.publish_diagnostics(uri, diagnostics, version).await;
        }
    }

    /// Asks all that a server may ask of a client; whether each answer is one.
    async fn ask_back(&self) -> Result<bool> {
        let client = &self.client;
        let options = json!({"watchers": [{"globPattern": "**/*.toy"}]});
        let watched = Registration {
            id: "watched".to_owned(),
            method: "workspace/didChangeWatchedFiles".to_owned(),
            register_options: Some(options),
        };
        client.register_capability(vec![watched]).await?;
        let item = |section: &str| ConfigurationItem {
            scope_uri: None,
            section: Some(section.to_owned()),
        };
        let settings = client.configuration(vec![item("toy.deep"), item("none")]).await?;
        let folders = client.workspace_folders().await?.unwrap_or_default();
        let edited = client.apply_edit(WorkspaceEdit::default()).await?;
        let pressed = client.show_message_request(MessageType::INFO, "?", None).await?;
        client.create_work_done_progress(ProgressToken::Number(1)).await?;
        client.workspace_diagnostic_refresh().await?;
        Ok(settings == [json!({"value": 3}), Value::Null]
            && folders.len() == 1
            && !edited.applied
            && pressed.is_none())
    }
}

/// Questions that the toy answers as they are.
macro_rules! answers {
    ($($name:ident($params:ty) -> $result:ty = $method:literal;)*) => {
        $(async fn $name(&self, params: $params) -> Result<$result> {
            self.answer($method, params)
        })*
    };
}

/// What the toy is told as it is.
macro_rules! hears {
    ($($name:ident($params:ty) = $method:literal;)*) => {
        $(async fn $name(&self, params: $params) {
            self.hear($method, params).await;
        })*
    };
}

impl LanguageServer for Sound {
    async fn initialize(&self, params: InitializeParams) -> Result<InitializeResult> {
        let script = json!({"push": self.pushes});
        self.toy.lock().unwrap().begin(&serde_json::to_value(&params).unwrap(), &script);
        self.answer("initialize", params)
    }

    async fn initialized(&self, _: InitializedParams) {
        if !matches!(self.ask_back().await, Ok(true)) {
            eprintln!("a wrong answer of the client");
            std::process::exit(9);
        }
    }

    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }

    async fn did_save(&self, _: DidSaveTextDocumentParams) {}

    async fn did_change_configuration(&self, _: DidChangeConfigurationParams) {}

    hears! {
        did_open(DidOpenTextDocumentParams) = "textDocument/didOpen";
        did_change(DidChangeTextDocumentParams) = "textDocument/didChange";
        did_close(DidCloseTextDocumentParams) = "textDocument/didClose";
        did_change_watched_files(DidChangeWatchedFilesParams) = "workspace/didChangeWatchedFiles";
    }

    answers! {
        goto_definition(GotoDefinitionParams) -> Option<GotoDefinitionResponse>
            = "textDocument/definition";
        goto_type_definition(request::GotoTypeDefinitionParams)
            -> Option<request::GotoTypeDefinitionResponse> = "textDocument/typeDefinition";
        goto_implementation(request::GotoImplementationParams)
            -> Option<request::GotoImplementationResponse> = "textDocument/implementation";
        references(ReferenceParams) -> Option<Vec<Location>> = "textDocument/references";
        hover(HoverParams) -> Option<Hover> = "textDocument/hover";
        document_symbol(DocumentSymbolParams) -> Option<DocumentSymbolResponse>
            = "textDocument/documentSymbol";
        symbol(WorkspaceSymbolParams) -> Option<WorkspaceSymbolResponse> = "workspace/symbol";
        prepare_call_hierarchy(CallHierarchyPrepareParams) -> Option<Vec<CallHierarchyItem>>
            = "textDocument/prepareCallHierarchy";
        incoming_calls(CallHierarchyIncomingCallsParams) -> Option<Vec<CallHierarchyIncomingCall>>
            = "callHierarchy/incomingCalls";
        outgoing_calls(CallHierarchyOutgoingCallsParams) -> Option<Vec<CallHierarchyOutgoingCall>>
            = "callHierarchy/outgoingCalls";
        rename(RenameParams) -> Option<WorkspaceEdit> = "textDocument/rename";
        diagnostic(DocumentDiagnosticParams) -> DocumentDiagnosticReportResult
            = "textDocument/diagnostic";
    }
}
