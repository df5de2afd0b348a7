//! The `bridle` binary: becomes a supervisor when asked to, takes the keys out of the environment
//! while it still has one thread, bounds what its heap keeps, and hands over to [`bridle::commands`].

use std::process::ExitCode;

use bridle::commands;
use bridle::config::Environment;
use bridle_world::{heap, sandbox, supervisor};

fn main() -> ExitCode {
    if let Some(code) = supervisor::run_if_requested() {
        return code;
    }
    heap::bound();
    let secrets = match sandbox::take_secrets(Environment::is_secret_name) {
        Ok(secrets) => secrets,
        Err(error) => return commands::give_up(&error),
    };
    if let Err(error) = sandbox::set_not_dumpable() {
        return commands::give_up(&error);
    }
    let environment = Environment::new(std::env::vars_os(), secrets);
    commands::main(std::env::args_os(), environment)
}
