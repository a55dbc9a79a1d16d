//! Blocks without bodies, bodies without blocks: a member that hears certificates of blocks it does not know (TL16), a
//! body whose owners die (TL17), a leader that lacks an ancestor's body (TL27).

use std::cell::Cell;
use std::rc::Rc;

use synod_hotstuff::Message;
use synod_machine::Span;
use synod_quorum::NodeId;
use synod_scenarios::{SYSTEMS, settles, warm};
use synod_trial::stage::{Fate, Stage, What, Why};

/// One-view terms, so that every view has another leader.
const ONE_VIEW: &[(&str, i64)] = &[("term_views", 1), ("reputation", 0)];

fn leader(stage: &Stage) -> NodeId {
    stage.leader().expect("an idle cluster knows its leader")
}

const fn of_four(first: NodeId, steps: u32) -> NodeId {
    NodeId((first.0 + steps) % 4)
}

/// TL16: for a second of load a member hears votes and certificates and no block. It asks for blocks at a bounded rate,
/// and votes within 100 views of hearing them again.
#[test]
fn certificates_of_unknown_blocks_cost_few_questions_and_the_member_votes_again() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, &[]);
        let deaf = of_four(leader(&stage), 2);
        let over = Rc::new(Cell::new(false));
        let is_over = over.clone();
        let hidden = stage.direct(move |sent| match sent.message {
            Message::Propose { .. } | Message::Body { .. } | Message::Blocks(_)
                if sent.to == deaf && !is_over.get() =>
            {
                Fate::Drop
            }
            _ => Fate::Pass,
        });
        let start = stage.now();
        while stage.now().since(start) < Span::secs(1) {
            (0..2).for_each(|guest| stage.ask(guest));
            stage.run(Span::millis(12));
        }
        let from = stage.now();
        let diary = stage.diary();
        let asked = diary
            .of(deaf)
            .filter(|event| event.at > start && matches!(event.what, What::Sent(_, Message::Fetch(_))));
        let asked = asked.count();
        assert!(diary.delivered(deaf) + 50 < stage.book().highest.0, "{system}: it was not left behind");
        assert!(asked > 0 && asked < 200, "{system}: {asked} questions in a second");
        drop(diary);
        over.set(true);
        let view = stage.view();
        let mut voted = None;
        while voted.is_none() && stage.now().since(from) < Span::secs(4) {
            (0..2).for_each(|guest| stage.ask(guest));
            stage.until(Span::millis(12), |event| {
                if let What::Sent(_, Message::Vote { view, .. }) = &event.what
                    && event.node == deaf
                {
                    voted = voted.or(Some(view.0));
                }
                voted.is_some()
            });
        }
        let passed = voted.map(|voted| voted.saturating_sub(view));
        assert!(passed.is_some_and(|passed| passed <= 100), "{system}: {passed:?} views");
        assert!(hidden.count() > 50, "{system}: {} were hidden", hidden.count());
        let report = settles(stage);
        if system != "hotstuff/basic" {
            assert!(report.applied.contains(&"R4_qc_for_unknown"), "{system}: it knew the blocks");
        }
    }
}

