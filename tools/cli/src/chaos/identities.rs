//! `synod chaos identities`: the bad identities of testing.md N1, shown to a real process.
//!
//! Three of four members run. The attacker has the key of the fourth, whose address is free, and everything that goes
//! over the wire. What is asked of the node under attack is its metrics page and nothing else.

use super::attacked::Attacked;
use super::load::{ask, connect, operation};
use crate::deployment::PLANT;
use crate::exit::{Done, bug};
use crate::output::Report;
use crate::session::Session;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::time::Instant;
use synod_chaos::identity::{self, BYTES_MAX, Case, Counters, Finding, MS_MAX, Target};
use synod_config::{Exit, Service, SynError, code};
use synod_host::{Mode, Outcome};
use synod_trial::plants::{Plant, PlantReport};

/// Members; the last one never runs.
const NODES: u16 = 4;
/// The member under attack.
const NODE: usize = 0;
/// A member that runs beside it.
const LIVE: usize = 1;
/// The member that does not run.
const ABSENT: usize = 3;
/// Key of the honest client.
const KEY: &str = "chaos:identities";

/// What a run found.
pub(crate) struct Findings {
    pub(crate) cases: Vec<Finding>,
    /// Whether the member that does not run was admitted with its own key, before and after.
    admitted: [bool; 2],
    /// Whether an honest client's writes were acknowledged, before and after, and each was there.
    honest: bool,
    /// Members that ended.
    fallen: Vec<String>,
    /// Whether the link of the member whose key was used twice stayed.
    linked: bool,
}

impl Findings {
    /// Cases refused as they must be.
    pub(crate) fn refused(&self) -> usize {
        self.cases.iter().filter(|finding| finding.refused).count()
    }

    /// What is wrong, one sentence each.
    pub(crate) fn wrong(&self) -> Vec<String> {
        let cases = self
            .cases
            .iter()
            .flat_map(|finding| finding.wrong.iter().map(|what| format!("{}: {what}", finding.case.name())));
        let mut wrong: Vec<String> = cases.collect();
        if self.cases.len() != Case::ALL.len() {
            wrong.push(format!("{} of {} cases were made", self.cases.len(), Case::ALL.len()));
        }
        if self.admitted != [true; 2] {
            wrong.push("a member with its own key was refused".to_owned());
        }
        if !self.honest {
            wrong.push("an honest client was not served before and after".to_owned());
        }
        if !self.linked {
            wrong.push("the link of a live member did not outlast a second connection of its key".to_owned());
        }
        wrong.extend(self.fallen.iter().map(|name| format!("{name} ended")));
        wrong
    }
}

/// What the members that run count together: any of them may be the one that dials a mirror.
struct Counted<'a>(&'a Attacked);

impl Counters for Counted<'_> {
    fn refusals(&self) -> io::Result<BTreeMap<u16, u64>> {
        let mut all = BTreeMap::new();
        for member in self.0.processes.alive() {
            for (code, times) in self.0.page(member).map_err(io::Error::other)?.refusals() {
                *all.entry(code).or_insert(0) += times;
            }
        }
        Ok(all)
    }
}

/// Runs every case and prints what came of it.
///
/// # Errors
/// The error of the cluster; SYN-7001 with what was not refused.
pub(crate) fn run(session: &Session) -> Done {
    session.watched("starting three of four members");
    let mut attacked = Attacked::start("identities", NODES, 1)?;
    let findings = attack(session, &attacked)?;
    let report = report(&findings);
    session.score("chaos-identities", &report);
    session.output.print(&report)?;
    let wrong = findings.wrong();
    if wrong.is_empty() {
        return Ok(Exit::Success);
    }
    attacked.processes.keep();
    let kept = format!("data and logs are kept in {}", attacked.processes.directory().display());
    let error =
        SynError::of(code::PROPERTY_VIOLATED, &[("property", "N1"), ("token", "synod chaos identities")]);
    Err(wrong.into_iter().chain([kept]).fold(error, SynError::because))
}

/// The attack alone.
///
/// # Errors
/// The error of the cluster.
pub(crate) fn attack(session: &Session, attacked: &Attacked) -> Result<Findings, SynError> {
    let failed = |why: io::Error| bug("identities", &why);
    let target = Target {
        peers: attacked.at(Service::Peer, NODE)?,
        guests: attacked.at(Service::Client, NODE)?,
        absent: attacked.secret(ABSENT)?,
        absent_at: attacked.at(Service::Peer, ABSENT)?,
        live: attacked.secret(LIVE)?,
    };
    attacked.linked(NODE, LIVE)?;
    let reconnects = || attacked.page(NODE).map(|page| reconnects(&page, attacked.processes.name(LIVE)));
    let before = (honest(attacked, 1)?, identity::admitted(&target).map_err(failed)?, reconnects()?);
    let tell = |finding: &Finding| {
        let word = if finding.refused { "refused" } else { "NOT REFUSED" };
        session.watched(&format!(
            "{word}: {} by {} after {} ms",
            finding.case.name(),
            finding.by,
            finding.ms
        ));
    };
    let cases = identity::run(&target, &Counted(attacked), tell).map_err(failed)?;
    let admitted = [before.1, identity::admitted(&target).map_err(failed)?];
    Ok(Findings {
        cases,
        admitted,
        honest: before.0 && honest(attacked, 2)?,
        fallen: attacked.fallen(),
        linked: reconnects()? == before.2,
    })
}

