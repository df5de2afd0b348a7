//! How a model call fails: a code to branch on, and what a person may be told.

use std::time::Duration;

/// A failed model call. Never holds a secret or a provider's raw body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelFailure {
    /// What kind of failure.
    pub code: FailureCode,
    /// One sentence for a person, with the hint what to do where there is one.
    pub message: String,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// The provider's request id.
    pub request_id: Option<String>,
    /// Which of the request's tools the provider refuses: its place among them, from 0.
    pub refused_tool: Option<usize>,
    /// What the provider refuses of the request's images, where it may be these.
    pub refused_images: Option<RefusedImages>,
}

/// What a provider refuses of the images of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedImages {
    /// One of them, whatever is wrong with it.
    One,
    /// That they are so many.
    Many {
        /// How many it takes, where it says so.
        most: Option<u32>,
    },
    /// The bytes of the whole request, of which images may be the most.
    Bytes,
}

impl ModelFailure {
    /// A failure of which no more is known than its kind and what a person is told.
    pub fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            status: None,
            retry_after: None,
            request_id: None,
            refused_tool: None,
            refused_images: None,
        }
    }

    /// What a call ends with when its caller gave it up.
    pub fn cancelled() -> Self {
        Self::new(FailureCode::Cancelled, "the request was cancelled")
    }
}

/// The kinds of failure that a caller tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCode {
    /// No key, or the provider refuses it. Never retried.
    Auth,
    /// Billing or quota. Never retried.
    Billing,
    /// The request breaks a rule of the provider. Never retried.
    InvalidRequest,
    /// The provider does not know the model. Never retried.
    UnknownModel,
    /// The model refuses what it was asked. Never retried.
    ContentRefused,
    /// The request is larger than the model's window.
    ContextOverflow,
    /// Too many requests.
    RateLimited,
    /// The provider is overloaded.
    Overloaded,
    /// The provider failed.
    Server,
    /// The connection failed or was cut.
    Transport,
    /// The provider was silent too long.
    Silent,
    /// The stream was not what the wire promises.
    MalformedResponse,
    /// The caller cancelled.
    Cancelled,
}

impl FailureCode {
    /// The stable word under which the log keeps it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Billing => "billing",
            Self::InvalidRequest => "invalid-request",
            Self::UnknownModel => "unknown-model",
            Self::ContentRefused => "content-refused",
            Self::ContextOverflow => "context-overflow",
            Self::RateLimited => "rate-limited",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Transport => "transport",
            Self::Silent => "silent",
            Self::MalformedResponse => "malformed-response",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::RateLimited
                | Self::Overloaded
                | Self::Server
                | Self::Transport
                | Self::Silent
                | Self::MalformedResponse
        )
    }
}
