//! The shared suite for both dialects of this wire.

use super::*;
use crate::behaviour::{self, ErrorKind, Harness};

struct Messages {
    route: &'static str,
}

impl Messages {
    fn wire(&self, http: HttpClient, url: &str) -> AnthropicAdapter {
        AnthropicAdapter::new(http, url, Secret::new(KEY), model(self.route)).unwrap()
    }
}

impl Harness for Messages {
    fn adapter(&self, http: HttpClient, url: &str) -> Box<dyn ModelAdapter> {
        Box::new(self.wire(http, url))
    }

    fn recording(&self, shape: &str) -> Option<Vec<u8>> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/messages");
        fs_err::read(format!("{folder}/{shape}.sse")).ok()
    }

    fn replay(&self, pieces: &[&[u8]]) -> (Vec<Chunk>, Option<ModelFailure>) {
        self.wire(HttpClient::default(), "http://h").replay(pieces.iter().copied())
    }

    fn error_body(&self, kind: ErrorKind, message: &str) -> String {
        let kind = match kind {
            ErrorKind::Invalid => "invalid_request_error",
            ErrorKind::Auth => "authentication_error",
            ErrorKind::RateLimit => "rate_limit_error",
            ErrorKind::Overloaded => "overloaded_error",
            ErrorKind::Server => "api_error",
        };
        let error = serde_json::json!({ "type": kind, "message": message });
        serde_json::json!({ "type": "error", "error": error }).to_string()
    }

    fn request(&self) -> ModelRequest {
        request()
    }
}

#[tokio::test]
async fn anthropic_passes_the_suite() {
    behaviour::passes(&Messages { route: "anthropic/claude-opus-5-5" }).await;
}

#[tokio::test]
async fn deepseek_passes_the_suite() {
    behaviour::passes(&Messages { route: "deepseek/deepseek-flash" }).await;
}
