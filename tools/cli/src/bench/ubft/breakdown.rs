//! Where the time of a request goes: moments at which replicas applied rules, by one clock.
//!
//! *How.* In a run of its own, with one request in flight and all replicas at one poller, every rule of [`Step`] is noted with the
//! time. The time of a request, from its call to its result at the client, is cut at:
//!
//! | phase | ends when |
//! |---|---|
//! | rpc | the last follower said that it heard the request (`S5.4_echo`) |
//! | echo | the leader proposed it (`A2.17_propose`) |
//! | ctb | the last follower delivered the proposal (`A1.22_deliver_fast`, before the last `A2.20_will_certify`, if there is one) |
//! | will_certify | the last replica held all promises to certify, and promised to commit (`A2.27_will_commit`) |
//! | will_commit | f + 1 replicas held all promises to commit, and decided (`A2.31_decide_fast`) |
//! | execute | f + 1 replicas executed it (`A2.44_execute`), whose replies a client needs |
//! | reply | the client had its result |
//!
//! Each phase begins where the one before ended, so phases of one request add up to its time. Requests that did not go this way, since
//! their slot was slow or two were proposed, are left out and counted. Time for signatures and registers is no part of the fast path.
//!
//! *Bounds.* At most [`SAMPLES_MAX`] requests.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use synod_machine::Rule;
use synod_shm::Observer;

use super::caller::Taken;
use super::rig::REPLICAS;

/// Requests of the run at most.
pub(super) const SAMPLES_MAX: u32 = 5_000;
/// The phases, with what ends each.
const PHASES: [(&str, &str); 7] = [
    ("rpc", "the last follower applied S5.4_echo"),
    ("echo", "the leader applied A2.17_propose"),
    ("ctb", "the last follower applied A1.22_deliver_fast, before A2.20_will_certify"),
    ("will_certify", "the last replica applied A2.27_will_commit"),
    ("will_commit", "f + 1 replicas applied A2.31_decide_fast"),
    ("execute", "f + 1 replicas applied A2.44_execute"),
    ("reply", "the client had the result"),
];
/// f + 1.
const ENOUGH: usize = 2;

/// A rule that is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Echo,
    Propose,
    Deliver,
    WillCertify,
    WillCommit,
    Decide,
    Execute,
}

impl Step {
    fn of(rule: &str) -> Option<Self> {
        Some(match rule {
            "S5.4_echo" => Self::Echo,
            "A2.17_propose" => Self::Propose,
            "A1.22_deliver_fast" => Self::Deliver,
            "A2.20_will_certify" => Self::WillCertify,
            "A2.27_will_commit" => Self::WillCommit,
            "A2.31_decide_fast" => Self::Decide,
            "A2.44_execute" => Self::Execute,
            _ => return None,
        })
    }
}

/// Notes of one replica.
#[derive(Default)]
pub(super) struct Marks {
    all: Mutex<Vec<(Instant, Step)>>,
}

impl Marks {
    fn take(&self) -> Vec<(Instant, Step)> {
        std::mem::take(&mut *self.all.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Marks {
    fn applied(&self, _: u8, rule: Rule) {
        if let Some(step) = Step::of(rule.name) {
            self.all.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), step));
        }
    }
}

/// The moments of one request at which its phases end, if it went the way of the fast path.
fn cuts(marks: &[(Instant, Step)], over: Instant) -> Option<[Instant; 7]> {
    let at = |step: Step| marks.iter().filter(move |(_, noted)| *noted == step).map(|(at, _)| *at);
    let followers = usize::try_from(REPLICAS).unwrap_or(3) - 1;
    let all = |step: Step, count: usize| (at(step).count() == count).then(|| at(step).next_back()).flatten();
    let heard = all(Step::Echo, followers)?;
    let proposed = all(Step::Propose, 1)?;
    let promised = all(Step::WillCommit, followers + 1)?;
    // None says it where promises go with what is locked.
    let is_merged = at(Step::WillCertify).next().is_none();
    let certified = if is_merged { promised } else { all(Step::WillCertify, followers)? };
    let delivered = at(Step::Deliver).rfind(|at| (proposed..=certified).contains(at))?;
    // What a replica that was not needed did of the request before comes earlier.
    let decided = at(Step::Decide).filter(|at| *at >= promised).nth(ENOUGH - 1)?;
    let executed = at(Step::Execute).filter(|at| *at >= promised).nth(ENOUGH - 1)?;
    let cuts = [heard, proposed, delivered, promised, decided, executed, over];
    cuts.is_sorted().then_some(cuts)
}

