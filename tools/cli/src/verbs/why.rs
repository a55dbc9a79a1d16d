//! `synod why`: what the cluster waits for.

mod chop;

use crate::exit::Done;
use crate::health::{Survey, Vitals};
use crate::output::Report;
use crate::session::{Session, no_context};
use clap::Args;
use serde_json::Value;
use std::time::Duration;
use synod_config::{Code, Exit, code, explain};

/// How long a node may take, unless --timeout says otherwise.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// The first cause that fits: a node that is away, no quorum, a diverged state, a node that is not ready; with brokers, one
/// that is away, reaches too few servers or has no credit left, a server that waits for bodies or for the directory.
///
/// Ends with the exit code of the cause, or 0 if the cluster is healthy.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod why")]
pub(crate) struct Arguments {}

/// A cause with what speaks for it.
#[derive(Debug, PartialEq, Eq)]
struct Cause {
    cause: String,
    code: Option<Code>,
    evidence: Vec<String>,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let context = session.chosen()?.ok_or_else(no_context)?;
        let survey = Survey::take(&context, session.timeout.unwrap_or(PATIENCE))?;
        let cause = first(&survey);
        let report = Report::new("synod-why/1")
            .field("cause", cause.cause)
            .field("code", cause.code.map(|code| code.to_string()))
            .field("evidence", cause.evidence.into_iter().map(Value::from).collect::<Vec<_>>());
        session.output.print(&report)?;
        Ok(cause.code.and_then(explain).map_or(Exit::Success, |entry| entry.exit))
    }
}

/// The first cause that fits, in the order of the documents.
fn first(survey: &Survey) -> Cause {
    let away: Vec<(&str, String)> = survey
        .nodes
        .iter()
        .filter_map(|node| Some((node.name.as_str(), node.vitals.as_ref().err()?.to_string())))
        .collect();
    let waiting: Vec<(&str, &Vitals)> = survey.answers().filter(|(_, vitals)| !vitals.ready).collect();
    let diverged: Vec<&str> =
        survey.answers().filter(|(_, vitals)| vitals.diverged).map(|(name, _)| name).collect();
    if let Some((name, error)) = away.first() {
        let number = survey.nodes.iter().find_map(|node| Some(node.vitals.as_ref().err()?.code()));
        let cause = format!("node {name} is unreachable: {error}");
        let ready = format!("{} of the {} needed are ready", survey.have(), survey.need());
        let evidence = std::iter::once(ready).chain(unreachable(&away)).chain(alarms(survey)).collect();
        return Cause { cause, code: number, evidence };
    }
    if survey.have() < survey.need() {
        let names: Vec<&str> = waiting.iter().map(|(name, _)| *name).collect();
        let cause = format!(
            "no quorum: {} of {} are ready, missing {}",
            survey.have(),
            survey.need(),
            names.join(", ")
        );
        return Cause { cause, code: Some(code::NO_QUORUM), evidence: alarms(survey) };
    }
    if !diverged.is_empty() {
        let cause = format!("the state of {} differs from a certified one", diverged.join(", "));
        return Cause { cause, code: Some(code::STATE_DIVERGENCE), evidence: alarms(survey) };
    }
    if let Some((name, vitals)) = waiting.first() {
        let alarm = vitals.alarms.first();
        let reason = alarm
            .map_or("it does not say why".to_owned(), |alarm| format!("{} {}", alarm.check, alarm.reason));
        let stated = alarm.and_then(|alarm| Code::parse(alarm.reason.split(' ').next()?));
        let number = stated.filter(|code| explain(*code).is_some()).unwrap_or(code::REPLAYING);
        return Cause {
            cause: format!("node {name} is not ready: {reason}"),
            code: Some(number),
            evidence: alarms(survey),
        };
    }
    if let Some(cause) = chop::first(survey) {
        return cause;
    }
    Cause { cause: "healthy".to_owned(), code: None, evidence: Vec::new() }
}

fn unreachable(away: &[(&str, String)]) -> impl Iterator<Item = String> {
    away.iter().map(|(name, error)| format!("{name}: {error}"))
}

fn alarms(survey: &Survey) -> Vec<String> {
    let lines = survey.answers().flat_map(|(name, vitals)| {
        vitals.alarms.iter().map(move |alarm| format!("{name}: {} {}", alarm.check, alarm.reason))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{self, Purpose, Seat};
    use crate::health::{Alarm, Node};
    use synod_config::{Address, Member, NodeKey, SynError};

    pub(super) fn ready() -> Vitals {
        Vitals { ready: true, height: Some(9), ..Vitals::default() }
    }

    fn not_ready(reason: &str) -> Vitals {
        let alarm = Alarm { check: "quorum".to_owned(), reason: reason.to_owned() };
        Vitals { alarms: vec![alarm], ..Vitals::default() }
    }

    fn away() -> Result<Vitals, SynError> {
        Err(SynError::of(code::REFUSED, &[("address", "127.0.0.1:1")]))
    }

    pub(super) fn survey(vitals: Vec<Result<Vitals, SynError>>) -> Survey {
        let nodes: Vec<Node> =
            (0..).zip(vitals).map(|(at, vitals)| Node { name: format!("n{at}"), vitals }).collect();
        let members = nodes.iter().zip((7_100..).step_by(10)).map(|(node, port)| {
            let seat = Seat::at(&node.name, &Address::loopback(port)).expect("the ports fit");
            let peer = seat.address(synod_config::Service::Peer).expect("a seat has one").clone();
            Member::new(&node.name, peer, NodeKey::generate().expect("the system draws").public())
        });
        let genesis = cluster::genesis("shop", Purpose::Drill, members.collect()).expect("the members fit");
        Survey { genesis, nodes, brokers: Vec::new(), memory: Vec::new() }
    }

    #[test]
    fn the_first_cause_in_the_order_of_the_documents_is_named() {
        let ok = || Ok(ready());
        let diverged = || Ok(Vitals { diverged: true, ..ready() });
        let replaying = || Ok(not_ready("SYN-3403 1 of 9"));
        let cases = [
            (vec![ok(), ok(), ok(), ok()], None, "healthy"),
            (vec![ok(), away(), ok(), replaying()], Some(code::REFUSED), "node n1 is unreachable"),
            (
                vec![ok(), ok(), replaying(), replaying()],
                Some(code::NO_QUORUM),
                "2 of 3 are ready, missing n2, n3",
            ),
            (vec![ok(), diverged(), ok(), replaying()], Some(code::STATE_DIVERGENCE), "the state of n1"),
            (
                vec![ok(), ok(), ok(), replaying()],
                Some(code::REPLAYING),
                "node n3 is not ready: quorum SYN-3403",
            ),
            (vec![ok(), Ok(not_ready("SYN-3405"))], Some(code::NO_QUORUM), "missing n1"),
        ];
        for (vitals, number, text) in cases {
            let cause = first(&survey(vitals));
            assert_eq!(cause.code, number, "{cause:?}");
            assert!(cause.cause.contains(text), "{cause:?}");
            assert_eq!(cause.evidence.is_empty(), number.is_none(), "{cause:?}");
        }
    }
}
