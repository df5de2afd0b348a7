//! What we say of ourselves to a server, and where it says what it can do.

use std::path::Path;

use serde_json::{Value, json};

use crate::connection::put;
use crate::uri::uri_of;

/// What a server is told with `initialize`.
pub(crate) fn introduction(root: &Path, options: &Value) -> Value {
    let uri = uri_of(root);
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let linked = json!({"dynamicRegistration": true, "linkSupport": true});
    let dynamic = json!({"dynamicRegistration": true});
    let mut params = json!({
        "processId": std::process::id(),
        "clientInfo": {"name": "bridle", "version": env!("CARGO_PKG_VERSION")},
        "rootUri": uri,
        "rootPath": root.to_string_lossy(),
        "workspaceFolders": [{"uri": uri, "name": name}],
        "capabilities": {
            "general": {
                "positionEncodings": ["utf-8", "utf-16", "utf-32"],
                "staleRequestSupport": {"cancel": true, "retryOnContentModified": []},
            },
            // An extension that clangd knew before the protocol had an agreement.
            "offsetEncoding": ["utf-8", "utf-16"],
            "window": {"workDoneProgress": true, "showDocument": {"support": false}},
            "workspace": {
                "applyEdit": false,
                "workspaceEdit": {"documentChanges": true},
                "configuration": true,
                "workspaceFolders": true,
                "didChangeConfiguration": dynamic,
                "didChangeWatchedFiles": {"dynamicRegistration": true, "relativePatternSupport": true},
                "symbol": dynamic,
                "diagnostics": {"refreshSupport": true},
            },
            "textDocument": {
                "synchronization": {"didSave": true},
                "publishDiagnostics": {"versionSupport": true, "relatedInformation": true},
                "diagnostic": {"dynamicRegistration": true, "relatedDocumentSupport": true},
                "definition": linked,
                "declaration": linked,
                "typeDefinition": linked,
                "implementation": linked,
                "references": dynamic,
                "callHierarchy": dynamic,
                "hover": {"dynamicRegistration": true, "contentFormat": ["markdown", "plaintext"]},
                "documentSymbol": {"dynamicRegistration": true, "hierarchicalDocumentSymbolSupport": true},
                "rename": dynamic,
            },
            "experimental": {"serverStatusNotification": true},
        },
    });
    if !options.is_null() {
        put(&mut params, "initializationOptions", options.clone());
    }
    params
}

/// What the tools call what servers can be asked.
pub(crate) const ABILITIES: [(&str, &str); 9] = [
    ("textDocument/definition", "definition"),
    ("textDocument/typeDefinition", "type_definition"),
    ("textDocument/implementation", "implementations"),
    ("textDocument/references", "references"),
    ("textDocument/hover", "hover"),
    ("textDocument/prepareCallHierarchy", "calls"),
    ("textDocument/rename", "rename_preview"),
    ("textDocument/documentSymbol", "outline"),
    ("workspace/symbol", "search"),
];

/// Where a server says that it has a method.
pub(crate) fn provider(method: &str) -> &'static str {
    match method {
        "textDocument/definition" => "definitionProvider",
        "textDocument/declaration" => "declarationProvider",
        "textDocument/typeDefinition" => "typeDefinitionProvider",
        "textDocument/implementation" => "implementationProvider",
        "textDocument/references" => "referencesProvider",
        "textDocument/hover" => "hoverProvider",
        "textDocument/rename" => "renameProvider",
        "textDocument/documentSymbol" => "documentSymbolProvider",
        "textDocument/diagnostic" => "diagnosticProvider",
        "workspace/symbol" => "workspaceSymbolProvider",
        _ => "callHierarchyProvider",
    }
}

/// By which name a server registers itself for a method later.
pub(crate) fn registered(method: &str) -> &str {
    match method {
        "callHierarchy/incomingCalls" | "callHierarchy/outgoingCalls" => {
            "textDocument/prepareCallHierarchy"
        }
        method => method,
    }
}
