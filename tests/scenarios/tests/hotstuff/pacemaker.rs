//! How views follow one another: dead leaders in a row (TL2), timeouts that adapt (TL8) and cannot be stretched (TL23),
//! joining (TL9), inflated views (TL10), certificates that only rise (TL11).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use synod_hotstuff::{Message, Record, Statement, View};
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_scenarios::{SYSTEMS, passes, quiet, settles, warm, with};
use synod_sim::Latency;
use synod_trial::stage::{Fate, Stage, What, Why};

/// One-view terms, so that every view has another leader.
const ONE_VIEW: &[(&str, i64)] = &[("term_views", 1), ("reputation", 0)];
/// The first timeout of every test here.
const BASE: Span = Span::millis(100);

fn leader(stage: &Stage) -> NodeId {
    stage.leader().expect("an idle cluster knows its leader")
}

/// TL2, H-L1: the next f leaders are dead. Each costs one timeout, and none costs two.
#[test]
fn f_dead_leaders_in_a_row_cost_f_timeouts() {
    for system in SYSTEMS {
        for (nodes, dead) in [(7, 2), (10, 3)] {
            let mut stage = warm(system, nodes, ONE_VIEW);
            let (first, before) = (leader(&stage), stage.book().highest.0);
            (0..dead).for_each(|step| stage.kill(NodeId((first.0 + step) % nodes)));
            (0..2).for_each(|guest| stage.ask(guest));
            let armed = |what: &What| matches!(what, What::Armed(..));
            assert!(stage.until(Span::secs(1), |event| armed(&event.what)), "nobody waits for the leader");
            let (at, view) = (stage.now(), stage.view());
            assert!(
                stage.until(Span::secs(5), |event| matches!(event.what, What::Delivered(p) if p > before))
            );
            let took = stage.now().since(at);
            // Each given-up view makes the next timeout half as long again.
            let timeouts: u64 =
                (0..=dead).map(|failures| BASE.0 * 3_u64.pow(failures) / 2_u64.pow(failures)).sum();
            match system {
                "hotstuff/chain3" | "hotstuff/chain2" => {
                    let passed = stage.view() - view;
                    assert!(passed <= u64::from(nodes) + 4, "{system} n={nodes}: {passed} views");
                }
                _ => assert!(took.0 <= timeouts + Span::millis(70).0, "{system} n={nodes}: {took}"),
            }
            let alive = NodeId((first.0 + dead) % nodes);
            let given_up = stage.diary().entries(alive).filter(|(_, entry)| entry.why == Why::Tc).count();
            assert!(given_up >= dead as usize, "{system} n={nodes}: {given_up} views were given up");
            let _report = settles(stage);
        }
    }
}

/// TL8, D16: a delay of several first timeouts is learned.
#[test]
fn timeouts_below_the_real_delay_grow_until_views_succeed() {
    for system in SYSTEMS {
        let mut scenario = with(quiet(system, 4), &[("timeout_base_ms", 10), ("timeout_max_ms", 4_000)]);
        scenario.latency = Latency::Constant(Span::millis(60));
        scenario.requests = 12;
        let report = passes(&scenario);
        assert!(report.applied.contains(&"M7_timeout_grows"), "{system}: 10 ms were enough");
        assert!(report.delivered > 4, "{system} delivered {}", report.delivered);
    }
}

/// TL8, second half: while everything is late views are given up; afterwards one base timeout suffices.
#[test]
fn after_an_overload_the_first_commit_comes_within_a_base_timeout() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, &[]);
        let late = Rc::new(Cell::new(true));
        let is_late = late.clone();
        let delayed = stage.direct(move |_| match is_late.get() {
            true => Fate::Delay(Span::millis(150)),
            false => Fate::Pass,
        });
        for _ in 0..10 {
            stage.ask(0);
            stage.ask(1);
            stage.run(Span::millis(200));
        }
        let gave_up = stage.diary().rules("M5_advance_by_tc");
        late.set(false);
        // What is under way is still late.
        stage.run(Span::millis(150));
        let before = stage.book().highest.0;
        stage.ask(0);
        let took = stage.until(BASE, |event| matches!(event.what, What::Delivered(p) if p > before));
        assert!(took, "{system}: no commit within {BASE}");
        assert!(delayed.count() > 0 && gave_up > 0, "{system}: {} late, {gave_up} given up", delayed.count());
        let _report = settles(stage);
    }
}

