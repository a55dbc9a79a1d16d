//! What one member, or everybody, never hears once must stop nobody: proofs of view changes (TL3), votes (TL4), half of
//! the certificates (TL7), new-views and advances (TL21), items (TL24), orders (TL25). Nothing is healed before the
//! commit that is asked for.

use std::collections::BTreeSet;

use synod_hotstuff::{Message, Proof};
use synod_machine::Span;
use synod_quorum::NodeId;
use synod_scenarios::{SYSTEMS, settles, warm};
use synod_trial::stage::{Fate, Stage, What, Why};

/// One-view terms, so that every view has another leader.
const ONE_VIEW: &[(&str, i64)] = &[("term_views", 1), ("reputation", 0)];

fn leader(stage: &Stage) -> NodeId {
    stage.leader().expect("an idle cluster knows its leader")
}

/// The member `steps` behind `id` among four.
const fn behind(id: NodeId, steps: u32) -> NodeId {
    NodeId((id.0 + steps) % 4)
}

/// TL3, D15, D17: a member hears no complaint and no certificate of complaints; the proposal of the next leader carries
/// one.
#[test]
fn a_member_that_missed_a_view_change_enters_by_the_proposal_that_carries_it() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, ONE_VIEW);
        let dead = leader(&stage);
        let victim = behind(dead, 2);
        let hidden = stage.direct(move |sent| match sent.message {
            Message::Complain { .. } | Message::Advance(_) | Message::Status(_) if sent.to == victim => {
                Fate::Drop
            }
            _ => Fate::Pass,
        });
        let at = stage.now();
        stage.kill(dead);
        stage.ask(0);
        stage.ask(1);
        let by_tc = |what: &What| matches!(what, What::Entered(entry) if entry.why == Why::Tc);
        let entered = stage.until(Span::secs(1), |event| event.node == victim && by_tc(&event.what));
        assert!(entered, "{system}: {} never left its view", victim.0);
        assert!(stage.answered(Span::secs(3)), "{system}: commands wait");
        assert_eq!(stage.diary().rule_at(victim, "M4_form_tc", at), None, "{system}: it made its own");
        assert!(hidden.count() > 1, "{system}: nothing was hidden");
        let _report = settles(stage);
    }
}

/// TL4, D4: the next leader hears no vote of a view that all others certify.
#[test]
fn a_next_leader_that_heard_no_votes_is_told_and_commits_go_on() {
    for system in &SYSTEMS[1..] {
        let mut stage = warm(system, 4, ONE_VIEW);
        let view = stage.view();
        let next = behind(leader(&stage), 1);
        let hidden = stage.direct(move |sent| match sent.message {
            Message::Vote { view: of, .. } if of.0 == view && sent.to == next => Fate::Drop,
            _ => Fate::Pass,
        });
        stage.ask(0);
        let moved = stage.until(
            Span::millis(90),
            |event| matches!(event.what, What::Entered(entry) if entry.view > view && event.node != next),
        );
        assert!(moved, "{system}: the others did not move on");
        let own = stage.diary().entry(next).map(|entry| entry.view);
        assert_eq!(own, Some(view), "{system}: the next leader was not left behind");
        assert!(stage.answered(Span::secs(2)), "{system}: the command waits");
        assert!(hidden.count() >= 2, "{system}: votes were heard");
        let _report = settles(stage);
    }
}

/// TL4, D4: votes for the last view of a term come when the next leader has left that view by complaints. It still
/// counts them.
#[test]
fn a_collector_counts_votes_of_the_view_before_its_own() {
    let system = "hotstuff/chain2+order";
    let mut stage = warm(system, 4, &[("votes_leader", 1), ("term_views", 4), ("reputation", 0)]);
    for _ in 0..8 {
        if stage.view() % 4 == 3 {
            break;
        }
        stage.ask(0);
        assert!(stage.answered(Span::secs(2)), "a command waits");
        stage.run(Span::millis(40));
    }
    assert_eq!(stage.view() % 4, 3, "the last view of a term");
    let (end, next) = (stage.view(), behind(leader(&stage), 1));
    let late = stage.direct(move |sent| match sent.message {
        Message::Vote { view, .. } if view.0 == end => Fate::Delay(Span::millis(103)),
        // Nobody else counts them.
        Message::Vote { .. } if sent.to != next => Fate::Drop,
        _ => Fate::Pass,
    });
    let at = stage.now();
    stage.ask(0);
    stage.ask(1);
    assert!(stage.answered(Span::secs(3)), "commands wait");
    let diary = stage.diary();
    let entered = diary.entries(next).find(|(_, entry)| entry.view == end + 1);
    let (entered, entry) = entered.expect("it entered the next view");
    assert_eq!(entry.why, Why::Tc, "it had the certificate in time");
    let formed = diary.rule_at(next, "R6_form_qc", at).expect("it counted the late votes");
    let left = diary.entries(next).find(|(_, entry)| entry.view > end + 1).map(|(left, _)| left);
    assert!(formed >= entered && left.is_none_or(|left| formed < left), "it counted in another view");
    drop(diary);
    assert!(late.count() > 3);
    let _report = settles(stage);
}

