//! Server-sent events, incrementally, with caps.