/// TL9, D15: one of the three that are left has nothing to do and no timer; it joins the two that complain.
#[test]
fn a_member_without_work_joins_a_weak_quorum_of_complaints() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, ONE_VIEW);
        let dead = leader(&stage);
        let idle = NodeId(if dead.0 == 3 { 2 } else { 3 });
        let guest = u32::from(dead.0 == 0);
        (0..2).for_each(|guest| stage.world().block(NodeId(128 + guest), idle));
        let hidden = stage.direct(move |sent| match sent.message {
            Message::Forward(_) if sent.to == idle => Fate::Drop,
            _ => Fate::Pass,
        });
        let (at, before) = (stage.now(), stage.book().highest.0);
        stage.kill(dead);
        stage.ask(guest);
        let joined = stage.until(Span(5 * BASE.0), |event| event.node == idle && event.what_is("M3_join"));
        assert!(joined, "{system}: it did not join");
        assert_eq!(stage.diary().rule_at(idle, "M2_complain", at), None, "{system}: it waited itself");
        let done = stage.until(Span::secs(2), |event| matches!(event.what, What::Delivered(p) if p > before));
        assert!(done && hidden.count() > 0, "{system}: no commit, or {} hidden", hidden.count());
        let _report = settles(stage);
    }
}

/// TL10, D9: a liar votes, orders, complains and reports far ahead; nobody follows, and nothing is kept of it.
#[test]
fn views_that_a_liar_inflates_move_nobody() {
    const FAR: u64 = 1_000_000_000;
    for system in SYSTEMS {
        let mut stage = warm(system, 4, ONE_VIEW);
        let liar = NodeId(3);
        let lies = stage.corrupt(liar, |sent, pen| match sent.message {
            Message::Vote { kind, view, digest, .. } => {
                let beyond = (1..100).map(|ahead| View(view.0 + ahead * FAR)).chain([View(view.0 + 5)]);
                let votes = beyond.map(|far| {
                    let signature = pen.sign(Statement::vote(*kind, far, *digest));
                    Message::Vote { kind: *kind, view: far, digest: *digest, signature }
                });
                Fate::Say(votes.chain([sent.message.clone()]).collect())
            }
            Message::Order { view, digest, .. } => {
                let far = View(view.0 + FAR);
                let signature = pen.sign(Statement::Order { view: far, digest: *digest });
                Fate::Say(vec![
                    Message::Order { view: far, digest: *digest, signature },
                    sent.message.clone(),
                ])
            }
            Message::Complain { view, high, .. } => {
                let far = View(view.0 + FAR);
                let signature = pen.sign(Statement::Complain { view: far, high: high.view });
                Fate::Say(vec![Message::Complain { view: far, high: high.clone(), signature }])
            }
            Message::NewView { high, .. } => {
                Fate::Say(vec![Message::NewView { view: View(FAR), high: high.clone() }])
            }
            Message::Propose { header, .. } => {
                let header = synod_hotstuff::Header { view: View(header.view.0 + FAR), ..header.clone() };
                let signature = pen.sign(Statement::Proposal { view: header.view, digest: header.digest() });
                Fate::Say(vec![Message::Propose { header, signature }])
            }
            _ => Fate::Pass,
        });
        for _ in 0..10 {
            stage.ask(0);
            stage.ask(1);
            assert!(stage.answered(Span::secs(4)), "{system}: commands wait");
        }
        let highest = (0..3).filter_map(|id| stage.diary().entry(NodeId(id))).map(|entry| entry.view).max();
        assert!(highest < Some(1_000), "{system}: somebody is in view {highest:?}");
        assert!(lies.count() > 10, "{system}: {} lies", lies.count());
        let report = settles(stage);
        // A hundred votes with each of the liar's are three per mille of what a replica may hold.
        assert!(report.bytes_permille_max < 2, "{system}: {} per mille", report.bytes_permille_max);
    }
}

