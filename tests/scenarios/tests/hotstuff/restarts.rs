//! What is left after crashes: the view and the last vote (TL13), half a cluster (TL18), a block that was certified and
//! not yet committed, or committed and not yet delivered (TL22).

use std::cell::Cell;
use std::rc::Rc;

use synod_hotstuff::{Message, Record};
use synod_machine::Span;
use synod_quorum::NodeId;
use synod_scenarios::{SYSTEMS, settles, stage, warm};
use synod_sim::Loss;
use synod_trial::stage::{Event, Fate, Stage, What, Why};

/// One-view terms, so that every view has another leader.
const ONE_VIEW: &[(&str, i64)] = &[("term_views", 1), ("reputation", 0)];

fn leader(stage: &Stage) -> NodeId {
    stage.leader().expect("an idle cluster knows its leader")
}

/// The vote in an event.
fn vote(event: &Event) -> Option<(u64, synod_crypto::Hash)> {
    match &event.what {
        What::Sent(_, Message::Vote { view, digest, .. }) => Some((view.0, *digest)),
        _ => None,
    }
}

/// TL13: a member dies behind its vote, and no vote of the view was heard. Its next life begins in the view behind its
/// highest certificate and says the very same again.
#[test]
fn a_vote_that_was_lost_with_its_voter_is_said_again_and_no_other() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, ONE_VIEW);
        let voter = NodeId((leader(&stage).0 + 1) % 4);
        let over = Rc::new(Cell::new(false));
        let is_over = over.clone();
        let lost = stage.direct(move |sent| match sent.message {
            Message::Vote { .. } if !is_over.get() => Fate::Drop,
            _ => Fate::Pass,
        });
        let view = stage.view();
        stage.ask(0);
        let promised = stage.until(Span::millis(90), |event| {
            let What::Kept(Record::Safety(safety)) = &event.what else { return false };
            event.node == voter && safety.voted.view.0 == view
        });
        assert!(promised, "{system}: it did not vote");
        // The promise is written and the vote lost.
        stage.run(Span::millis(10));
        stage.world().crash(voter, Loss::Nothing, Some(Span::millis(5)));
        stage.run(Span::millis(4));
        over.set(true);
        let again = stage.until(Span::millis(60), |event| event.node == voter && vote(event).is_some());
        assert!(again, "{system}: it does not say it again");
        let diary = stage.diary();
        let promised = diary.of(voter).filter_map(|event| match &event.what {
            What::Kept(Record::Safety(safety)) if safety.voted.view.0 == view => Some(safety.voted.digest),
            _ => None,
        });
        let promised: std::collections::BTreeSet<_> = promised.collect();
        let said = diary.of(voter).filter(|event| event.life == 2).find_map(vote);
        assert_eq!(promised.len(), 1);
        assert_eq!(said, promised.first().map(|digest| (view, *digest)), "{system}: another vote");
        let begun = diary.entries(voter).filter(|(_, entry)| entry.why == Why::Start).last();
        assert_eq!(begun.map(|(_, entry)| entry.view), Some(view), "{system}: another view");
        drop(diary);
        assert!(stage.answered(Span::secs(3)) && lost.count() >= 2, "{system}: {} lost", lost.count());
        let _report = settles(stage);
    }
}

/// TL18: two of four die under load at once and come back; the load is answered without healing.
#[test]
fn two_of_four_restart_at_once_and_the_load_is_answered() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, &[]);
        let first = leader(&stage);
        for round in 0..20 {
            (0..2).for_each(|guest| stage.ask(guest));
            stage.run(Span::millis(15));
            if round == 6 {
                for id in [first, NodeId((first.0 + 1) % 4)] {
                    stage.world().crash(id, Loss::Drawn, Some(Span::millis(80)));
                }
                let before = stage.book().highest.0;
                stage.run(Span::millis(60));
                let after = stage.book().highest.0;
                assert!(after <= before + 4, "{system}: two of four commit {before} to {after}");
            }
        }
        assert!(stage.answered(Span::secs(6)), "{system}: {} commands wait", stage.book().open());
        let report = settles(stage);
        assert!(report.delivered > 40, "{system} delivered {}", report.delivered);
    }
}

