//! `synod member`: who the members of a payment system are, and how members join and leave.

use super::pay::institution::{Institution, System};
use super::pay::reach::Reach;
use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use synod_config::{Exit, Genesis, Member, NodeKey, Pay, Retry, SynError, code, format_duration, hex};
use synod_host::pay::{Founding, change, endorse, founding};
use synod_quorum::{Model, Quorums};

/// Pause between two questions whether a view has changed.
const LOOK: Duration = Duration::from_millis(20);

/// Members of a payment system whose genesis has founders: lists them, lets one join, has one leave.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod member ls")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Shows the newest view that a node knows: who is a member, who stands in reserve, what each node says that it is.
    #[command(after_help = "Example:\n  synod member ls")]
    Ls,
    /// Shows what changes would make of members, faults that are tolerated, and quorum. Nothing is sent.
    #[command(after_help = "Example:\n  synod member plan --add n4 --remove n3")]
    Plan {
        /// A member in reserve that would join; repeat it.
        #[arg(long, value_name = "NAME")]
        add: Vec<String>,
        /// A member that would leave; repeat it.
        #[arg(long, value_name = "NAME")]
        remove: Vec<String>,
    },
    /// Lets a member in reserve join. Its node runs already; payments go on, but for a moment between two views.
    #[command(after_help = "Example:\n  synod member add n4 --operator operator.key")]
    Add(Change),
    /// Has a member leave for good: its number never returns. What its customers hold is shown by the others; nobody pays from it.
    #[command(after_help = "Example:\n  synod member remove n3 --operator operator.key")]
    Remove {
        #[command(flatten)]
        change: Change,
        /// Removes it even where fewer faults are tolerated then.
        #[arg(long)]
        accept_lost_tolerance: bool,
    },
}

/// One change.
#[derive(Debug, Args)]
struct Change {
    /// The member, as the genesis names it.
    name: String,
    /// Key files of operators, more than two thirds of those whom the genesis names.
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    operator: Vec<PathBuf>,
}

/// The newest view that anybody told of.
struct Told {
    view: u64,
    members: BTreeSet<usize>,
    /// What each node of the genesis says that it is.
    standings: Vec<String>,
}

/// How many may fail of so many, and how many of them decide.
fn tolerance(members: usize) -> (u32, u32) {
    let quorums = u32::try_from(members).ok().and_then(|count| Quorums::new(Model::Byzantine, count).ok());
    quorums.map_or((0, 0), |quorums| (quorums.faulty(), quorums.intersecting()))
}

fn unknown(name: &str, why: &str) -> SynError {
    SynError::of(code::UNKNOWN_MEMBER, &[("name", name)]).because(why)
}

fn member(genesis: &Genesis, name: &str) -> Result<usize, SynError> {
    let found = genesis.members().iter().position(|member| member.name == name);
    found.ok_or_else(|| unknown(name, "members and those in reserve stand in the genesis"))
}

fn names<'a>(genesis: &'a Genesis, numbers: &BTreeSet<usize>) -> Vec<&'a str> {
    let known = numbers.iter().filter_map(|number| genesis.members().get(*number));
    known.map(|member| member.name.as_str()).collect()
}

impl Told {
    /// Asks every node that is reached, and takes the newest view.
    fn ask(system: &System) -> Result<Self, SynError> {
        let reached = system.all()?;
        let count = system.genesis().members().len();
        let mut told = Self { view: 0, members: BTreeSet::new(), standings: vec![String::new(); count] };
        let mut refused = None;
        for at in reached {
            let number = member(system.genesis(), at.name())?;
            match at.get("/v1/pay/members") {
                Ok(answer) => told.hear(number, &answer),
                Err(error) => {
                    told.standings[number] = error.code().to_string();
                    refused = Some(error);
                }
            }
        }
        match refused.filter(|_| told.members.is_empty()) {
            Some(error) => Err(error),
            None if told.members.is_empty() => {
                Err(usage("no node that is reached has entered a view: name one of a member by --http"))
            }
            None => Ok(told),
        }
    }

