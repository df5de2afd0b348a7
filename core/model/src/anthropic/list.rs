//! The models that an endpoint offers: one small request, asked for by a person.

use reqwest::Response;
use serde::Deserialize;

use super::AnthropicAdapter;
use super::failure::{self, Head};
use crate::{FailureCode, ListedModel, ModelFailure};

/// The most models that are asked for; the provider's own upper limit.
const MAX_MODELS: usize = 1_000;

/// The most bytes that are read of a list.
const MAX_LIST: usize = 4 << 20;

#[derive(Deserialize)]
struct List {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    display_name: Option<String>,
    max_input_tokens: Option<u64>,
    max_tokens: Option<u64>,
}

impl AnthropicAdapter {
    /// Asks the endpoint for its list.
    pub(super) async fn ask_for_list(&self) -> Result<Vec<ListedModel>, ModelFailure> {
        let mut url = self.url.clone();
        let path = url.path().trim_end_matches("messages").to_owned();
        url.set_path(&format!("{path}models"));
        url.set_query(Some(&format!("limit={MAX_MODELS}")));
        let host = url.host_str().unwrap_or_default().to_owned();
        let cut = |error: &reqwest::Error| failure::from_transport(self.asked(), &host, error);
        let client = self.http.unless_silent(self.http.client_for(&url)).await??;
        let send = client.get(url.clone()).headers(self.headers.clone()).send();
        let mut response = self.http.unless_silent(send).await?.map_err(|error| cut(&error))?;
        let body = self.limited(&mut response).await?.map_err(|error| cut(&error))?;
        let head = Head::new(response.status(), response.headers(), self.http.clock().now());
        match head.status.as_u16() {
            200 => read(&body),
            404 | 405 => Err(ModelFailure {
                status: Some(head.status.as_u16()),
                ..ModelFailure::new(
                    FailureCode::InvalidRequest,
                    format!("{host} has no list of models"),
                )
            }),
            _ => Err(failure::from_response(self.asked(), &head, &body)),
        }
    }

    async fn limited(
        &self,
        response: &mut Response,
    ) -> Result<Result<Vec<u8>, reqwest::Error>, ModelFailure> {
        let mut body = Vec::new();
        loop {
            match self.http.unless_silent(response.chunk()).await? {
                Ok(Some(bytes)) => body.extend_from_slice(&bytes),
                Ok(None) => return Ok(Ok(body)),
                Err(error) => return Ok(Err(error)),
            }
            if body.len() > MAX_LIST {
                return Err(malformed(format!("it is larger than {MAX_LIST} bytes")));
            }
        }
    }
}

fn read(body: &[u8]) -> Result<Vec<ListedModel>, ModelFailure> {
    let list: List = serde_json::from_slice(body).map_err(|error| malformed(error.to_string()))?;
    let models = list.data.into_iter().take(MAX_MODELS).map(|entry| ListedModel {
        id: entry.id,
        name: entry.display_name,
        window: entry.max_input_tokens,
        max_output: entry.max_tokens,
    });
    Ok(models.filter(|model| !model.id.is_empty()).collect())
}

fn malformed(reason: String) -> ModelFailure {
    let message = format!("the list of models cannot be read: {reason}");
    ModelFailure::new(FailureCode::MalformedResponse, message)
}