/// Runs until a quorum has certified the block of a command, kills everybody, starts all again, and demands that the
/// very block is committed.
fn survives(system: &str, kind: &str, hide: fn(&Message) -> bool) {
    let mut stage = warm(system, 4, &[]);
    let hidden = stage.direct(move |sent| if hide(sent.message) { Fate::Drop } else { Fate::Pass });
    let (view, before) = (stage.view(), stage.book().highest.0);
    stage.ask(0);
    let mut holders = synod_quorum::NodeSet::EMPTY;
    let certified = stage.until(Span::millis(80), |event| {
        if matches!(&event.what, What::Kept(Record::Qc(qc)) if qc.view.0 >= view) {
            holders = holders.with(event.node);
        }
        holders.count() >= 3
    });
    assert!(certified, "{system}, {kind}: nothing was certified");
    stage.run(Span::millis(8));
    let digest = stage.diary().events().iter().rev().find_map(|event| match &event.what {
        What::Kept(Record::Qc(qc)) => Some(qc.digest),
        _ => None,
    });
    assert_eq!(stage.book().highest.0, before, "{system}, {kind}: it was committed already");
    for id in (0..4).map(NodeId) {
        stage.world().crash(id, Loss::Durable, Some(Span::millis(20)));
    }
    assert!(hidden.count() > 0, "{system}, {kind}: nothing was hidden");
    let at = stage.now();
    let report = {
        stage.run(Span::millis(25));
        let restarted =
            stage.diary().events().iter().filter(|e| e.at > at && matches!(e.what, What::Started)).count();
        assert_eq!(restarted, 4, "{system}, {kind}: all start again");
        settles(stage)
    };
    assert!(report.delivered > before, "{system}, {kind}: the command was lost");
    assert!(digest.is_some());
}

/// TL22: all die when a block is certified and no order, or nothing that commits it, was heard.
#[test]
fn a_certified_block_survives_the_death_of_all() {
    survives("hotstuff/chain2+order", "no order", |message| matches!(message, Message::Order { .. }));
    // No child of the block can commit it: nobody hears another proposal.
    for system in ["hotstuff/chain2", "hotstuff/chain3"] {
        survives(
            system,
            "no child",
            |message| matches!(message, Message::Propose { header, .. } if header.count == 0),
        );
    }
}

/// TL22, second half: all die between the orders and the delivery; every member delivers in its next life.
#[test]
fn an_ordered_block_is_delivered_after_the_death_of_all() {
    let mut stage = stage("hotstuff/chain2+order", 4, &[]);
    stage.run(Span::millis(20));
    (0..2).for_each(|guest| stage.ask(guest));
    assert!(stage.answered(Span::secs(1)));
    let before = stage.book().highest.0;
    let order = |event: &Event| match &event.what {
        What::Kept(Record::Safety(safety)) => Some(safety.ordered.view),
        _ => None,
    };
    let last = stage.diary().events().iter().filter_map(order).max().expect("blocks were ordered");
    // What is ordered is delivered at once: all die while the orders are on their way.
    let late = stage.direct(|sent| match sent.message {
        Message::Order { .. } => Fate::Delay(Span::millis(30)),
        _ => Fate::Pass,
    });
    stage.ask(0);
    let mut ordered = synod_quorum::NodeSet::EMPTY;
    let quorum = stage.until(Span::millis(80), |event| {
        if matches!(&event.what, What::Kept(Record::Safety(safety)) if safety.ordered.view > last) {
            ordered = ordered.with(event.node);
        }
        ordered.count() >= 3
    });
    stage.run(Span::millis(8));
    assert!(quorum, "nobody ordered");
    assert_eq!(stage.book().highest.0, before, "it was delivered already");
    for id in (0..4).map(NodeId) {
        stage.world().crash(id, Loss::Drawn, Some(Span::millis(20)));
    }
    assert!(late.count() >= 3 * 3, "only {} orders were on their way", late.count());
    let mut delivered = synod_quorum::NodeSet::EMPTY;
    let all = stage.until(Span::secs(1), |event| {
        if matches!(event.what, What::Delivered(position) if position > before) {
            delivered = delivered.with(event.node);
        }
        delivered.count() == 4
    });
    assert!(all, "only {} delivered it", delivered.count());
    let _report = settles(stage);
}

/// TD3: a member that restarts under load has read its log back before it hears anybody, and what it says then goes on
/// from what it said before.
#[test]
fn nothing_is_heard_before_the_log_was_read_back() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, ONE_VIEW);
        let member = NodeId(2);
        for round in 0..30 {
            (0..2).for_each(|guest| stage.ask(guest));
            stage.run(Span::millis(10));
            if round % 8 == 4 {
                stage.world().crash(member, Loss::Drawn, Some(Span::millis(12)));
            }
        }
        assert!(stage.answered(Span::secs(6)), "{system}: commands wait");
        let diary = stage.diary();
        let (mut life, mut said, mut lives) = (1, 0, 0);
        for event in diary.of(member) {
            if event.life > life {
                assert!(matches!(event.what, What::Started), "{system}: {:?} came first", event.what);
                life = event.life;
                lives += 1;
            }
            if let Some((view, _)) = vote(event) {
                assert!(view >= said, "{system}: it voted in {said}, then in {view}");
                said = view;
            }
        }
        assert_eq!(lives, 4, "{system}: it restarted {lives} times");
        drop(diary);
        let _report = settles(stage);
    }
}