/// TL11, D2: through a dead leader and a restart no member's highest certificate ever falls.
#[test]
fn the_highest_certificate_only_rises() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, ONE_VIEW);
        let dead = leader(&stage);
        for round in 0..8 {
            match round {
                2 => stage.world().crash(dead, synod_sim::Loss::Nothing, Some(Span::millis(300))),
                5 => stage.world().crash(
                    NodeId((dead.0 + 1) % 4),
                    synod_sim::Loss::Nothing,
                    Some(Span::millis(50)),
                ),
                _ => {}
            }
            (0..2).for_each(|guest| stage.ask(guest));
            assert!(stage.answered(Span::secs(4)), "{system}: commands wait");
        }
        let mut high: BTreeMap<NodeId, Vec<u64>> = BTreeMap::new();
        for event in stage.diary().events() {
            if let What::Kept(Record::Safety(safety)) = &event.what {
                high.entry(event.node).or_default().push(safety.high.view.0);
            }
        }
        assert_eq!(high.len(), 4);
        for (node, views) in high {
            assert!(views.is_sorted(), "{system}: at {} it fell: {views:?}", node.0);
            let rises = views.windows(2).filter(|pair| pair[0] < pair[1]).count();
            assert!(rises > 5, "{system}: at {} it rose {rises} times only", node.0);
        }
        assert!(stage.diary().rules("M5_advance_by_tc") > 0, "{system}: no view was given up");
        let _report = settles(stage);
    }
}

/// The middle of how long views of others than `slow` took, from the arming of the timer to their certificate.
fn honest_median(stage: &Stage, slow: NodeId) -> u64 {
    let diary = stage.diary();
    let mut took = Vec::new();
    for id in (0..4).map(NodeId) {
        let mut armed: Option<(Time, u64)> = None;
        let mut leader = None;
        for event in diary.of(id) {
            match event.what {
                What::Armed(view, _) => armed = Some((event.at, view)),
                What::Entered(entry) => {
                    let timed = armed.filter(|(_, view)| view + 1 == entry.view && entry.why == Why::Qc);
                    if let Some((at, _)) = timed.filter(|_| leader != Some(slow)) {
                        took.push(event.at.since(at).0);
                    }
                    leader = entry.leader;
                }
                _ => {}
            }
        }
    }
    took.sort_unstable();
    took[took.len() / 2]
}

/// TL23, M7: one of four leads as slowly as the timeout allows, for ten terms from the first on, and then all idle for
/// an hour. No timeout of the others grows by it.
#[test]
fn neither_a_leader_at_the_limit_nor_an_idle_hour_stretches_a_timeout() {
    for system in ["hotstuff/chain2", "hotstuff/chain2+order"] {
        let slow = NodeId(0);
        let mut stage = synod_scenarios::stage(system, 4, &[("term_views", 2)]);
        let delayed = stage.direct(move |sent| match sent.message {
            Message::Propose { .. } if sent.from == slow => Fate::Delay(Span::millis(88)),
            _ => Fate::Pass,
        });
        stage.run(Span::millis(20));
        let mut led = 0;
        while led < 20 {
            (0..2).for_each(|guest| stage.ask(guest));
            assert!(stage.answered(Span::secs(2)), "{system}: commands wait");
            led = stage.diary().entries(NodeId(1)).filter(|(_, entry)| entry.leader == Some(slow)).count();
        }
        stage.run(Span::secs(3_600));
        (0..2).for_each(|guest| stage.ask(guest));
        assert!(stage.answered(Span::secs(2)), "{system}: commands wait after an hour");
        let most = BASE.0.max(8 * honest_median(&stage, slow));
        let diary = stage.diary();
        assert_eq!(diary.rules("M5_advance_by_tc"), 0, "{system}: the slow leader was given up");
        for id in (1..4).map(NodeId) {
            for (at, view, lasts) in diary.timers(id) {
                assert!(lasts.0 <= most, "{system}: {} waits {lasts} in view {view} at {at}", id.0);
            }
        }
        drop(diary);
        assert!(delayed.count() >= 3 * 20, "{system}: {} proposals were late", delayed.count());
        let _report = settles(stage);
    }
}
