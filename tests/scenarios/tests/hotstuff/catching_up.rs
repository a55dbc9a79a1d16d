//! Members that lie to those who catch up (TC2, TC4), and a checkpoint that is stable elsewhere first (TC8).

use std::cell::Cell;
use std::rc::Rc;

use synod_crypto::Hash;
use synod_hotstuff::{Blocks, Message, Proof, Qc, Status, View, Want};
use synod_machine::Span;
use synod_quorum::NodeId;
use synod_scenarios::{SYSTEMS, settles, stage, warm};
use synod_sim::Loss;
use synod_trial::stage::{Event, Fate, Stage, What};

const LIAR: NodeId = NodeId(1);
const AWAY: NodeId = NodeId(3);

/// Questions of the honest to the liar since then.
fn questions(stage: &Stage, from: synod_machine::Time) -> usize {
    let asks = |event: &&Event| {
        let What::Sent(to, Message::Fetch(_)) = &event.what else { return false };
        event.at > from && event.node != LIAR && to.contains(LIAR)
    };
    stage.diary().events().iter().filter(asks).count()
}

/// TC2: a member says that it is a million blocks ahead, in every status. Others ask it now and then and go on.
#[test]
fn a_lying_status_costs_a_few_questions_and_nothing_else() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, &[("reputation", 0)]);
        let lies = stage.corrupt(LIAR, |sent, _| match sent.message {
            Message::Status(status) => {
                let (height, view) = (status.height + 1_000_000, View(status.view.0 + 1_000_000));
                Fate::Say(vec![Message::Status(Status { height, view, ..status.clone() })])
            }
            // It has nothing to show.
            Message::Blocks(_) => Fate::Drop,
            _ => Fate::Pass,
        });
        let start = stage.now();
        stage.run(Span::secs(10));
        assert!(lies.count() >= 9, "{system}: {} lies", lies.count());
        let asked = questions(&stage, start);
        assert!(asked > 0 && asked < 300, "{system}: {asked} questions in ten seconds");
        let before = stage.view();
        for _ in 0..5 {
            (0..2).for_each(|guest| stage.ask(guest));
            assert!(stage.answered(Span::millis(400)), "{system}: commands wait");
        }
        assert!(stage.view() < before + 100, "{system}: somebody believes in view {}", stage.view());
        let _report = settles(stage);
    }
}

/// What a liar makes of its first honest answer and of the present one.
type Twist = fn(&Blocks, &Blocks) -> Option<Blocks>;

fn cut(blocks: &Blocks, keep: impl Fn(usize) -> bool) -> Blocks {
    let headers: Vec<_> =
        (0..).zip(blocks.headers.iter()).filter(|(at, _)| keep(*at)).map(|(_, h)| h.clone()).collect();
    Blocks { headers: headers.try_into().unwrap_or_default(), ..blocks.clone() }
}

/// A member returns from far behind and hears of nobody but the liar until that has lied to it.
fn bears(how: &str, twist: Twist) {
    for system in &SYSTEMS[2..] {
        let numbers = &[("reputation", 0), ("retain_blocks", 10_000), ("checkpoint_every", 1_000_000)];
        let mut stage = warm(system, 4, numbers);
        stage.world().crash(AWAY, Loss::Nothing, None);
        let first: Rc<Cell<Option<Blocks>>> = Rc::default();
        let lied = Rc::new(Cell::new(0_u32));
        let of_lies = lied.clone();
        stage.corrupt(LIAR, move |sent, _| match sent.message {
            Message::Blocks(blocks) if sent.to == AWAY => {
                let oldest = first.take().unwrap_or_else(|| blocks.clone());
                let twisted = twist(&oldest, blocks);
                first.set(Some(oldest));
                of_lies.set(of_lies.get() + 1);
                twisted.map_or(Fate::Drop, |twisted| Fate::Say(vec![Message::Blocks(twisted)]))
            }
            _ => Fate::Pass,
        });
        let of_lies = lied.clone();
        stage.direct(move |sent| match sent.message {
            // The honest are not heard of before.
            Message::Status(_) | Message::Blocks(_) if of_lies.get() == 0 && sent.to == AWAY => Fate::Drop,
            _ => Fate::Pass,
        });
        for _ in 0..40 {
            (0..2).for_each(|guest| stage.ask(guest));
            assert!(stage.answered(Span::secs(4)), "{system}, {how}: commands wait");
        }
        let wanted = stage.book().highest.0;
        assert!(stage.diary().delivered(AWAY) + 30 < wanted, "{system}, {how}: it is not behind");
        stage.world().restart(AWAY);
        let level = stage.until(Span::secs(12), |event| {
            event.node == AWAY && matches!(event.what, What::Delivered(position) if position >= wanted)
        });
        assert!(lied.get() > 0, "{system}, {how}: the liar was not asked");
        assert!(level, "{system}, {how}: at {} of {wanted}", stage.diary().delivered(AWAY));
        let _report = settles(stage);
    }
}

/// TC4: the first blocks of the range are not there.
#[test]
fn a_range_that_begins_elsewhere_holds_nobody_up() {
    bears("another range", |_, blocks| Some(cut(blocks, |at| at > 3)));
}

/// TC4: a block in the middle is not there.
#[test]
fn a_range_with_a_gap_holds_nobody_up() {
    bears("a gap", |_, blocks| Some(cut(blocks, |at| at != 5)));
}

/// TC4: one block at a time, and no proof.
#[test]
fn a_short_range_holds_nobody_up() {
    bears("short", |_, blocks| Some(Blocks { proof: None, ..cut(blocks, |at| at == 0) }));
}

