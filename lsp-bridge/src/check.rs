//! `code_diagnostics`: what servers say is wrong with files.

use std::collections::BTreeSet;
use std::path::PathBuf;

use async_trait::async_trait;
use bridle_agent::{Location, ToolKind};
use futures::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::definition::Purpose;
use crate::desk::{Desk, NoResult};
use crate::diagnose::{REPORT_LIMIT, Report, Unknown};
use crate::diagnostic::{Diagnostic, Severity};
use crate::reply::{Completeness, Trouble};
use crate::symbol::quoted;
use crate::tool::{Ask, Told};
use crate::view::{MAX_CHARS, trust};

/// The most files of one call.
const MAX_FILES: usize = 20;

/// The most diagnostics of one file that are shown.
const MAX_OF_FILE: usize = 20;

/// The most that are shown.
const MAX_SHOWN: usize = 50;

/// The longest message, in characters.
const MAX_MESSAGE: usize = 500;

/// The arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    severity: Option<Wanted>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Wanted {
    Error,
    Warning,
    Information,
    Hint,
}

impl Wanted {
    fn severity(self) -> Severity {
        match self {
            Self::Error => Severity::Error,
            Self::Warning => Severity::Warning,
            Self::Information => Severity::Information,
            Self::Hint => Severity::Hint,
        }
    }
}

#[async_trait]
impl Ask for Check {
    const TOOL: &'static str = "code_diagnostics";
    const KIND: ToolKind = ToolKind::Read;
    const DESCRIPTION: &'static str = "Asks language servers what is wrong with files as they are now: \
        type errors, unknown names, warnings. Without `paths`: with the files that this session has \
        changed. A file of which nothing is known is told as such, never as clean.";

    fn schema() -> Value {
        let severities = ["error", "warning", "information", "hint"];
        json!({
            "type": "object",
            "properties": {
                "paths": {
                    "type": "array", "items": {"type": "string"}, "maxItems": MAX_FILES,
                    "description": "The files.",
                },
                "severity": {
                    "type": "string", "enum": severities,
                    "description": "The least severe to show; `warning` without it.",
                },
            },
            "required": [],
            "additionalProperties": false,
        })
    }

    fn paths(&self) -> Vec<&str> {
        self.paths.iter().map(String::as_str).collect()
    }

    fn title(&self) -> String {
        match self.paths.as_slice() {
            [] => "Code: problems in what was changed".to_owned(),
            paths => format!("Code: problems in {}", paths.join(", ")),
        }
    }

    async fn answer(
        &self,
        files: &[PathBuf],
        desk: &Desk,
        token: &CancellationToken,
    ) -> Result<Told, NoResult> {
        let (files, left) = match files {
            [] => {
                let mut changed = desk.all_changed();
                changed.retain(|path| path.is_file());
                let left = changed.len().saturating_sub(MAX_FILES);
                changed.truncate(MAX_FILES);
                (changed, left)
            }
            files => (files.to_vec(), 0),
        };
        if files.is_empty() {
            let why = "this session has changed no file; give `paths`".to_owned();
            return Err(NoResult::Wrong(why));
        }
        let only = files.len() == 1;
        let looks = join_all(files.iter().map(|file| look(file, desk, token))).await;
        let mut findings = Vec::new();
        for look in looks {
            match look {
                Ok(found) => findings.extend(found),
                // Of several files, one without a server is one of which nothing is known.
                Err((_, why)) if only => return Err(why),
                Err((file, why)) => findings.push((file, Err(why.to_string()))),
            }
        }
        let least = self.severity.unwrap_or(Wanted::Warning).severity();
        let mut told = told(&findings, least, desk);
        if left > 0 {
            told.text.push_str(&format!("{left} more changed files were not looked at\n"));
        }
        Ok(told)
    }
}

/// What one server says of a file, or why that is not known.
type Finding = (PathBuf, Result<Report, String>);

/// What every server for a file says of it.
async fn look(
    file: &PathBuf,
    desk: &Desk,
    token: &CancellationToken,
) -> Result<Vec<Finding>, (PathBuf, NoResult)> {
    let failed = |why: NoResult| (file.clone(), why);
    let project = &desk.project;
    let candidates = project.servers.candidates(file, &project.roots, token).await;
    let candidates = candidates.map_err(|why| failed(why.into()))?;
    let navigator = desk.navigator(file, token).await;
    let mut asked: Vec<_> = candidates
        .into_iter()
        .filter(|one| one.server.definition().purpose == Purpose::Diagnostics)
        .collect();
    let mut findings: Vec<Finding> = Vec::new();
    match navigator {
        Ok(navigator) => asked.insert(0, navigator),
        Err(why) if asked.is_empty() => return Err(failed(why)),
        Err(why) => findings.push((file.clone(), Err(why.to_string()))),
    }
    let reports = asked.iter().map(|one| project.diagnose(one, file, REPORT_LIMIT, token));
    for report in join_all(reports).await {
        match report {
            Err(Unknown::Trouble(Trouble::Cancelled)) => {
                return Err(failed(Trouble::Cancelled.into()));
            }
            report => {
                findings.push((file.clone(), report.map_err(|why| why.to_string())));
            }
        }
    }
    Ok(findings)
}

