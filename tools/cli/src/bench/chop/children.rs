//! Parts that are made of runs of other parts, each in a process of its own: `--part all`, and `--part broker`, which is the
//! broker of `--part real`. CPU is counted by process, so no part may see what another one used.

use super::ChopPlan;
use super::report::{float, rounded};
use crate::bench::header::common;
use crate::exit::{Done, bug};
use crate::huge::Pages;
use crate::output::Report;
use crate::session::Session;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use synod_config::{Code, Exit, SynError};

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildPlan {
    /// `all` or `broker`.
    pub(crate) part: &'static str,
    /// The parts that are run one after another, with their options.
    pub(crate) children: Vec<(&'static str, Vec<String>)>,
    pub(crate) out: Option<PathBuf>,
}

/// Runs the parts one after another and prints what they printed; without figures if one of them failed.
///
/// # Errors
/// What the first part that failed said, under its own code.
pub(crate) fn run(session: &Session, plan: &ChildPlan) -> Done {
    let mut results = Vec::new();
    for (part, options) in &plan.children {
        session.watched(&format!("part {part}"));
        results.push(((*part).to_owned(), child(part, options, None)?));
    }
    let report = if plan.part == "broker" { broker(results)? } else { all(results) };
    if let Some(file) = &plan.out {
        std::fs::write(file, report.to_json()).map_err(|e| crate::cluster::unwritable(file, &e))?;
    }
    session.output.print(&report)?;
    Ok(Exit::Success)
}

/// What a part prints that runs as a process of its own, which is told `tunables` or decides for itself.
fn child(part: &str, options: &[String], tunables: Option<&str>) -> Result<Value, SynError> {
    let program = std::env::current_exe().map_err(|error| bug("bench", &error))?;
    let mut command = Command::new(&program);
    command.args(["bench", "chop", "--json", "--part", part]).args(options);
    crate::huge::leave_to(&mut command);
    command.envs(tunables.map(|text| (crate::huge::TUNABLES, text)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = command.output().map_err(|error| crate::cluster::unwritable(&program, &error))?;
    if ended.status.success() {
        return serde_json::from_slice(&ended.stdout).map_err(|error| bug("bench", &error));
    }
    Err(failed(part, &String::from_utf8_lossy(&ended.stderr)))
}

/// The keys `chop` of one part once more without huge pages, for `span`; nothing where this process has none either, or nobody wants
/// other ways.
///
/// # Errors
/// What the child said.
pub(super) fn without_huge_pages(part: &str, plan: &ChopPlan) -> Result<Option<Value>, SynError> {
    if !plan.ablations || !plan.huge || Pages::own() != Pages::Asked {
        return Ok(None);
    }
    let words: Vec<String> = aside(plan).chain(["--no-huge-pages".to_owned()]).collect();
    Ok(Some(child(part, &words, None)?["chop"].clone()))
}

/// The keys `chop` of one part once more with huge pages and without memory that is kept, for `span`; nothing where this process
/// keeps none, or nobody wants other ways.
///
/// # Errors
/// What the child said.
pub(super) fn without_kept_memory(part: &str, plan: &ChopPlan) -> Result<Option<Value>, SynError> {
    if !plan.ablations || !plan.huge || !crate::huge::keeps() {
        return Ok(None);
    }
    let words: Vec<String> = aside(plan).collect();
    Ok(Some(child(part, &words, Some(crate::huge::PAGES_ALONE))?["chop"].clone()))
}

/// The options of a part that runs once more for a short time, beside what this process measures.
fn aside(plan: &ChopPlan) -> impl Iterator<Item = String> {
    let times = [
        "--repeat=1".to_owned(),
        format!("--for={}ms", plan.aside().as_millis()),
        format!("--warmup={}ms", plan.warmup.as_millis()),
        "--no-ablations".to_owned(),
    ];
    plan.given.iter().cloned().chain(times)
}

/// What a part said in JSON, as it said it; a bug where it said nothing that can be read.
fn failed(part: &str, said: &str) -> SynError {
    let why = format!("part {part}");
    let told = said.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
    let read = told.as_ref().and_then(|told| {
        let code = Code::parse(told["code"].as_str()?)?;
        Some((code, told["message"].as_str()?, told["causes"].as_array()?))
    });
    let Some((code, message, causes)) = read else { return bug("bench", &format!("{why}: {}", said.trim())) };
    let error = SynError::with_message(code, message).because(why);
    causes.iter().filter_map(Value::as_str).fold(error, |error, cause| error.because(cause))
}

/// All results beside each other, and of each what is to be seen at once.
fn all(results: Vec<(String, Value)>) -> Report {
    let seconds = |value: &Value| value.get("achieved_per_s").cloned().unwrap_or(Value::Null);
    let rows = results
        .iter()
        .map(|(part, result)| vec![json!(part), seconds(result), result["audit"]["ok"].clone()]);
    let rows = rows.collect();
    let messages: u64 =
        results.iter().filter_map(|(_, result)| result["outcomes"]["accepted"].as_u64()).sum();
    let mut header = common();
    for key in ["transport", "auth", "durability", "loop", "processes"] {
        let mut told: Vec<String> = Vec::new();
        for value in results.iter().map(|(_, result)| &result["header"][key]) {
            let word = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if !told.contains(&word) {
                told.push(word);
            }
        }
        header.insert(key.to_owned(), json!(format!("by part: {}", told.join("; "))));
    }
    let parts: Map<String, Value> = results.into_iter().collect();
    Report::new("synod-bench/1")
        .field("header", Value::Object(header))
        .field("outcomes", json!({ "accepted": messages, "rejected": 0, "unknown": 0 }))
        .field("audit", json!({ "ok": true, "parts": parts.len() }))
        .field("chop", json!({ "part": "all", "parts": parts, "unavailable": {} }))
        .list("summary", &["part", "messages_per_s", "audit"], rows)
}

/// What the broker of a run with real clients cost.
fn broker(results: Vec<(String, Value)>) -> Result<Report, SynError> {
    let missing = || bug("bench", &"the part with real clients tells nothing of its broker");
    let (_, real) = results.into_iter().next().ok_or_else(missing)?;
    let ns = real["chop"]["cpu_ns_per_msg"]["broker"].as_f64().ok_or_else(missing)?;
    let mut report = Report::new("synod-bench/1");
    for key in ["header", "achieved_per_s", "held", "latency_us", "outcomes", "rss_peak_bytes", "audit"] {
        report = report.field(key, real.get(key).cloned().unwrap_or(Value::Null));
    }
    let copied = ["clients", "sockets", "links", "batches", "distilled_share", "retransmits"];
    let mut own = Map::from_iter([
        ("part".to_owned(), json!("broker")),
        ("verify".to_owned(), json!("eager")),
        ("cpu_us_per_msg".to_owned(), rounded(ns / 1_000.0)),
        ("messages_per_core_and_s".to_owned(), rounded(1e9 / ns.max(float(1)))),
        ("unavailable".to_owned(), json!({})),
    ]);
    own.extend(copied.map(|key| (key.to_owned(), real["chop"].get(key).cloned().unwrap_or(json!(0)))));
    own.insert("real".to_owned(), real["chop"].clone());
    Ok(report.field("chop", own))
}

#[cfg(test)]
mod tests {
    use super::{all, broker, failed};
    use serde_json::{Value, json};
    use synod_config::{SynError, code};

    fn shown(report: &crate::output::Report) -> Value {
        serde_json::from_str(&report.to_json()).expect("JSON")
    }

    #[test]
    fn the_cost_of_a_broker_is_what_its_process_used_per_message() {
        let real = json!({ "audit": { "ok": true }, "chop": { "clients": 7, "cpu_ns_per_msg": { "broker": 20_000.0 } } });
        let told = shown(&broker(vec![("real".to_owned(), real)]).expect("it tells"));
        assert_eq!(told["chop"]["cpu_us_per_msg"], 20.0);
        assert_eq!(
            (&told["chop"]["messages_per_core_and_s"], &told["chop"]["clients"]),
            (&50_000.0.into(), &7.into())
        );
        assert!(broker(vec![("real".to_owned(), json!({}))]).is_err(), "no figure without one");
    }

    #[test]
    fn all_parts_stand_beside_each_other() {
        let part = |accepted| json!({ "achieved_per_s": 5.0, "outcomes": { "accepted": accepted }, "audit": { "ok": true } });
        let told = shown(&all(vec![("auth".to_owned(), part(3)), ("e2e".to_owned(), part(4))]));
        assert_eq!((&told["outcomes"]["accepted"], &told["audit"]["parts"]), (&7.into(), &2.into()));
        assert_eq!(told["chop"]["parts"]["e2e"]["achieved_per_s"], 5.0);
    }

    #[test]
    fn a_part_whose_audit_failed_fails_the_whole_as_one() {
        let lost =
            SynError::of(code::AUDIT_FAILED, &[("lost", "3"), ("duplicated", "0")]).because("at height 9");
        let told = failed("e2e", &format!("progress\n{}\n", lost.to_json()));
        assert_eq!((told.code(), told.message()), (code::AUDIT_FAILED, lost.message()));
        assert_eq!(told.causes(), ["part e2e", "at height 9"]);
    }

    #[test]
    fn a_part_that_failed_otherwise_keeps_its_code_and_its_exit() {
        let silent = SynError::of(code::NO_ANSWER, &[("address", "n0"), ("stage", "links")]);
        let told = failed("faults", &silent.to_json().to_string());
        assert_eq!((told.code(), told.exit_code()), (code::NO_ANSWER, silent.exit_code()));
        for said in ["", "killed", "{}", "{\"code\": 3}"] {
            assert_eq!(failed("e2e", said).code(), code::BUG, "{said}");
        }
    }

    #[test]
    fn the_header_of_all_parts_is_not_that_of_the_first() {
        let part = |transport| json!({ "header": { "transport": transport, "durability": "volatile" } });
        let told = shown(&all(vec![("auth".to_owned(), part("none")), ("e2e".to_owned(), part("tls"))]));
        assert_eq!(told["header"]["transport"], "by part: none; tls");
        assert_eq!(told["header"]["durability"], "by part: volatile");
    }
}