/// TL7: in several views two members certify the block, and the two others, who saw all four give it up, do not.
#[test]
fn views_that_half_the_members_certify_and_half_give_up_go_on_to_a_commit() {
    for system in &SYSTEMS[1..] {
        let mut stage = warm(system, 4, ONE_VIEW);
        let first = stage.view();
        let split = first..first + 4;
        let late = stage.direct(move |sent| match sent.message {
            Message::Vote { view, .. } if split.contains(&view.0) && sent.to.0 < 2 => {
                Fate::Delay(Span::millis(98))
            }
            Message::Vote { view, .. } if split.contains(&view.0) => Fate::Drop,
            Message::Complain { view, .. } | Message::Advance(Proof::Tc(synod_hotstuff::Tc { view, .. }))
                if split.contains(&view.0) && sent.to.0 < 2 =>
            {
                Fate::Drop
            }
            _ => Fate::Pass,
        });
        stage.ask(0);
        stage.ask(1);
        assert!(stage.answered(Span::secs(4)), "{system}: commands wait");
        let diary = stage.diary();
        let entries = |why: Why| -> BTreeSet<u64> {
            (0..4)
                .flat_map(|id| diary.entries(NodeId(id)))
                .filter(|(_, e)| e.why == why)
                .map(|(_, e)| e.view)
                .collect()
        };
        let both = entries(Why::Qc).intersection(&entries(Why::Tc)).count();
        assert!(both > 1, "{system}: {both} views were entered in both ways");
        drop(diary);
        assert!(late.count() > 0);
        let _report = settles(stage);
    }
}

/// TL21: the first `NewView` and the first `Advance` between any two members about any view is lost.
#[test]
fn every_new_view_and_every_advance_may_be_lost_once() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, ONE_VIEW);
        let mut lost = BTreeSet::new();
        let once = stage.direct(move |sent| {
            let of = match sent.message {
                Message::NewView { view, .. } => (0, view.0),
                Message::Advance(Proof::Tc(tc)) => (1, tc.view.0),
                Message::Advance(Proof::Qc(qc)) => (2, qc.view.0),
                Message::Advance(Proof::Commit(proof)) => (3, proof.header.view.0),
                _ => return Fate::Pass,
            };
            if lost.insert((sent.from, sent.to, of)) { Fate::Drop } else { Fate::Pass }
        });
        stage.kill(leader(&stage));
        for _ in 0..6 {
            stage.ask(0);
            stage.ask(1);
            assert!(stage.answered(Span::secs(4)), "{system}: commands wait");
        }
        assert!(once.count() > 2, "{system}: {} were lost", once.count());
        let _report = settles(stage);
    }
}

/// TL24: an item reaches one member only, and the leader ignores what that member forwards.
#[test]
fn an_item_that_one_member_holds_and_its_leader_ignores_becomes_the_work_of_all() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, &[("reputation", 0)]);
        let leader = leader(&stage);
        let guest = u32::from(leader.0 == 0);
        let holder = NodeId(guest);
        for id in (0..4).map(NodeId).filter(|id| *id != holder) {
            stage.world().block(NodeId(128 + guest), id);
        }
        let ignored = stage.direct(move |sent| match sent.message {
            Message::Forward(_) if sent.to == leader => Fate::Drop,
            _ => Fate::Pass,
        });
        let at = stage.now();
        let before = stage.book().highest.0;
        stage.ask(guest);
        let done = stage.until(
            Span::millis(600),
            |event| matches!(event.what, What::Delivered(position) if position > before),
        );
        assert!(done, "{system}: the item waits for ever");
        let diary = stage.diary();
        assert!(diary.rule_at(holder, "M2_forward_to_all", at).is_some(), "{system}: not forwarded to all");
        assert!(ignored.count() > 0, "{system}: the leader was not asked");
        drop(diary);
        let _report = settles(stage);
    }
}

/// TL25, R9: one member hears no order, and then nobody has anything to say.
#[test]
fn a_member_that_alone_missed_the_orders_commits_within_two_timeouts() {
    let mut stage = warm("hotstuff/chain2+order", 4, &[]);
    let victim = behind(leader(&stage), 1);
    let hidden = stage.direct(move |sent| match sent.message {
        Message::Order { .. } if sent.to == victim => Fate::Drop,
        _ => Fate::Pass,
    });
    let before = stage.book().highest.0;
    stage.ask(0);
    let delivered = |what: &What| matches!(what, What::Delivered(position) if *position > before);
    assert!(stage.until(Span::millis(90), |event| delivered(&event.what)), "nobody commits");
    let first = stage.now();
    assert_eq!(stage.diary().delivered(victim), before, "the orders were not hidden");
    let timeouts = Span::millis(2 * 100 + 20);
    assert!(stage.until(timeouts, |event| event.node == victim && delivered(&event.what)), "it waits");
    assert!(stage.diary().rule_at(victim, "R7_deliver", first).is_some());
    assert!(hidden.count() >= 3);
    let _report = settles(stage);
}

/// D6: a member that no proposal reaches hears of certificates all the same, by votes, by Status and by Advance. So it hides from
/// every run whether it would use those in proposals that it may not vote for (planted bug H22); the test of D6 sees it.
#[test]
fn a_member_that_no_proposal_reaches_follows_the_views_of_the_others() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, ONE_VIEW);
        let victim = behind(leader(&stage), 2);
        let before = stage.view();
        let hidden = stage.direct(move |sent| match sent.message {
            Message::Propose { .. } if sent.to == victim => Fate::Drop,
            _ => Fate::Pass,
        });
        for round in 0..8 {
            stage.ask(round % 2);
            stage.run(Span::millis(300));
        }
        let (own, all) = (stage.diary().entry(victim).map_or(0, |entry| entry.view), stage.view());
        assert!(hidden.count() > 4 && all > before + 4, "{system}: {all} after {before}");
        assert!(own + 4 >= all, "{system}: it is in view {own} of {all}");
        let _report = settles(stage);
    }
}