/// TL16, D6: a member gave its term up and may vote no more in it. It hears nothing but the leader's blocks, and learns
/// from their certificates what is committed.
#[test]
fn a_member_that_may_not_vote_still_learns_from_proposals() {
    for system in ["hotstuff/chain2", "hotstuff/chain2+order"] {
        let mut stage = warm(system, 4, &[("send_all", 1), ("term_views", 128)]);
        let deaf = of_four(leader(&stage), 2);
        let hears = Rc::new(Cell::new(false));
        let blocks = hears.clone();
        let hidden = stage.direct(move |sent| match sent.message {
            Message::Propose { .. } | Message::Body { .. } if sent.to == deaf && blocks.get() => Fate::Pass,
            _ if sent.to == deaf => Fate::Drop,
            _ => Fate::Pass,
        });
        while stage.diary().rules("M2_complain") == 0 {
            stage.ask(0);
            stage.run(Span::millis(15));
            assert!(stage.now() < synod_machine::Time(Span::secs(2).0), "{system}: it never gives up");
        }
        let (at, left) = (stage.now(), stage.diary().delivered(deaf));
        hears.set(true);
        // What it missed is fetched once; then it hears blocks only.
        for _ in 0..40 {
            stage.ask(0);
            stage.run(Span::millis(15));
        }
        let diary = stage.diary();
        let views = diary.entries(deaf).filter(|(t, entry)| *t > at && entry.why == Why::Qc).count();
        assert!(views > 20, "{system}: it entered {views} views by the certificates of proposals");
        let votes =
            diary.of(deaf).filter(|e| e.at > at && matches!(e.what, What::Sent(_, Message::Vote { .. })));
        assert_eq!(votes.count(), 0, "{system}: it votes in a term that it gave up");
        assert!(hidden.count() > 100 && left + 40 < stage.book().highest.0);
        drop(diary);
        let _report = settles(stage);
    }
}

/// TL17: a body reaches a quorum of seven, its leader and another owner die, and the two that lack it pull it from those
/// who voted.
#[test]
fn a_body_whose_leader_died_is_pulled_from_its_voters() {
    for system in SYSTEMS {
        let mut stage = warm(system, 7, &[("reputation", 0)]);
        let first = leader(&stage);
        let of = |steps: u32| NodeId((first.0 + steps) % 7);
        let lacking = [of(3), of(4)];
        let hidden = stage.direct(move |sent| match sent.message {
            Message::Body { .. } if sent.from == first && lacking.contains(&sent.to) => Fate::Drop,
            // Nobody may help them before the owners are dead.
            Message::Blocks(_) if sent.from == first => Fate::Drop,
            _ => Fate::Pass,
        });
        let before = stage.book().highest.0;
        (0..2).for_each(|guest| stage.ask(guest));
        let mut voters = synod_quorum::NodeSet::EMPTY;
        let voted = stage.until(Span::millis(90), |event| {
            if matches!(event.what, What::Sent(_, Message::Vote { .. })) {
                voters = voters.with(event.node);
            }
            voters.count() >= 4
        });
        assert!(voted, "{system}: nothing was voted for");
        stage.run(Span::millis(3));
        stage.kill(first);
        stage.kill(of(6));
        let mut done = synod_quorum::NodeSet::EMPTY;
        let both = stage.until(Span::secs(4), |event| {
            if matches!(event.what, What::Delivered(p) if p > before) && lacking.contains(&event.node) {
                done = done.with(event.node);
            }
            done.count() == 2
        });
        assert!(both, "{system}: {} of the two that lacked the body have it", done.count());
        assert!(hidden.count() >= 2, "{system}: they had the body");
        let report = settles(stage);
        assert!(report.applied.contains(&"S_pull"), "{system}: nobody pulled");
    }
}

/// TL27: the next leader knows the certified block and lacks its body. It builds an empty block on it.
#[test]
fn a_leader_that_lacks_an_ancestors_body_builds_an_empty_block() {
    let system = "hotstuff/chain3";
    let mut stage = warm(system, 4, ONE_VIEW);
    let first = leader(&stage);
    let next = of_four(first, 1);
    let view = stage.view();
    let hidden = stage.direct(move |sent| match sent.message {
        Message::Body { .. } if sent.from == first && sent.to == next => Fate::Drop,
        Message::Blocks(_) if sent.to == next => Fate::Drop,
        _ => Fate::Pass,
    });
    (0..2).for_each(|guest| stage.ask(guest));
    let built = stage.until(Span::millis(90), |event| {
        let What::Sent(_, Message::Propose { header, .. }) = &event.what else { return false };
        event.node == next && header.view.0 == view + 1 && header.justify.view.0 == view && header.count == 0
    });
    assert!(built, "it waits for the body");
    assert!(hidden.count() > 0, "it had the body");
    assert!(stage.answered(Span::secs(3)), "the chain does not go on");
    let _report = settles(stage);
}
