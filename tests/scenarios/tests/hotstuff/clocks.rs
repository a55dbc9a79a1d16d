//! Clocks that differ and starts that are seconds apart (TL5), and agreed time, which no liar can push ahead (TL26).

use std::cell::Cell;
use std::rc::Rc;

use synod_hotstuff::{Header, Message, Record, Statement};
use synod_machine::{Span, Wall};
use synod_quorum::NodeId;
use synod_scenarios::{SYSTEMS, settles, stage, warm};
use synod_sim::Loss;
use synod_trial::stage::{Fate, What};

/// TL5: members start over ten seconds; the first three suffice, and the last one takes part when it is there.
#[test]
fn members_that_start_ten_seconds_apart_commit() {
    for system in SYSTEMS {
        let mut stage = stage(system, 4, &[]);
        stage.run(Span::millis(3));
        for id in 0..4 {
            let late = Span(u64::from(id) * Span::millis(3_300).0);
            stage.world().crash(NodeId(id), Loss::Nothing, Some(late));
        }
        (0..2).for_each(|guest| stage.ask(guest));
        stage.run(Span::millis(6_000));
        assert_eq!(stage.book().highest.0, 0, "{system}: two of four committed");
        assert!(stage.answered(Span::secs(4)), "{system}: three of four do not answer");
        assert!(stage.now().0 < Span::secs(10).0);
        assert_eq!(stage.diary().delivered(NodeId(3)), 0, "{system}: the last one is there already");
        let mut there = false;
        for _ in 0..40 {
            (0..2).for_each(|guest| stage.ask(guest));
            there |= stage.until(Span::millis(100), |event| {
                event.node == NodeId(3) && matches!(event.what, What::Sent(_, Message::Vote { .. }))
            });
        }
        assert!(there, "{system}: the last one takes no part");
        let _report = settles(stage);
    }
}

/// TL5, TL26: wall clocks ten seconds apart, in both directions, at members that lead.
#[test]
fn wall_clocks_ten_seconds_apart_halt_nobody() {
    for system in SYSTEMS {
        for skew in [[10_000, 0, 0, 0], [-10_000, 10_000, 0, 0], [10_000, -10_000, 10_000, -10_000]] {
            let mut stage = stage(system, 4, &[("term_views", 1), ("reputation", 0)]);
            stage.run(Span::millis(5));
            for (id, ms) in (0..).map(NodeId).zip(skew) {
                stage.world().step_wall(id, ms);
            }
            for _ in 0..8 {
                (0..2).for_each(|guest| stage.ask(guest));
                assert!(stage.answered(Span::secs(10)), "{system} {skew:?}: commands wait");
            }
            let _report = settles(stage);
        }
    }
}

/// TL26: f + 3 terms are given up in a row; then a liar dates its block a year ahead. Nobody votes for it, and agreed
/// time stays what it was.
#[test]
fn a_block_dated_a_year_ahead_is_refused_even_after_many_failures() {
    const YEAR_MS: u64 = 365 * 24 * 3_600 * 1_000;
    for system in SYSTEMS {
        let mut stage = warm(system, 4, &[("term_views", 1), ("reputation", 0)]);
        let first = stage.view();
        let liar = NodeId(u32::try_from((first + 4) % 4).expect("below four"));
        let dated = Rc::new(Cell::new(0_u64));
        let of = dated.clone();
        let _lies = stage.corrupt(liar, move |sent, pen| match sent.message {
            Message::Propose { header, .. } if header.view.0 >= first + 4 => {
                let header = Header { time: Wall(header.time.0 + YEAR_MS), ..header.clone() };
                of.set(of.get().max(header.view.0));
                let (view, digest) = (header.view, header.digest());
                let signature = pen.sign(Statement::Proposal { view, digest });
                Fate::Say(vec![Message::Propose { header, signature }])
            }
            _ => Fate::Pass,
        });
        let hidden = stage.direct(move |sent| match sent.message {
            Message::Propose { header, .. } if header.view.0 < first + 4 => Fate::Drop,
            _ => Fate::Pass,
        });
        (0..2).for_each(|guest| stage.ask(guest));
        assert!(stage.answered(Span::secs(8)), "{system}: commands wait");
        assert!(hidden.count() > 0 && dated.get() >= first + 4, "{system}: the liar never led");
        let diary = stage.diary();
        let given_up = diary.rules("M5_advance_by_tc") / 3;
        assert!(given_up >= 4, "{system}: {given_up} terms were given up");
        let wild = diary.events().iter().filter(|event| match &event.what {
            What::Kept(Record::Block { header, .. }) => {
                event.node != liar && header.time.0 > header_base(&diary) + YEAR_MS / 2
            }
            _ => false,
        });
        assert_eq!(wild.count(), 0, "{system}: an honest member voted for a block of next year");
        drop(diary);
        let _report = settles(stage);
    }
}

/// The time of the first block anybody proposed, in milliseconds.
fn header_base(diary: &synod_trial::stage::Diary) -> u64 {
    let first = diary.events().iter().find_map(|event| match &event.what {
        What::Sent(_, Message::Propose { header, .. }) => Some(header.time.0),
        _ => None,
    });
    first.unwrap_or(0)
}