fn reconnects(page: &super::attacked::Page, peer: &str) -> Option<String> {
    let sum = page.sum("synod_net_reconnects_total", &format!("peer=\"{peer}\""));
    sum.map(|count| count.to_string())
}

/// Whether an honest client is acknowledged one more increment, and reads `times` of them.
fn honest(attacked: &Attacked, times: u64) -> Result<bool, SynError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| bug("runtime", &error))?.block_on(async {
        let client = connect(&attacked.processes.genesis, 0)?;
        let acked = ask(&client, 0, vec![operation("INCR", KEY, Mode::Ordered)]).await;
        let read = ask(&client, 0, vec![operation("GET", KEY, Mode::Quorum)]).await;
        let value = match read.first() {
            Some(Outcome::Accepted { value, .. }) => super::ledger::number(value),
            _ => None,
        };
        let acknowledged = matches!(acked.first(), Some(Outcome::Accepted { .. }));
        Ok(acknowledged && value == Some(times))
    })
}

/// Looks for a planted bug: the same run by a program of its own, with the plant on and then without.
///
/// # Errors
/// The program does not start or says nothing.
pub(crate) fn hunt(plant: &Plant) -> Result<PlantReport, SynError> {
    let begun = Instant::now();
    let (with, without) = (told(&plant.id)?, told("")?);
    let of = |told: &Value, key: &str| told.get(key).and_then(Value::as_u64);
    let silent = of(&without, "refused") == of(&without, "of");
    let fired = of(&with, "refused") < of(&with, "of");
    let token = "synod chaos identities".to_owned();
    Ok(PlantReport {
        id: plant.id.clone(),
        system: plant.system.clone(),
        starred: plant.is_starred(),
        found: fired && silent,
        seeds: 1,
        fired: with.get("wrong").map(Value::to_string).filter(|_| fired).unwrap_or_default(),
        false_alarms: if silent { Vec::new() } else { vec![token.clone()] },
        token,
        cpu_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        open: plant.open.clone().unwrap_or_default(),
        ..PlantReport::default()
    })
}

/// What a run with this plant on prints.
fn told(plant: &str) -> Result<Value, SynError> {
    let failed = |why: &dyn std::fmt::Display| bug("identities", why);
    let program = std::env::current_exe().map_err(|why| failed(&why))?;
    let ran = Command::new(program).args(["chaos", "identities", "--json"]).env(PLANT, plant).output();
    let ran = ran.map_err(|why| failed(&why))?;
    serde_json::from_slice(&ran.stdout)
        .map_err(|why| failed(&why).because(String::from_utf8_lossy(&ran.stderr)))
}

fn report(found: &Findings) -> Report {
    let most = |of: &dyn Fn(&Finding) -> u64| found.cases.iter().map(of).max().unwrap_or(0);
    let row = |finding: &Finding| -> Vec<Value> {
        vec![
            json!(finding.case.name()),
            json!(finding.refused),
            json!(finding.by),
            json!(finding.ms),
            json!(finding.bytes),
            json!(finding.attempts),
        ]
    };
    let attempts: usize = found.cases.iter().map(|finding| finding.attempts).sum();
    Report::new("synod-identities/1")
        .field("commit", env!("SYNOD_BUILD_COMMIT"))
        .field("refused", found.refused())
        .field("of", Case::ALL.len())
        .field("attempts", attempts)
        .field("max_ms", most(&|finding| finding.ms))
        .field("ms_limit", MS_MAX)
        .field("max_bytes", most(&|finding| finding.bytes))
        .field("bytes_limit", BYTES_MAX)
        .field("honest_after", found.honest)
        .field("wrong", found.wrong())
        .field("ok", found.wrong().is_empty())
        .list(
            "per",
            &["case", "refused", "by", "ms", "bytes", "attempts"],
            found.cases.iter().map(row).collect(),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Findings {
        let finding = |case| Finding {
            case,
            refused: true,
            by: "SYN-2102".to_owned(),
            ms: 1,
            bytes: 1,
            attempts: 1,
            wrong: Vec::new(),
        };
        Findings {
            cases: Case::ALL.into_iter().map(finding).collect(),
            admitted: [true; 2],
            honest: true,
            fallen: Vec::new(),
            linked: true,
        }
    }

    #[test]
    fn a_run_passes_only_with_every_case_and_every_control() {
        assert!(findings().wrong().is_empty());
        for spoil in [
            |f: &mut Findings| f.cases.truncate(13),
            |f: &mut Findings| f.cases[3].wrong.push("it: admitted".to_owned()),
            |f: &mut Findings| f.admitted[1] = false,
            |f: &mut Findings| f.honest = false,
            |f: &mut Findings| f.linked = false,
            |f: &mut Findings| f.fallen.push("n2".to_owned()),
        ] {
            let mut spoilt = findings();
            spoil(&mut spoilt);
            assert_eq!(spoilt.wrong().len(), 1);
        }
    }
}
