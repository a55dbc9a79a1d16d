//! Each oracle fires on the breach it is for and stays silent on the run without it.

use synod_crypto::Hash;
use synod_trial::oracle::{
    Agreement, Blocks, CertSeen, Commits, HeaderSeen, MarkSeen, Oracle, Pack, Phase, Promises, SafetySeen,
    Seen, Sighting, Votes, faults, quorum, weak,
};

fn digest(name: u8) -> Hash {
    Hash([name; 32])
}

fn mark(view: u64, name: u8) -> MarkSeen {
    MarkSeen { view, digest: digest(name) }
}

fn by(node: u32, seen: Seen) -> Sighting {
    Sighting { at: 0, node, honest: true, incarnation: 0, seen }
}

fn header(view: u64, name: u8, parent: u8, justify: u64) -> Seen {
    Seen::Header(HeaderSeen {
        own: mark(view, name),
        parent: digest(parent),
        justify,
        given_up: None,
        proposer: 0,
    })
}

fn safety(voted: MarkSeen, lock: u64, high: MarkSeen) -> Seen {
    Seen::Safety(SafetySeen {
        voted: (voted, Phase::Generic),
        ordered: mark(0, 0),
        complained: 0,
        lock: mark(lock, 1),
        high,
    })
}

/// Feeds sightings until the first breach; the checker's name.
fn run(oracle: &mut dyn Oracle, sightings: &[Sighting]) -> Option<&'static str> {
    let mut blocks = Blocks::default();
    sightings.iter().find_map(|sighting| {
        blocks.learn(sighting);
        oracle.see(sighting, &blocks).err().map(|breach| breach.checker)
    })
}

fn delivered(node: u32, position: u64, content: u8) -> Sighting {
    by(node, Seen::Delivered { position, content: digest(content) })
}

#[test]
fn the_table_holds_what_three_f_plus_one_says() {
    for n in 1..=31 {
        assert!(3 * faults(n) < n && 3 * (faults(n) + 1) >= n);
        assert_eq!((weak(n), quorum(n)), (faults(n) + 1, n - faults(n)));
    }
}

#[test]
fn two_logs_that_differ_are_found() {
    let same = [delivered(0, 1, 7), delivered(1, 1, 7), delivered(0, 2, 8), delivered(1, 2, 8)];
    assert_eq!(run(&mut Agreement::default(), &same), None);
    assert_eq!(run(&mut Agreement::default(), &[delivered(0, 1, 7), delivered(1, 1, 9)]), Some("H-S1"));
    assert_eq!(run(&mut Agreement::default(), &[delivered(0, 1, 7), delivered(0, 3, 8)]), Some("H-S2"));
    let mut liar = delivered(1, 1, 9);
    liar.honest = false;
    assert_eq!(run(&mut Agreement::default(), &[delivered(0, 1, 7), liar]), None);
}

#[test]
fn a_restart_may_deliver_again_but_not_otherwise() {
    let mut again = delivered(0, 1, 7);
    again.incarnation = 1;
    assert_eq!(run(&mut Agreement::default(), &[delivered(0, 1, 7), again]), None);
    again.seen = Seen::Delivered { position: 1, content: digest(9) };
    assert_eq!(run(&mut Agreement::default(), &[delivered(0, 1, 7), again]), Some("H-S1"));
}

#[test]
fn a_second_vote_or_proposal_in_a_view_is_found() {
    let vote = |view, name| by(2, Seen::Voted(mark(view, name), Phase::Generic));
    assert_eq!(run(&mut Votes::new(4), &[vote(1, 1), vote(1, 1), vote(2, 2)]), None);
    assert_eq!(run(&mut Votes::new(4), &[vote(1, 1), vote(1, 2)]), Some("H-S5"));
    assert_eq!(run(&mut Votes::new(4), &[vote(2, 2), vote(1, 1)]), Some("H-S5"));
    let propose = |view, name| by(2, Seen::Proposed(mark(view, name)));
    assert_eq!(run(&mut Votes::new(4), &[propose(1, 1), propose(1, 1)]), None);
    assert_eq!(run(&mut Votes::new(4), &[propose(1, 1), propose(1, 2)]), Some("H-S5"));
}

#[test]
fn a_promise_below_a_complaint_is_found() {
    let complain = by(1, Seen::Complained { view: 31, high: 3 });
    for phase in [Phase::Generic, Phase::Order] {
        let below = by(1, Seen::Voted(mark(31, 1), phase));
        let above = by(1, Seen::Voted(mark(32, 1), phase));
        assert_eq!(run(&mut Votes::new(4), &[complain, above]), None);
        assert_eq!(run(&mut Votes::new(4), &[complain, below]), Some("H-S5"));
    }
}

#[test]
fn weak_foreign_and_conflicting_certificates_are_found() {
    let cert = |view, name, signers| {
        by(0, Seen::Certificate(CertSeen { phase: Phase::Generic, of: mark(view, name), signers }))
    };
    assert_eq!(run(&mut Votes::new(4), &[cert(1, 1, 0b0111), cert(1, 1, 0b1110), cert(0, 9, 0)]), None);
    assert_eq!(run(&mut Votes::new(4), &[cert(1, 1, 0b0011)]), Some("H-S9"));
    assert_eq!(run(&mut Votes::new(4), &[cert(1, 1, 0b1_0011)]), Some("H-S9"));
    assert_eq!(run(&mut Votes::new(4), &[cert(1, 1, 0b0111), cert(1, 2, 0b0111)]), Some("H-S4"));
    assert_eq!(run(&mut Votes::new(4), &[by(0, Seen::GaveUp { view: 3, signers: 0b11 })]), Some("H-S9"));
}