/// TC4: the same old answer to every question.
#[test]
fn a_stale_range_holds_nobody_up() {
    bears("stale", |first, _| Some(first.clone()));
}

/// TC4: no answer.
#[test]
fn a_withheld_range_holds_nobody_up() {
    bears("withheld", |_, _| None);
}

/// TC4: headers without a body.
#[test]
fn a_range_without_bodies_holds_nobody_up() {
    bears("no bodies", |_, blocks| Some(Blocks { bodies: synod_wire::List::default(), ..blocks.clone() }));
}

/// TC4: a liar shows a certificate far ahead that proves nothing, and asks for the highest one, again and again. Few are
/// checked, none is believed, and commands are answered as ever.
#[test]
fn a_high_certificate_shown_and_asked_for_again_and_again_moves_nobody() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, &[("reputation", 0)]);
        let lies = stage.corrupt(LIAR, |sent, _| match sent.message {
            Message::Vote { view, .. } | Message::Order { view, .. } => {
                let asked = Message::Fetch(Want::Certificate(View(view.0.saturating_sub(1))));
                Fate::Say([sent.message.clone()].into_iter().chain(vec![asked; 50]).collect())
            }
            Message::Status(status) => {
                let (view, digest) = (View(status.high.view.0 + 1_000_000_000), Hash::of(b"no block"));
                let high = Qc { view, digest, ..status.high.clone() };
                let shown = Message::Advance(Proof::Qc(high));
                Fate::Say([sent.message.clone()].into_iter().chain(vec![shown; 50]).collect())
            }
            _ => Fate::Pass,
        });
        stage.run(Span::secs(4));
        for _ in 0..10 {
            (0..2).for_each(|guest| stage.ask(guest));
            assert!(stage.answered(Span::millis(400)), "{system}: commands wait");
        }
        assert!(lies.count() > 10, "{system}: {} lies", lies.count());
        assert!(stage.view() < 1_000, "{system}: somebody is in view {}", stage.view());
        let shown = |event: &&Event| {
            event.node != LIAR
                && matches!(&event.what, What::Blamed(by, name) if *by == LIAR && *name == "bad_qc")
        };
        let blamed = stage.diary().events().iter().filter(shown).count();
        assert!((1..40).contains(&blamed), "{system}: checked {blamed} times in four seconds");
        let _report = settles(stage);
    }
}

/// TC8: the others certify a checkpoint before this member's executor is there; it dies, and its replay leaves nothing
/// out.
#[test]
fn a_checkpoint_that_is_stable_elsewhere_takes_nothing_from_a_slow_executor() {
    for system in SYSTEMS {
        let mut stage =
            stage(system, 4, &[("checkpoint_every", 16), ("retain_blocks", 4), ("reputation", 0)]);
        stage.run(Span::millis(20));
        (0..2).for_each(|guest| stage.ask(guest));
        assert!(stage.answered(Span::secs(2)));
        stage.world().delay_jobs(AWAY, Span::millis(150));
        let mut behind = false;
        let mut rounds = 0;
        while !behind && rounds < 200 {
            rounds += 1;
            (0..2).for_each(|guest| stage.ask(guest));
            stage.run(Span::millis(10));
            let stable = stage.diary().rule_at(NodeId(0), "C_stable", synod_machine::Time::ZERO).is_some();
            let applied = stage.book().reach.get(&AWAY.0).map_or(0, |reach| reach.applied);
            behind = stable && applied < stage.book().highest.0 / 16 * 16 && stage.book().highest.0 > 40;
        }
        assert!(behind, "{system}: its executor was never behind a stable checkpoint");
        stage.world().crash(AWAY, Loss::Drawn, Some(Span::millis(30)));
        stage.world().delay_jobs(AWAY, Span::ZERO);
        let wanted = stage.book().highest.0;
        assert!(stage.answered(Span::secs(6)), "{system}: commands wait");
        let whole = stage.until(Span::secs(12), |event| {
            event.node == AWAY && matches!(event.what, What::Delivered(p) | What::Jumped(p) if p >= wanted)
        });
        assert!(whole || stage.diary().delivered(AWAY) >= wanted, "{system}: it stays behind");
        let _report = settles(stage);
    }
}

/// TC6: a member stops for a minute under load, then everything that it missed comes at once. Nobody keeps more than its
/// formula, and the member takes part again.
#[test]
fn a_member_that_stands_still_for_a_minute_costs_no_memory_and_takes_part_again() {
    let numbers = &[("checkpoint_every", 64), ("retain_blocks", 16)];
    let mut stage = warm("hotstuff/chain2+order", 4, numbers);
    stage.world().pause(AWAY, Span::secs(60));
    let until = stage.now() + Span::secs(60);
    while stage.now() < until {
        (0..2).for_each(|guest| stage.ask(guest));
        stage.run(Span::millis(100));
    }
    let (from, highest) = (stage.now(), stage.book().highest.0);
    assert!(stage.diary().delivered(AWAY) + 500 < highest, "it was not away");
    let voted =
        |event: &Event| event.node == AWAY && matches!(event.what, What::Sent(_, Message::Vote { .. }));
    let mut voting = false;
    while !voting && stage.now().since(from) < Span::secs(10) {
        (0..2).for_each(|guest| stage.ask(guest));
        voting = stage.until(Span::millis(100), |event| voted(event));
    }
    assert!(voting, "it votes no more");
    assert!(
        stage.diary().delivered(AWAY) >= highest,
        "it is at {} of {highest}",
        stage.diary().delivered(AWAY)
    );
    assert!(stage.answered(Span::secs(4)), "commands wait");
    let report = settles(stage);
    assert!(report.bytes_permille_max < 300, "{} per mille of a formula", report.bytes_permille_max);
}
