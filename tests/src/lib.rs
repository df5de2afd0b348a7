//! The scripted ACP client, and the one place that finds or builds the binary under test.