fn told(findings: &[Finding], least: Severity, desk: &Desk) -> Told {
    let mut told = Told::default();
    let (mut all, mut clean, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    let mut counts = [0_usize; 4];
    let mut who = BTreeSet::new();
    for (file, report) in findings {
        let report = match report {
            Ok(report) => report,
            Err(why) => {
                unknown.push(format!("{}: unknown: {why}\n", desk.shown(file)));
                continue;
            }
        };
        who.insert(report.who.as_str());
        if report.completeness != Completeness::Complete {
            let trust = trust(&report.completeness);
            let is = match report.completeness {
                Completeness::Partial(_) | Completeness::Unchecked(_) => ":",
                _ => " is",
            };
            unknown.push(format!("{}: {}{is} {trust}\n", desk.shown(file), report.who));
        }
        let mut wanted: Vec<_> =
            report.diagnostics.iter().filter(|one| one.severity <= least).collect();
        wanted.sort_by_key(|one| (one.severity, one.range));
        if wanted.is_empty() && report.completeness == Completeness::Complete {
            clean.push(format!("{} ({})", desk.shown(file), report.who));
        }
        for one in &wanted {
            if let Some(count) = counts.get_mut(one.severity as usize) {
                *count += 1;
            }
        }
        let left = wanted.len().saturating_sub(MAX_OF_FILE);
        let shown = wanted.into_iter().take(MAX_OF_FILE);
        all.extend(shown.map(|one| (report, one.clone())));
        if left > 0 {
            unknown.push(format!("{}: {left} more are not shown\n", desk.shown(file)));
        }
    }
    all.sort_by_key(|(_, one)| one.severity);
    let severities = [Severity::Error, Severity::Warning, Severity::Information, Severity::Hint];
    let counted: Vec<_> = severities
        .iter()
        .zip(counts)
        .filter(|(_, count)| *count > 0)
        .map(|(severity, count)| counted(*severity, count))
        .collect();
    if !counted.is_empty() {
        let who = who.into_iter().collect::<Vec<_>>().join(", ");
        told.text.push_str(&format!("{} ({who})\n", counted.join(", ")));
    }
    for (number, (report, one)) in all.iter().enumerate() {
        let row = row(&desk.shown(&report.file), report, one);
        if number >= MAX_SHOWN || told.text.len() + row.len() > MAX_CHARS - 2_000 {
            told.text.push_str(&format!("{} more are not shown\n", all.len() - number));
            break;
        }
        told.text.push_str(&row);
        let line = u32::try_from(one.range.start.line + 1).ok();
        told.locations.push(Location { path: report.file.clone(), line });
    }
    unknown.iter().for_each(|text| told.text.push_str(text));
    if !clean.is_empty() {
        let what = if least == Severity::Error { "errors" } else { "errors or warnings" };
        told.text.push_str(&format!("No {what}: {}\n", clean.join(", ")));
    }
    told
}

fn counted(severity: Severity, count: usize) -> String {
    match (severity, count) {
        (Severity::Information, _) => format!("{count} information"),
        (_, 1) => format!("1 {}", severity.name()),
        _ => format!("{count} {}s", severity.name()),
    }
}

/// A diagnostic in one line, with the source below it.
pub(crate) fn row(file: &str, report: &Report, one: &Diagnostic) -> String {
    let line = one.range.start.line;
    let message: String = one.message.split_whitespace().collect::<Vec<_>>().join(" ");
    let message: String = message.chars().take(MAX_MESSAGE).collect();
    let code = match (&one.source, &one.code) {
        (Some(source), Some(code)) => format!(" [{source} {code}]"),
        (Some(text), None) | (None, Some(text)) => format!(" [{text}]"),
        (None, None) => String::new(),
    };
    let source = report.source.line(line).map(quoted).unwrap_or_default();
    format!("{file}:{}: {}: {message}{code}: {source}\n", line + 1, one.severity.name())
}
