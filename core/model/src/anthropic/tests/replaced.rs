//! A route that is replaced while calls are under way.

use std::sync::Mutex;

use bridle_model_server::{Answer, ModelServer, Script};

use super::*;
use crate::{ModelSource, PreparedCall, RetryPolicy};

/// What a user may change at any time.
#[derive(Clone)]
struct Row {
    url: String,
    key: &'static str,
    route: &'static str,
}

struct Rows(Mutex<Row>);

#[async_trait::async_trait]
impl ModelSource for Rows {
    async fn prepare(&self, _: &Route) -> Result<PreparedCall, ModelFailure> {
        let row = self.0.lock().unwrap().clone();
        let model = model(row.route);
        let (route, limits) = (model.route(), model.limits());
        let adapter =
            AnthropicAdapter::new(HttpClient::default(), &row.url, Secret::new(row.key), model)?;
        Ok(PreparedCall::new(route, limits, RetryPolicy::standard(), Box::new(adapter)))
    }

    fn default_route(&self) -> Result<Route, ModelFailure> {
        Ok(model(self.0.lock().unwrap().route).route())
    }
}

#[tokio::test]
async fn a_prepared_call_is_of_one_generation_whatever_is_replaced_before_it_is_sent() {
    let script = |key| Script::new().key(key).otherwise(Answer::new().text("Hello."));
    let old = ModelServer::start(script("key-of-old")).await.unwrap();
    let new = ModelServer::start(script("key-of-new")).await.unwrap();
    let before = Row { url: old.url(), key: "key-of-old", route: "anthropic/claude-opus-5-5" };
    let after =
        Row { url: new.deepseek_url(), key: "key-of-new", route: "deepseek/deepseek-flash" };
    let rows = Rows(Mutex::new(before));
    let route = rows.default_route().unwrap();

    let call = rows.prepare(&route).await.unwrap();
    *rows.0.lock().unwrap() = after;
    assert_eq!(call.route().to_string(), "anthropic/claude-opus-5-5");
    assert_eq!(call.limits().max_output, 128_000);
    collect(call.stream(request(), CancellationToken::new())).await.unwrap();
    assert_eq!((old.requests().len(), new.requests().len()), (1, 0));
    let sent = &old.requests()[0];
    assert_eq!(sent.header("x-api-key"), Some("key-of-old"));
    assert_eq!(
        (&sent.body["model"], &sent.body["max_tokens"]),
        (&"claude-opus-5-5".into(), &128_000.into())
    );

    let call = rows.prepare(&route).await.unwrap();
    collect(call.stream(request(), CancellationToken::new())).await.unwrap();
    assert_eq!((old.requests().len(), new.requests().len()), (1, 1));
    let sent = &new.requests()[0];
    assert_eq!(sent.header("x-api-key"), Some("key-of-new"));
    assert_eq!(
        (&sent.body["model"], &sent.body["max_tokens"]),
        (&"deepseek-flash".into(), &384_000.into())
    );
    assert_eq!((old.violations(), new.violations()), (Vec::new(), Vec::new()));
}
