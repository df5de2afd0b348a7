//! What single values may be: ids, amounts, lists, and what a user says of a model.

use bridle_agent::{BUDGET_LIMITS, Mode};
use bridle_model::{Effort, ModelPatch};
use bridle_store::Compression;
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};

use super::{Setting, nearest};

/// The keys of `[budget]`.
pub(super) fn budget_keys() -> Vec<&'static str> {
    BUDGET_LIMITS.iter().copied().chain(["currency"]).collect()
}

pub(super) fn mode(text: String) -> Result<Setting, String> {
    let ids = Mode::ALL.map(Mode::id);
    Mode::from_id(&text).map(Setting::Mode).ok_or_else(|| unknown("mode", &text, &ids))
}

pub(super) fn thinking(text: String) -> Result<Setting, String> {
    let ids = Effort::ALL.map(Effort::id);
    let level = Effort::from_id(&text).ok_or_else(|| unknown("thinking level", &text, &ids))?;
    Ok(Setting::Thinking(level))
}

pub(super) fn compression(text: String) -> Result<Setting, String> {
    match text.as_str() {
        "zstd" => Ok(Setting::Compression(Compression::Zstd)),
        "none" => Ok(Setting::Compression(Compression::None)),
        _ => Err(format!("unknown compression `{text}`, ignored; known are zstd, none")),
    }
}

/// A currency is only compared with those of the price lists, which have three capital letters.
pub(super) fn currency(text: String) -> Result<Setting, String> {
    match text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase()) {
        true => Ok(Setting::Budget("currency", text.into())),
        false => Err("`currency` must be three capital letters, as in \"USD\"; ignored".to_owned()),
    }
}

/// A limit of the budget: a number above 0, whole where it counts steps or tokens.
pub(super) fn limit(key: &'static str, value: &DeValue<'_>) -> Result<Setting, String> {
    let is_decimal = key.ends_with("_minutes") || key.ends_with("_cost");
    let decimal = value.as_float().and_then(|float| float.as_str().parse::<f64>().ok());
    match (whole(value), decimal.filter(|_| is_decimal)) {
        (Some(number @ 1..), _) => Ok(Setting::Budget(key, number.into())),
        (_, Some(number)) if number.is_finite() && number > 0.0 => {
            Ok(Setting::Budget(key, number.into()))
        }
        _ if is_decimal => Err(format!("`{key}` must be a number above 0; ignored")),
        _ => Err(format!("`{key}` must be a whole number from 1; ignored")),
    }
}

/// A value of `[compaction]`: a switch, a share of a window, or a number of tokens.
pub(super) fn compaction(key: &'static str, value: &DeValue<'_>) -> Result<Setting, String> {
    let set = |value: serde_json::Value| Ok(Setting::Compaction(key, value));
    match key {
        "auto" => match value.as_bool() {
            Some(flag) => set(flag.into()),
            None => Err("`auto` must be true or false; ignored".to_owned()),
        },
        "headroom" => match whole(value) {
            Some(tokens @ 1..) => set(tokens.into()),
            _ => Err("`headroom` must be a whole number of tokens from 1; ignored".to_owned()),
        },
        _ => {
            let share = value.as_float().and_then(|float| float.as_str().parse::<f64>().ok());
            match share {
                Some(share) if share > 0.0 && share <= 1.0 => set(share.into()),
                _ => Err(format!(
                    "`{key}` must be a share of the window above 0.0 and at most 1.0; ignored"
                )),
            }
        }
    }
}

fn whole(value: &DeValue<'_>) -> Option<u64> {
    let digits = value.as_integer()?;
    u64::from_str_radix(digits.as_str(), digits.radix()).ok()
}

/// A command as a list: nothing is given to a shell.
pub(super) fn command(value: &DeValue<'_>) -> Option<Vec<String>> {
    let words = value.as_array()?.iter();
    let words = words.map(|word| word.get_ref().as_str().map(str::to_owned));
    let words: Vec<String> = words.collect::<Option<_>>()?;
    words.first().is_some_and(|program| !program.is_empty()).then_some(words)
}

/// What a user says of a model. The error has the byte where it is.
pub(super) fn patch(value: &Spanned<DeValue<'_>>) -> Result<ModelPatch, (usize, String)> {
    let start = value.span().start;
    let patch =
        ModelPatch::deserialize(ValueDeserializer::from(value.clone())).map_err(|error| {
            (error.span().map_or(start, |span| span.start), error.message().to_owned())
        })?;
    let window = patch.window.unwrap_or(u64::MAX);
    match (window, patch.max_output) {
        (0, _) | (_, Some(0)) => Err((start, "a model has a window and an answer".to_owned())),
        (window, Some(output)) if output >= window => {
            Err((start, "`max_output` must be smaller than `window`".to_owned()))
        }
        _ => Ok(patch),
    }
}

/// A message of the parser without what it quotes: that may be a key.
pub(super) fn without_values(message: &str) -> String {
    let parts = message.split('"').enumerate();
    parts.map(|(at, part)| if at % 2 == 0 { part } else { "\"...\"" }).collect()
}

fn unknown(what: &str, text: &str, known: &[&str]) -> String {
    let hint = nearest(text, known).map_or_else(
        || format!("known are {}", known.join(", ")),
        |id| format!("did you mean `{id}`?"),
    );
    format!("unknown {what} `{text}`, ignored; {hint}")
}
