//! Streams with gaps, and summaries.

use std::cell::RefCell;
use std::rc::Rc;

use synod_machine::Span;
use synod_quorum::NodeId;
use synod_ubft::replica::{Summary, Word};

use crate::group::{Group, threes};
use crate::net::seeds;

const LONG: Span = Span::secs(30);

#[test]
fn t15_whoever_misses_more_than_three_tails_comes_back_by_summaries() {
    for (_, mut group) in threes(6) {
        group.order(5, LONG);
        group.net.cut_off(NodeId(2), 3);
        group.liars.insert(NodeId(2));
        group.order(70, LONG);
        group.liars.remove(&NodeId(2));
        group.net.heal();
        group.pass(Span::millis(500));
        group.order(80, LONG);
        assert!(group.count("A4.14_restore") > 0, "{:?}", group.net.rules);
        assert_eq!(group.executed(2), group.executed(0), "{}", group.describe());
        assert!(group.net.blamed.is_empty(), "{:?}", group.net.blamed);
    }
}

#[test]
fn t16_summaries_that_are_forged_stale_or_withheld_stall_their_forger_alone() {
    for (_, mut group) in threes(6) {
        // A liar signs nonsense in place of the states of others, and says its own summaries to nobody.
        let lie = |_: NodeId, word: &Word| match word {
            Word::Summary(_) => None,
            Word::CertifySummary { summarized, signature } => {
                let mut summarized = *summarized;
                summarized.state = synod_crypto::Hash([7; 32]);
                Some(Word::CertifySummary { summarized, signature: signature.clone() })
            }
            _ => Some(word.clone()),
        };
        group.lie(2, Box::new(lie));
        group.order(60, LONG);
        assert!(group.net.blamed.iter().all(|(_, who, what)| (*who, *what) == (NodeId(2), "bad_share")));
        assert!(!group.net.blamed.is_empty());
    }
}

#[test]
fn t17_states_of_one_stream_are_signed_alike_in_whatever_view_their_signers_are() {
    // The judge compares every share; here replicas are in different views while they sign.
    for (_, mut group) in threes(6) {
        group.net.loss = 10;
        for round in 0..4_u32 {
            group.order(20, LONG);
            group.net.cut_off(NodeId(round % 3), 3);
            group.wanted = 3;
            group.pass(Span::millis(90));
            group.net.heal();
        }
        group.net.loss = 0;
        group.order(40, LONG);
        assert!(group.count("A4.09_summary") > 6);
    }
}

#[test]
fn a_queue_that_evicts_loses_nothing_for_good() {
    for (_, mut group) in threes(4) {
        // Nothing reaches replica 2 for a while, and its queues overflow.
        group.wanted = 40;
        group.net.cut.insert((NodeId(0), NodeId(2)));
        group.pass(Span::millis(30));
        group.net.heal();
        group.order(60, LONG);
        assert_eq!(group.executed(2), group.executed(1));
    }
}

fn changed(summary: &Summary) -> Summary {
    let mut summary = summary.clone();
    summary.state.next_k += 1;
    summary
}

#[test]
fn a_liar_that_says_summaries_that_prove_nothing_without_end_keeps_nobody_from_what_others_have() {
    for seed in seeds(4) {
        let mut group = Group::new(5, seed);
        group.order(5, LONG);
        let said = Rc::new(RefCell::new(None));
        let heard = Rc::clone(&said);
        // What replica 1 says last of its own stream a liar passes on changed, as it does whatever it is asked for.
        let honest = move |_: NodeId, word: &Word| {
            if let Word::Summary(summary) = word {
                *heard.borrow_mut() = Some(changed(summary));
            }
            Some(word.clone())
        };
        let lie = |_: NodeId, word: &Word| match word {
            Word::Summary(summary) if summary.certificate.subject.about != 3 => {
                Some(Word::Summary(Box::new(changed(summary))))
            }
            _ => Some(word.clone()),
        };
        group.net.lies.insert(NodeId(1), Box::new(honest));
        group.lie(3, Box::new(lie));
        group.net.cut_off(NodeId(2), 5);
        group.liars.insert(NodeId(2));
        group.order(90, LONG);
        group.liars.remove(&NodeId(2));
        group.net.heal();
        // And says them far more often than all others say theirs.
        let (start, mut told) = (group.executed(2), 0);
        for round in 0..400 {
            group.wanted = u64::from(round % 10 == 0);
            if let Some(summary) = said.borrow().clone() {
                for _ in 0..4 {
                    group.net.say(NodeId(3), NodeId(2), Word::Summary(Box::new(summary.clone())));
                    told += 1;
                }
            }
            group.pass(Span::millis(1));
        }
        assert!(told > 400, "it lies: {told}");
        assert!(group.executed(2) > start, "{}", group.describe());
        assert!(group.executed(2) + 10 > group.executed(1), "{}", group.describe());
        assert!(group.net.blamed.iter().all(|(_, who, _)| *who == NodeId(3)), "{:?}", group.net.blamed);
    }
}
