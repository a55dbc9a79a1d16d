//! When an answer is believed: W equal digests and a body, one word per node (TK5, H30, TS5).

use synod_crypto::Hash;
use synod_quorum::{NodeId, NodeSet, Weights};
use synod_service::Refused;
use synod_service::matching::{Heard, Matching, Say, Trust, Verdict};
use synod_wire::Bytes;

const TRUE: Hash = Hash([1; 32]);
const FALSE: Hash = Hash([2; 32]);

fn four() -> Trust {
    Trust::Members(Weights::equal(4))
}

fn body(text: &'static str) -> Option<Bytes> {
    Some(Bytes::from_static(text.as_bytes()))
}

fn verdict(matching: &Matching<Hash>, trust: &Trust) -> Verdict<Hash> {
    matching.verdict(|set| trust.accepts(set))
}

/// TK5, D20.
#[test]
fn the_first_reply_does_not_win() {
    let (mut matching, trust) = (Matching::default(), four());
    matching.hear(NodeId(3), Say::Result(FALSE), body("lie"));
    assert_eq!(verdict(&matching, &trust), Verdict::Open);
    matching.hear(NodeId(0), Say::Result(TRUE), body("truth"));
    assert_eq!(verdict(&matching, &trust), Verdict::Open);
    matching.hear(NodeId(1), Say::Result(TRUE), None);
    assert_eq!(verdict(&matching, &trust), Verdict::Accepted(TRUE, Bytes::from_static(b"truth")));
    assert_eq!(matching.contradicting(TRUE), NodeSet::only(NodeId(3)));
    assert_eq!(matching.agreeing(TRUE), NodeSet::first(2));
}

#[test]
fn a_node_that_repeats_itself_counts_once() {
    let (mut matching, trust) = (Matching::default(), four());
    for _ in 0..4 {
        assert_eq!(matching.hear(NodeId(3), Say::Result(FALSE), body("lie")), Heard::Counted);
    }
    assert_eq!(verdict(&matching, &trust), Verdict::Open);
    assert_eq!(matching.hear(NodeId(3), Say::Result(TRUE), body("truth")), Heard::Equivocated);
    assert_eq!(matching.agreeing(TRUE), NodeSet::EMPTY, "the first word counts");
}

#[test]
fn a_digest_without_a_body_is_not_yet_an_answer() {
    let (mut matching, trust) = (Matching::default(), four());
    matching.hear(NodeId(0), Say::Result(TRUE), None);
    matching.hear(NodeId(1), Say::Gone(TRUE), None);
    assert_eq!(verdict(&matching, &trust), Verdict::Bodiless(TRUE));
    matching.hear(NodeId(2), Say::Gone(TRUE), None);
    assert_eq!(verdict(&matching, &trust), Verdict::Gone(TRUE));
    matching.hear(NodeId(3), Say::Result(TRUE), body("truth"));
    assert!(
        matches!(verdict(&matching, &trust), Verdict::Accepted(..)),
        "a body that comes after all is taken"
    );
}

#[test]
fn one_refusal_is_no_refusal() {
    let (mut matching, trust) = (Matching::default(), four());
    matching.hear(NodeId(3), Say::Refused(Refused::UnknownSession), None);
    assert_eq!(verdict(&matching, &trust), Verdict::Open);
    matching.hear(NodeId(2), Say::Refused(Refused::OutsideWindow), None);
    assert_eq!(verdict(&matching, &trust), Verdict::Open, "two refusals for two reasons");
    matching.hear(NodeId(1), Say::Refused(Refused::UnknownSession), None);
    assert_eq!(verdict(&matching, &trust), Verdict::Refused(Refused::UnknownSession));
}

#[test]
fn busy_is_never_final() {
    let (mut matching, trust) = (Matching::default(), four());
    for node in 0..4 {
        matching.hear(NodeId(node), Say::Refused(Refused::Busy { retry_ms: 5 }), None);
    }
    assert_eq!(verdict(&matching, &trust), Verdict::Open);
    let (mut matching, trust) = (Matching::default(), four());
    (0..4).for_each(|node| {
        matching.hear(NodeId(node), Say::Refused(Refused::NotReady), None);
    });
    assert_eq!(verdict(&matching, &trust), Verdict::Open);
}

#[test]
fn a_result_replaces_a_refusal_and_never_the_reverse() {
    let (mut matching, trust) = (Matching::default(), four());
    matching.hear(NodeId(0), Say::Refused(Refused::UnknownSession), None);
    matching.hear(NodeId(1), Say::Result(TRUE), body("truth"));
    matching.hear(NodeId(0), Say::Result(TRUE), None);
    matching.hear(NodeId(1), Say::Refused(Refused::UnknownSession), None);
    assert!(matches!(verdict(&matching, &trust), Verdict::Accepted(..)));
}

#[test]
fn thresholds_weigh_power_not_heads() {
    let trust = Trust::Members(Weights::new(vec![5, 1, 1, 1]).expect("positive"));
    // P = 8, F = 2: W = 3, Q = 6.
    assert!(trust.accepts(NodeSet::only(NodeId(0))) && !trust.reads(NodeSet::only(NodeId(0))));
    let small: NodeSet = [1, 2].map(NodeId).into_iter().collect();
    assert!(!trust.accepts(small) && !trust.reads(small));
    assert!(trust.accepts(small.with(NodeId(3))) && !trust.reads(small.with(NodeId(3))));
    assert!(trust.reads(NodeSet::first(2)));
    let gateway = Trust::Gateway(NodeId(2));
    assert!(gateway.accepts(NodeSet::only(NodeId(2))) && !gateway.accepts(NodeSet::first(2)));
}
