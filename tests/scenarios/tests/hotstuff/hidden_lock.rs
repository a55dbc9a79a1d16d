//! TL6: a certificate that one member alone holds locks it against what the others propose. Two liars who never vote but
//! for that member, and a slow link from it to the others, renew the hidden lock in every view. Production packs
//! commit all the same; `naive2`, whose leaders neither wait nor show what the given-up view knew, never does.

use synod_hotstuff::Message;
use synod_machine::Span;
use synod_quorum::NodeId;
use synod_scenarios::{SYSTEMS, passes, quiet, settles, suffering, warm};
use synod_sim::{Family, Scenario};
use synod_trial::stage::{Fate, Sent, Stage};

/// Members, and views of one rotation of leaders.
const MEMBERS: u64 = 7;
/// Who holds the certificates that nobody else has. It leads the views that are multiples of seven.
const HOLDER: NodeId = NodeId(0);
/// The liars lead the two views behind the holder's.
const LIARS: [NodeId; 2] = [NodeId(1), NodeId(2)];
/// How long everything takes that the holder says.
const SLOW: Span = Span::millis(60);

/// Member 1 shows what moves the chain to one, f, or just too few others, for ever.
fn shaving(system: &str, seed: u64, amount: i64) -> Scenario {
    let mut scenario = suffering(quiet(system, 4), Family::ByzShave, &[1], (Span::ZERO, Span::ZERO), amount);
    scenario.seed = seed;
    scenario
}

/// What a liar says: the first never proposes, the second to three members and the first only. They vote in the views from the
/// second liar's to the last but one before the holder's, and let the holder alone know.
fn lie(sent: &Sent<'_>) -> Fate {
    let shown = match sent.message {
        Message::Propose { .. } | Message::Body { .. } => {
            sent.from == LIARS[1] && [0, 1, 3, 4].contains(&sent.to.0)
        }
        Message::Vote { view, .. } | Message::Order { view, .. } => {
            sent.to == HOLDER && (2..6).contains(&(view.0 % MEMBERS))
        }
        Message::NewView { .. } | Message::Complain { .. } => true,
        _ => false,
    };
    if shown { Fate::Pass } else { Fate::Drop }
}

/// A liar that leaves votes unread is one that never gets them. What the holder says to somebody comes late, but within a
/// known time; the statuses that it repeats for whoever lags are lost, for a lock must not depend on those.
fn network(sent: &Sent<'_>) -> Fate {
    match sent.message {
        Message::Vote { .. } | Message::Order { .. } if LIARS.contains(&sent.to) => Fate::Drop,
        Message::Status(_) if sent.from == HOLDER => Fate::Drop,
        _ if sent.from == HOLDER => Fate::Delay(SLOW),
        _ => Fate::Pass,
    }
}

/// A cluster of seven, one view per term, in which the lock is renewed from now on.
fn renewing(system: &str) -> Stage {
    // All timers run equally long, so that those of one view expire together.
    let numbers = [("term_views", 1), ("reputation", 0), ("timeout_base_ms", 400), ("timeout_max_ms", 400)];
    let mut stage = warm(system, 7, &numbers);
    for liar in LIARS {
        stage.corrupt(liar, |sent, _| lie(sent));
    }
    stage.direct(network);
    stage
}

/// Runs until somebody is in this view; some command is always unanswered.
fn reach(stage: &mut Stage, view: u64) {
    let deadline = stage.now() + Span::secs(600);
    while stage.view() < view && stage.now() < deadline {
        if stage.book().open() == 0 {
            stage.ask(0);
        }
        stage.run(Span::millis(5));
    }
    assert!(stage.view() >= view, "view {} of {view}", stage.view());
}

#[test]
fn hidden_certificates_stop_no_production_pack() {
    for system in SYSTEMS {
        for amount in [0, 6, 12] {
            let _report = passes(&shaving(system, 7, amount));
        }
    }
}

#[test]
fn a_lock_that_is_hidden_again_in_every_view_stops_no_production_pack() {
    for system in SYSTEMS {
        let mut stage = renewing(system);
        for _ in 0..6 {
            let before = stage.view();
            stage.ask(0);
            assert!(stage.answered(Span::secs(60)), "{system}: no answer in view {}", stage.view());
            let took = stage.view() - before;
            assert!(took <= 2 * MEMBERS, "{system}: {took} views");
        }
        let _report = settles(stage);
    }
}

#[test]
fn a_lock_that_is_hidden_again_in_every_view_stops_naive2_for_ever() {
    let mut stage = renewing("hotstuff/naive2");
    stage.ask(0);
    let begin = stage.view() + 2 * MEMBERS;
    reach(&mut stage, begin);
    let (before, from) = (stage.book().highest.0, stage.now());
    reach(&mut stage, begin + 10 * MEMBERS);
    assert_eq!(stage.book().highest.0, before, "nothing commits");
    let formed = |id: u32| {
        let diary = stage.diary();
        diary.of(NodeId(id)).filter(|event| event.at > from && event.what_is("R6_form_qc")).count()
    };
    for other in 3..7 {
        assert!(
            formed(other) > 0 && formed(0) > 4 * formed(other),
            "most certificates are the holder's alone"
        );
    }
}