    fn hear(&mut self, number: usize, answer: &Value) {
        answer["standing"].as_str().unwrap_or_default().clone_into(&mut self.standings[number]);
        let Some(view) = answer["view"].as_u64() else { return };
        if self.members.is_empty() || view > self.view {
            let members = answer["members"].as_array().into_iter().flatten().filter_map(Value::as_u64);
            self.members = members.filter_map(|number| usize::try_from(number).ok()).collect();
            self.view = view;
        }
    }

    fn report(&self, genesis: &Genesis) -> Report {
        let (f, quorum) = tolerance(self.members.len());
        let rows = genesis.members().iter().enumerate().map(|(number, member)| {
            let is_member = self.members.contains(&number);
            let Member { name, peer, http, ed25519, .. } = member;
            vec![
                Value::from(name.clone()),
                Value::from(number),
                Value::from(is_member),
                Value::from(self.standings[number].clone()),
                Value::from(peer.to_string()),
                Value::from(http.as_ref().map(ToString::to_string)),
                Value::from(hex(&ed25519.0)),
            ]
        });
        let columns = ["name", "number", "member", "says", "peer", "http", "key"];
        Report::new("synod-members/1")
            .field("cluster", genesis.cluster().name.clone())
            .field("view", self.view)
            .field("members", self.members.len())
            .field("f", f)
            .field("quorum", quorum)
            .list("nodes", &columns, rows.collect())
    }

    /// The members after these changes.
    fn after(
        &self,
        genesis: &Genesis,
        add: &[String],
        remove: &[String],
    ) -> Result<BTreeSet<usize>, SynError> {
        let mut members = self.members.clone();
        for name in add {
            let number = member(genesis, name)?;
            if self.has_been(genesis, number) {
                return Err(unknown(name, "it was a member and left, and no number returns"));
            }
            members.insert(number);
        }
        for name in remove {
            if !members.remove(&member(genesis, name)?) {
                return Err(unknown(name, "it is not a member of the newest view"));
            }
        }
        Ok(members)
    }

    /// Whether a founder is none any more, or a node says that it left.
    fn has_been(&self, genesis: &Genesis, number: usize) -> bool {
        let founders = genesis.pay().map_or(0, |pay| usize::try_from(pay.founders).unwrap_or(usize::MAX));
        let is_founder = number < founders;
        !self.members.contains(&number) && (is_founder || self.standings[number] == "left")
    }
}

fn plan(told: &Told, genesis: &Genesis, add: &[String], remove: &[String]) -> Result<Report, SynError> {
    let after = told.after(genesis, add, remove)?;
    let ((f, quorum), (f_then, quorum_then)) = (tolerance(told.members.len()), tolerance(after.len()));
    Ok(Report::new("synod-member-plan/1")
        .field("view", told.view)
        .field("members", names(genesis, &told.members))
        .field("members_then", names(genesis, &after))
        .field("f", f)
        .field("f_then", f_then)
        .field("quorum", quorum)
        .field("quorum_then", quorum_then))
}

impl Change {
    /// The body of the request, signed by enough operators.
    fn signed(&self, genesis: &Genesis, founding: &Founding, joins: bool) -> Result<Value, SynError> {
        let number = member(genesis, &self.name)?;
        let number = u8::try_from(number).map_err(|_| unknown(&self.name, "numbers end at 127"))?;
        let change = change(genesis, number, joins).ok_or_else(|| unknown(&self.name, "it has no number"))?;
        let mut signatures = std::collections::BTreeMap::new();
        for file in &self.operator {
            let key = NodeKey::read(file)?;
            let (operator, signature) = endorse(founding, change, &key).ok_or_else(|| {
                usage(&format!("the key in {} is that of no operator of the genesis", file.display()))
            })?;
            signatures.insert(operator, hex(&signature.0));
        }
        let need = founding.endorsers().unwrap_or(u32::MAX);
        if u32::try_from(signatures.len()).unwrap_or(u32::MAX) < need {
            let values = [("have", &*signatures.len().to_string()), ("need", &*need.to_string())];
            return Err(SynError::of(code::ENDORSEMENTS_MISSING, &values)
                .because("give the key files of more operators with --operator"));
        }
        let rows = signatures.into_iter();
        let rows = rows.map(|(operator, signature)| json!({ "operator": operator, "signature": signature }));
        let word = if joins { "join" } else { "leave" };
        Ok(json!({ "change": word, "member": number, "signatures": rows.collect::<Vec<_>>() }))
    }