/// The phases of the requests that were taken, and how many requests they are of.
pub(super) fn phases(taken: &Taken, replicas: &[&Marks]) -> (Vec<Value>, u64) {
    let mut marks: Vec<(Instant, Step)> = replicas.iter().flat_map(|marks| marks.take()).collect();
    marks.sort_by_key(|(at, _)| *at);
    let mut spans: [Vec<u64>; 7] = Default::default();
    for (from, waited) in taken.from.iter().zip(&taken.waited) {
        let over = *from + std::time::Duration::from_nanos(*waited);
        let first = marks.partition_point(|(at, _)| at < from);
        let end = marks.partition_point(|(at, _)| *at <= over);
        let Some(cuts) = marks.get(first..end).and_then(|marks| cuts(marks, over)) else { continue };
        let begins = std::iter::once(*from).chain(cuts);
        for ((begin, end), spans) in begins.zip(cuts).zip(&mut spans) {
            spans.push(u64::try_from((end - begin).as_nanos()).unwrap_or(u64::MAX));
        }
    }
    let count = spans[0].len() as u64;
    let shown = PHASES.iter().zip(&mut spans).filter(|(_, spans)| !spans.is_empty()).map(
        |((phase, until), spans)| {
            spans.sort_unstable();
            json!({ "phase": phase, "p50_ns": spans.get(spans.len() / 2), "until": until })
        },
    );
    (shown.collect(), count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// The marks of one request of the fast path, in nanoseconds, replica by replica.
    fn run(at: u64) -> Vec<(u64, usize, Step)> {
        use Step::{Decide, Deliver, Echo, Execute, Propose, WillCertify, WillCommit};
        let all = [
            (10, 1, Echo),
            (20, 2, Echo),
            (35, 0, Propose),
            (50, 1, Deliver),
            (55, 1, WillCertify),
            (60, 2, Deliver),
            (66, 2, WillCertify),
            (80, 0, WillCommit),
            (82, 1, WillCommit),
            (85, 2, WillCommit),
            (90, 1, Decide),
            (92, 1, Execute),
            (97, 0, Decide),
            (110, 0, Execute),
            (140, 2, Decide),
            (150, 2, Execute),
        ];
        all.into_iter().map(|(after, replica, step)| (at + after, replica, step)).collect()
    }

    fn found(runs: Vec<(u64, usize, Step)>, from: &[u64]) -> (Vec<(String, u64)>, u64) {
        let zero = Instant::now();
        let moment = |at: u64| zero + Duration::from_nanos(at);
        let marks = [Marks::default(), Marks::default(), Marks::default()];
        for (at, replica, step) in runs {
            marks[replica].all.lock().expect("no panic").push((moment(at), step));
        }
        let taken = Taken {
            from: from.iter().copied().map(moment).collect(),
            waited: vec![125; from.len()],
            ..Taken::default()
        };
        let (shown, count) = phases(&taken, &marks.each_ref());
        let pair = |shown: &Value| {
            (shown["phase"].as_str().expect("a word").to_owned(), shown["p50_ns"].as_u64().expect("a number"))
        };
        (shown.iter().map(pair).collect(), count)
    }

    #[test]
    fn phases_of_a_request_add_up_to_its_time_whatever_the_third_replica_does_later() {
        // The third replica ends in the time of the second request.
        let runs = run(0).into_iter().chain(run(130)).collect();
        let (phases, count) = found(runs, &[0, 130]);
        let expected = [20, 15, 25, 25, 12, 13, 15];
        let names = PHASES.map(|(phase, _)| phase.to_owned());
        assert_eq!(phases, names.into_iter().zip(expected).collect::<Vec<_>>());
        assert_eq!((expected.iter().sum::<u64>(), count), (125, 2));
    }

    #[test]
    fn requests_that_went_another_way_are_left_out_and_never_made_up() {
        assert_eq!(found(Vec::new(), &[0]), (Vec::new(), 0));
        for missing in
            [Step::Echo, Step::Propose, Step::Deliver, Step::WillCommit, Step::Decide, Step::Execute]
        {
            let runs = run(0).into_iter().filter(|(_, _, step)| *step != missing).collect();
            assert_eq!(found(runs, &[0]), (Vec::new(), 0), "{missing:?}");
        }
        let twice = run(0).into_iter().chain([(40, 0, Step::Propose)]).collect();
        assert_eq!(found(twice, &[0]).1, 0, "two were proposed");
        let (phases, count) = found(run(130), &[0, 130]);
        assert_eq!((phases.len(), count), (7, 1));
    }
}
