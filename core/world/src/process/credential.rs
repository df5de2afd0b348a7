//! A command whose output is a secret: run directly, without a shell and without a terminal.
//!
//! It is the user's own, from their own configuration, so it needs no permission. It has no
//! supervisor, because that would end what the command leaves running on purpose: a `gpg-agent`
//! keeps the passphrase that the person has just typed. What it writes goes to the caller and nowhere else: to no log, no error, no client.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;

use super::Environment;

/// The most bytes that are taken for a secret.
const MAX_BYTES: u64 = 64 << 10;

/// Why there is no secret. None of them shows anything that the command wrote.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// It could not be started.
    #[error("cannot be started: {0}")]
    NotStarted(std::io::Error),
    /// It did not end in time; it was ended.
    #[error("did not end within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// It ended with an error.
    #[error("ended with {0}")]
    Failed(std::process::ExitStatus),
    /// It wrote nothing, more than [`MAX_BYTES`], or no text.
    #[error("printed no key: one line of text is expected")]
    NoSecret,
}

/// Runs `program` with `arguments` in the folder `/`, with the allow-listed environment of
/// commands, and returns the line that it prints.
///
/// # Errors
/// [`CredentialError`].
///
/// # Cancel safety
/// Dropping the future kills the command.
#[expect(
    clippy::disallowed_methods,
    reason = "a supervisor would end the agent of the user's key store, too"
)]
pub async fn run_for_credential(
    program: &str,
    arguments: &[String],
    limit: Duration,
) -> Result<String, CredentialError> {
    let mut child = tokio::process::Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(Environment::from_process().variables().iter().cloned())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(CredentialError::NotStarted)?;
    let stdout = child.stdout.take();
    let ended = tokio::time::timeout(limit, async {
        let mut output = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(MAX_BYTES + 1).read_to_end(&mut output).await?;
        }
        Ok::<_, std::io::Error>((output, child.wait().await?))
    });
    let (output, status) = ended
        .await
        .map_err(|_| CredentialError::TimedOut(limit))?
        .map_err(CredentialError::NotStarted)?;
    if !status.success() {
        return Err(CredentialError::Failed(status));
    }
    let text = String::from_utf8(output).map_err(|_| CredentialError::NoSecret)?;
    let line = text.trim();
    let is_key =
        !line.is_empty() && text.len() as u64 <= MAX_BYTES && !line.contains(char::is_control);
    is_key.then(|| line.to_owned()).ok_or(CredentialError::NoSecret)
}
