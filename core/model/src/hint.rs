//! The wait that the text of an error asks for, where no header says it.
//!
//! Gateways and compatible servers put it into words only: "Please try again in 11.75s", "retry
//! after 1m30s", "Try again in 20 seconds.". What it does not understand is no hint.

use std::time::Duration;

/// What stands before a wait, in lower case.
const OPENINGS: [&str; 4] = ["try again in ", "try again after ", "retry after ", "retry in "];

/// The wait that `text` asks for.
pub(crate) fn wait_in(text: &str) -> Option<Duration> {
    let text = text.to_ascii_lowercase();
    let (_, rest) = OPENINGS.iter().find_map(|opening| text.split_once(opening))?;
    let mut rest = rest;
    let mut wait = None;
    while let Some((part, behind)) = part(rest) {
        wait = Some(wait.unwrap_or(Duration::ZERO).checked_add(part)?);
        rest = behind;
    }
    wait
}

/// A number and its unit at the start of a text, and what follows them.
fn part(text: &str) -> Option<(Duration, &str)> {
    let text = text.trim_start();
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, rest) = text.split_at(end.unwrap_or(text.len()));
    // A full stop may end the sentence.
    let number: f64 = number.trim_end_matches('.').parse().ok()?;
    let rest = rest.trim_start();
    let end = rest.find(|letter: char| !letter.is_ascii_alphabetic());
    let (unit, rest) = rest.split_at(end.unwrap_or(rest.len()));
    let seconds = match unit {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        _ => return None,
    };
    Some((Duration::try_from_secs_f64(number * seconds).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_in_words_is_understood_and_nothing_else_is() {
        for (text, millis) in [
            ("Limit 30000, used 25292. Please try again in 11.75s. Visit https://h.", Some(11_750)),
            ("Try again in 17 s", Some(17_000)),
            ("try again in 1m30s.", Some(90_000)),
            ("Try again in 1 hour 2 minutes, please", Some(3_720_000)),
            ("try again in 20ms", Some(20)),
            ("Please retry after 3 seconds.", Some(3_000)),
            ("Retry after 5.", Some(5_000)),
            ("please try again later", None),
            ("try again in a moment", None),
            ("try again in 5 bananas", None),
            ("try again in 1e999s", None),
            ("try again in 99999999999999999999999999s", None),
            ("try again in ...s", None),
            ("wait 5 s", None),
            ("", None),
        ] {
            let wait = wait_in(text).map(|wait| wait.as_millis());
            assert_eq!(wait, millis, "{text}");
        }
    }
}