#[test]
fn a_vote_without_its_record_is_found() {
    let vote = by(0, Seen::Voted(mark(1, 1), Phase::Generic));
    let record = by(0, safety(mark(1, 1), 0, mark(0, 0)));
    assert_eq!(run(&mut Promises::new(Pack::Chain2Order), &[by(0, header(1, 1, 0, 0)), record, vote]), None);
    assert_eq!(run(&mut Promises::new(Pack::Chain2Order), &[by(0, header(1, 1, 0, 0)), vote]), Some("X3"));
    let complain = by(0, Seen::Complained { view: 1, high: 0 });
    assert_eq!(run(&mut Promises::new(Pack::Chain3), &[complain]), Some("X3"));
}

#[test]
fn a_lock_that_falls_or_never_rises_is_found() {
    let chain = [by(0, header(1, 1, 0, 0)), by(0, header(2, 2, 1, 1)), by(0, header(3, 3, 2, 2))];
    let mut good = chain.to_vec();
    good.push(by(0, safety(mark(3, 3), 1, mark(2, 2))));
    assert_eq!(run(&mut Promises::new(Pack::Chain3), &good), None);
    let mut unlocked = chain.to_vec();
    unlocked.push(by(0, safety(mark(3, 3), 0, mark(2, 2))));
    assert_eq!(run(&mut Promises::new(Pack::Chain3), &unlocked), Some("H-S6"));
    good.push(by(0, safety(mark(3, 3), 0, mark(1, 1))));
    assert_eq!(run(&mut Promises::new(Pack::Chain3), &good), Some("H-S6"));
}

#[test]
fn a_vote_against_the_pack_is_found() {
    // The lock is on block 1 of view 1; block 9 of view 5 neither extends it nor is justified above it.
    let seen = [
        by(0, header(1, 1, 0, 0)),
        by(0, header(5, 9, 0, 0)),
        by(0, safety(mark(5, 9), 1, mark(0, 0))),
        by(0, Seen::Voted(mark(5, 9), Phase::Generic)),
    ];
    for pack in [Pack::Chain3, Pack::Chain2, Pack::Chain2Order] {
        assert_eq!(run(&mut Promises::new(pack), &seen), Some("H-S6"), "{pack:?}");
    }
}

#[test]
fn a_commit_needs_the_votes_of_its_pack() {
    let votes = |view, name, phase| (0..3).map(move |n| by(n, Seen::Voted(mark(view, name), phase)));
    let commit = by(0, Seen::Committed(digest(1)));
    let chain = [by(0, header(1, 1, 0, 0)), by(0, header(2, 2, 1, 1)), by(0, header(3, 3, 2, 2))];
    let with = |more: Vec<Sighting>| {
        let mut all = chain.to_vec();
        all.extend(more);
        all.push(commit);
        all
    };
    let one: Vec<Sighting> = votes(1, 1, Phase::Generic).collect();
    let two: Vec<Sighting> = one.iter().copied().chain(votes(2, 2, Phase::Generic)).collect();
    let three: Vec<Sighting> = two.iter().copied().chain(votes(3, 3, Phase::Generic)).collect();
    let judge = |pack, more: &Vec<Sighting>| run(&mut Commits::new(pack, 4), &with(more.clone()));
    assert_eq!(judge(Pack::Chain3, &three), None);
    assert_eq!(judge(Pack::Chain3, &two), Some("H-S7"));
    assert_eq!(judge(Pack::Chain2, &two), None);
    assert_eq!(judge(Pack::Chain2, &one), Some("H-S7"));
    let orders: Vec<Sighting> = votes(1, 1, Phase::Order).collect();
    assert_eq!(judge(Pack::Chain2Order, &orders), None);
    assert_eq!(judge(Pack::Chain2, &orders), Some("H-S7"));
    assert_eq!(judge(Pack::Chain2Order, &orders[..2].to_vec()), Some("H-S7"));
    let basic: Vec<Sighting> = votes(1, 1, Phase::Commit).collect();
    assert_eq!(judge(Pack::Basic, &basic), None);
    assert_eq!(judge(Pack::Basic, &three), Some("H-S7"));
}

#[test]
fn a_commit_over_a_gap_of_views_is_found() {
    let chain = [by(0, header(1, 1, 0, 0)), by(0, header(3, 2, 1, 1)), by(0, header(4, 3, 2, 3))];
    let votes = (0..3)
        .flat_map(|n| [mark(1, 1), mark(3, 2), mark(4, 3)].map(|m| by(n, Seen::Voted(m, Phase::Generic))));
    let mut all = chain.to_vec();
    all.extend(votes);
    all.push(by(0, Seen::Committed(digest(1))));
    assert_eq!(run(&mut Commits::new(Pack::Chain3, 4), &all), Some("H-S7"));
    // A two-chain commits block 2 at views 3 and 4, and its ancestor 1 with it.
    assert_eq!(run(&mut Commits::new(Pack::Chain2, 4), &all), None);
    let unknown = [by(0, Seen::Committed(digest(77)))];
    assert_eq!(run(&mut Commits::new(Pack::Chain2, 4), &unknown), Some("H-S7"));
}
