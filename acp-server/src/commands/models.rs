//! `bridle models`: what is known of each model, what it costs, and whether there is a key for it.

use std::io::{self, Write};

use bridle_model::{CatalogueModel, Effort, Input};
use bridle_session::{PriceList, PriceTier};
use clap::Args;
use serde::Serialize;

use super::{Exit, say};
use crate::composition::App;
use crate::config::{Listed, Places, ProviderSettings, Settings};
use crate::tally::number;
use crate::text::{visible, visible_json};

const FIELDS: &str = "\
Fields of --json: provider, id, name, window, maxOutput, levels, defaultLevel, inputs, prices
(currency, tiers, peak; for a million tokens), assumed, asOf, source, key (where it comes from).

Prices are in the provider's own currency: input / output / read from the cache. `*`: limits are
assumed, because nobody has said what they are.";

#[derive(Debug, Args)]
#[command(after_help = FIELDS)]
pub(super) struct Arguments {
    /// Ask the endpoints which models they offer, and keep their answers.
    #[arg(long)]
    refresh: bool,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// One model in JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    provider: &'a str,
    id: &'a str,
    name: &'a str,
    window: u64,
    max_output: u64,
    levels: Vec<&'static str>,
    default_level: Option<&'static str>,
    inputs: Vec<&'static str>,
    prices: Option<&'a PriceList>,
    assumed: bool,
    as_of: &'a str,
    source: &'a str,
    key: Option<String>,
}

pub(super) async fn run(app: &App, arguments: &Arguments) -> anyhow::Result<Exit> {
    let exit = if arguments.refresh { refresh(app).await? } else { Exit::Done };
    let settings = app.settings();
    let mut out = io::stdout().lock();
    match arguments.json {
        true => json(&mut out, &settings)?,
        false => table(&mut out, &settings)?,
    }
    Ok(exit)
}

/// Asks every endpoint for which there is a key. One that fails does not keep the others back, and
/// what was known before stays.
async fn refresh(app: &App) -> anyhow::Result<Exit> {
    let settings = app.settings();
    let Some(state) = &settings.state else {
        say(format_args!("bridle: {}", Places::no_state()));
        return Ok(Exit::Failed);
    };
    let mut listed = Listed::read(state).unwrap_or_default();
    let mut exit = Exit::Done;
    for provider in settings.providers.iter().filter(|provider| provider.supported) {
        let name = provider.name;
        if !provider.is_usable() {
            say(format_args!("{name}: not asked: there is no key"));
            continue;
        }
        match app.list_models(name).await {
            Ok(None) => say(format_args!("{name}: not asked: its endpoint has no list of models")),
            Ok(Some(models)) => {
                say(format_args!("{name}: {} models", models.len()));
                let today = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
                listed.set(name, today, models);
            }
            Err(reason) => {
                exit = Exit::Failed;
                say(format_args!("bridle: {name}: {reason}; what was known before stays"));
            }
        }
    }
    listed.write(state)?;
    app.reload();
    Ok(exit)
}

fn json(out: &mut impl Write, settings: &Settings) -> io::Result<()> {
    for model in settings.catalogue.models() {
        let row = Row {
            provider: &model.provider,
            id: &model.id,
            name: &model.name,
            window: model.window,
            max_output: model.max_output,
            levels: model.levels.iter().map(|level| level.id()).collect(),
            default_level: model.default_level.map(Effort::id),
            inputs: model.inputs.iter().copied().map(input).collect(),
            prices: model.prices.as_ref(),
            assumed: model.assumed,
            as_of: &model.as_of,
            source: &model.source,
            key: provider(settings, model)
                .and_then(|provider| provider.key_source.as_ref())
                .map(ToString::to_string),
        };
        let line = serde_json::to_string(&row).map_err(io::Error::from)?;
        writeln!(out, "{}", visible_json(&line))?;
    }
    Ok(())
}

fn table(out: &mut impl Write, settings: &Settings) -> io::Result<()> {
    let head = ["MODEL", "NAME", "WINDOW", "ANSWER", "THINKING", "PRICES", "KEY"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(settings.catalogue.models().iter().map(|model| cells(settings, model)));
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    for row in &rows {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        writeln!(out, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

fn cells(settings: &Settings, model: &CatalogueModel) -> [String; 7] {
    let mark = if model.assumed { "*" } else { "" };
    let key = match provider(settings, model) {
        Some(provider) if provider.key.is_some() => "yes".to_owned(),
        Some(provider) if provider.withheld.is_some() => "withheld".to_owned(),
        _ => "no".to_owned(),
    };
    [
        visible(&model.route().to_string()).into_owned(),
        visible(&model.name).into_owned(),
        format!("{}{mark}", number(model.window)),
        format!("{}{mark}", number(model.max_output)),
        levels(model),
        model.prices.as_ref().map_or_else(|| "not known".to_owned(), prices),
        key,
    ]
}

fn provider<'a>(settings: &'a Settings, model: &CatalogueModel) -> Option<&'a ProviderSettings> {
    settings.provider(&model.provider)
}

/// The levels, that of the model's own choice in brackets.
fn levels(model: &CatalogueModel) -> String {
    let level = |level: &Effort| match model.default_level == Some(*level) {
        true => format!("[{level}]"),
        false => level.to_string(),
    };
    match model.levels.is_empty() {
        true => "its own".to_owned(),
        false => model.levels.iter().map(level).collect::<Vec<_>>().join(" "),
    }
}

fn prices(list: &PriceList) -> String {
    let tier = |tier: &PriceTier| {
        let over = match tier.over {
            0 => String::new(),
            over => format!("; over {}: ", number(over)),
        };
        let cached = tier.cache_read.unwrap_or(tier.input);
        format!("{over}{} / {} / {}", tier.input.units(), tier.output.units(), cached.units())
    };
    let tiers: String = list.tiers.iter().map(tier).collect();
    let peak = list.peak.as_ref().map(|peak| format!("; {} % at peak hours", peak.percent));
    format!("{} {tiers}{}", list.currency, peak.unwrap_or_default())
}

fn input(input: Input) -> &'static str {
    match input {
        Input::Text => "text",
        Input::Image => "image",
    }
}
