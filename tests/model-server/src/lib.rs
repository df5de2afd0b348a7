//! A scripted, strict model server on loopback, for tests and the demo.