    /// Has the members make the change, and waits until a member of the next view is in it.
    fn make(&self, system: &System, told: &Told, joins: bool) -> Result<Report, SynError> {
        let genesis = system.genesis();
        let number = member(genesis, &self.name)?;
        let body = self.signed(genesis, &founding(genesis)?, joins)?;
        let begun = Instant::now();
        let at = send(system, told, number, &body)?;
        let mut newest = Told::ask(system)?;
        while newest.members.contains(&number) != joins {
            if begun.elapsed() > system.patience() {
                let deadline = format_duration(system.patience());
                let what = format!("the change of {}", self.name);
                return Err(SynError::of(code::DEADLINE_PASSED, &[("id", &*what), ("deadline", &*deadline)])
                    .because(
                        "the members have recorded it and go on with it: `synod member ls` shows the view",
                    ));
            }
            std::thread::sleep(LOOK);
            newest = Told::ask(system)?;
        }
        let waited = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let report = newest.report(genesis);
        Ok(report.field("asked", at).field("waited_ms", waited))
    }
}

/// Gives the change to the first member that takes it, those that stay first.
fn send(system: &System, told: &Told, subject: usize, body: &Value) -> Result<String, SynError> {
    let mut last = None;
    let number = |at: &Institution<'_>| member(system.genesis(), at.name()).unwrap_or(usize::MAX);
    let mut reached = system.all()?;
    reached.retain(|at| told.members.contains(&number(at)));
    reached.sort_by_key(|at| (number(at) == subject, number(at)));
    for at in reached {
        match at.post("/v1/pay/members", (body, "the change")) {
            Ok(_) => return Ok(at.name().to_owned()),
            // Asked twice it is made once: another member may answer.
            Err(error) if error.retry() == Retry::Permanent => return Err(error),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| usage("no member is reached")))
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let system = &System::open(session, &self.reach)?;
        let genesis = system.genesis();
        if !genesis.pay().is_some_and(Pay::has_views) {
            return Err(usage("the members of this cluster are there for good")
                .because("members come and go where the cluster was made with --reserve"));
        }
        let told = Told::ask(system)?;
        let report = match self.verb {
            Verb::Ls => told.report(genesis),
            Verb::Plan { add, remove } => plan(&told, genesis, &add, &remove)?,
            Verb::Add(change) => {
                told.after(genesis, std::slice::from_ref(&change.name), &[])?;
                change.make(system, &told, true)?
            }
            Verb::Remove { change, accept_lost_tolerance } => {
                let after = told.after(genesis, &[], std::slice::from_ref(&change.name))?;
                let (before, after) = (tolerance(told.members.len()).0, tolerance(after.len()).0);
                if after < before && !accept_lost_tolerance {
                    let what = format!("the removal of {}", change.name);
                    let (before, after) = (before.to_string(), after.to_string());
                    let values = [("change", &*what), ("before", &*before), ("after", &*after)];
                    return Err(SynError::of(code::LOSES_TOLERANCE, &values)
                        .because("add another member first, or say --accept-lost-tolerance"));
                }
                change.make(system, &told, false)?
            }
        };
        session.output.print(&report)?;
        Ok(Exit::Success)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorums_are_those_of_the_specification() {
        let table = [(4, 3), (5, 4), (6, 4), (7, 5), (8, 6), (10, 7), (11, 8), (52, 35), (100, 67)];
        for (members, quorum) in table {
            assert_eq!(tolerance(members).1, quorum, "{members}");
        }
    }

    #[test]
    fn the_newest_view_is_taken_whoever_told_it() {
        let mut told = Told { view: 0, members: BTreeSet::new(), standings: vec![String::new(); 3] };
        told.hear(2, &json!({ "view": null, "standing": "aside", "members": [] }));
        assert!(told.members.is_empty());
        told.hear(0, &json!({ "view": 2, "standing": "member", "members": [0, 2] }));
        told.hear(1, &json!({ "view": 1, "standing": "left", "members": [0, 1, 2] }));
        assert_eq!((told.view, told.members.len()), (2, 2));
        assert_eq!(told.standings, ["member", "left", "aside"]);
    }
}
