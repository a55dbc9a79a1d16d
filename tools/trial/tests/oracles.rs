//! Each oracle fires on the breach it is for and stays silent on the run without it.

use synod_crypto::Hash;
use synod_trial::oracle::{
    Agreement, Blocks, CertSeen, Commits, ExecutedSeen, Execution, HeaderSeen, MarkSeen, Oracle, Pack, Phase,
    Promises, SafetySeen, Seen, Sighting, Views, Votes, faults, quorum, weak,
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
        count: 1,
    })
}

fn safety(voted: MarkSeen, lock: u64, high: MarkSeen) -> Seen {
    Seen::Safety(SafetySeen {
        voted: (voted, Phase::Generic),
        proposed: mark(0, 0),
        ordered: mark(0, 0),
        complained: 0,
        lock: mark(lock, 1),
        high,
        given_up: 0,
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

fn certificate(view: u64, name: u8, signers: u128) -> Sighting {
    by(3, Seen::Certificate(CertSeen { phase: Phase::Generic, of: mark(view, name), signers }))
}

/// The votes of members 0 to 2 in view 1 for a block, `honest` or not.
fn cast(name: u8, honest: bool) -> impl Iterator<Item = Sighting> {
    (0..3).map(move |n| Sighting { honest, ..by(n, Seen::Voted(mark(1, name), Phase::Generic)) })
}

#[test]
fn weak_foreign_and_conflicting_certificates_are_found() {
    let judge = |votes: Vec<Sighting>, certs: &[Sighting]| {
        let all: Vec<Sighting> = votes.into_iter().chain(certs.iter().copied()).collect();
        run(&mut Votes::new(4), &all)
    };
    let honest = || cast(1, true).collect::<Vec<_>>();
    assert_eq!(judge(honest(), &[certificate(1, 1, 0b0111), certificate(0, 9, 0)]), None);
    assert_eq!(judge(honest(), &[certificate(1, 1, 0b0011)]), Some("H-S9"));
    assert_eq!(judge(honest(), &[certificate(1, 1, 0b1_0011)]), Some("H-S9"));
    let both: Vec<Sighting> = cast(1, false).chain(cast(2, false)).collect();
    assert_eq!(judge(both, &[certificate(1, 1, 0b0111), certificate(1, 2, 0b0111)]), Some("H-S4"));
    let gave_up = |signers| by(3, Seen::GaveUp { view: 3, signers, high: 0 });
    let complaints: Vec<Sighting> = (0..3).map(|n| by(n, Seen::Complained { view: 3, high: 0 })).collect();
    assert_eq!(judge(complaints.clone(), &[gave_up(0b111)]), None);
    assert_eq!(judge(complaints.clone(), &[gave_up(0b11)]), Some("H-S9"));
    assert_eq!(judge(complaints[..2].to_vec(), &[gave_up(0b111)]), Some("H-S9"), "member 2 never complained");
}

#[test]
fn a_certificate_of_votes_nobody_cast_is_found() {
    let invented = [certificate(1, 1, 0b0111)];
    assert_eq!(run(&mut Votes::new(4), &invented), Some("H-S9"));
    let elsewhere: Vec<Sighting> = cast(2, true).chain(invented).collect();
    assert_eq!(run(&mut Votes::new(4), &elsewhere), Some("H-S9"));
    let liars: Vec<Sighting> = cast(2, false).chain(invented).collect();
    assert_eq!(run(&mut Votes::new(4), &liars), None, "who breaks its protocol may have signed anything");
}

#[test]
fn a_view_nobody_ended_is_found() {
    let enter = |view| by(3, Seen::Entered(view));
    let judge = |all: &[Sighting]| run(&mut Views::new(4), all);
    let votes: Vec<Sighting> = cast(1, true).collect();
    assert_eq!(judge(&[&votes[..], &[enter(1), enter(2)]].concat()), None);
    assert_eq!(judge(&[&votes[..2], &[enter(1), enter(2)]].concat()), Some("H-S8"));
    assert_eq!(judge(&[&votes[..], &[enter(2), enter(1)]].concat()), Some("H-S8"), "views only rise");
    let complaints: Vec<Sighting> = (0..3).map(|n| by(n, Seen::Complained { view: 7, high: 0 })).collect();
    assert_eq!(judge(&[&complaints[..], &[enter(8)]].concat()), None);
    assert_eq!(judge(&[&complaints[..], &[enter(9)]].concat()), Some("H-S8"));
}

fn executed(position: u64, sequence: u64, name: u8) -> ExecutedSeen {
    let name = digest(name);
    ExecutedSeen { position, session: 1, sequence, body: name, reply: name, state: name, index: sequence }
}

/// An oracle that knows session 1 of client 128, which asked for bodies 5 and 6.
fn execution() -> Execution {
    let mut oracle = Execution::default();
    oracle.asked(128, 1, digest(5));
    oracle.asked(128, 1, digest(6));
    oracle.opened(128, 1, 1).expect("the first to open it");
    oracle
}

fn fired(verdict: Result<(), synod_trial::oracle::Breach>) -> Option<&'static str> {
    verdict.err().map(|breach| breach.checker)
}

#[test]
fn a_command_executed_twice_unasked_or_out_of_order_is_found() {
    let mut oracle = execution();
    assert_eq!(fired(oracle.executed(0, 1, &executed(2, 1, 5))), None);
    assert_eq!(fired(oracle.executed(1, 1, &executed(2, 1, 5))), None, "another node, the same place");
    assert_eq!(fired(oracle.executed(0, 2, &executed(2, 1, 5))), None, "replayed after a restart");
    assert_eq!(fired(oracle.executed(0, 1, &executed(3, 1, 5))), Some("H-S3"), "twice");
    assert_eq!(fired(oracle.executed(1, 1, &executed(3, 2, 7))), Some("H-S3"), "nobody asked");
    assert_eq!(
        fired(execution().executed(0, 1, &ExecutedSeen { session: 9, ..executed(2, 1, 5) })),
        Some("H-S3")
    );
    assert_eq!(fired(oracle.executed(0, 1, &executed(1, 2, 6))), Some("H-S10"), "an older position");
    let other = ExecutedSeen { state: digest(8), ..executed(2, 1, 5) };
    assert_eq!(fired(oracle.executed(2, 1, &other)), Some("X9"));
    assert_eq!(fired(oracle.root(0, 64, digest(1))), None);
    assert_eq!(fired(oracle.root(1, 64, digest(2))), Some("X9"));
}

#[test]
fn an_answer_that_nobody_executed_is_found() {
    let mut oracle = execution();
    assert_eq!(fired(oracle.believed(128, (1, 1), digest(5), digest(5))), Some("J4"), "too early");
    oracle.executed(0, 1, &executed(2, 1, 5)).expect("asked for");
    assert_eq!(fired(oracle.believed(128, (1, 1), digest(5), digest(5))), None);
    assert_eq!(fired(oracle.believed(128, (1, 1), digest(5), digest(6))), Some("J4"), "another reply");
    assert_eq!(fired(oracle.believed(128, (1, 1), digest(6), digest(5))), Some("J4"), "another command");
    assert_eq!(fired(oracle.rejected(128, (1, 1))), Some("J4"), "it was executed");
    assert_eq!(fired(oracle.rejected(128, (1, 2))), None);
    assert_eq!(fired(oracle.executed(0, 1, &executed(3, 2, 6))), Some("J4"), "it was rejected");
}

#[test]
fn a_read_older_than_what_was_known_is_found() {
    let read =
        |oracle: &mut Execution, tag, count: u64| fired(oracle.believed_read(128, tag, &count.to_le_bytes()));
    let mut oracle = execution();
    oracle.asked_read(0);
    oracle.executed(0, 1, &executed(2, 1, 5)).expect("asked for");
    oracle.asked_read(1);
    oracle.believed(128, (1, 1), digest(5), digest(5)).expect("executed");
    oracle.asked_read(2);
    assert_eq!(read(&mut oracle, 0, 0), None, "it was under way when the command was");
    assert_eq!(read(&mut oracle, 2, 0), Some("TK9"), "the command was known when it was asked");
    assert_eq!(read(&mut oracle, 1, 2), Some("TK9"), "nobody executed two");
    oracle.executed(0, 1, &executed(3, 2, 6)).expect("asked for");
    oracle.asked_read(3);
    oracle.asked_read(4);
    assert_eq!(read(&mut oracle, 3, 2), None);
    oracle.asked_read(5);
    assert_eq!(read(&mut oracle, 4, 1), None, "it was under way with the one before");
    assert_eq!(read(&mut oracle, 5, 1), Some("TK9"), "another read had seen two");
    assert_eq!(fired(oracle.believed_read(128, 6, b"two")), Some("TK9"), "no count");
}

#[test]
fn a_proof_of_another_item_is_found() {
    let item = |name| by(0, Seen::Item { position: 4, id: Some(digest(name)) });
    let proved = |position, name| by(1, Seen::Proved { position, id: digest(name) });
    let judge = |all: &[Sighting]| run(&mut Agreement::default(), all);
    assert_eq!(judge(&[item(1), proved(4, 1)]), None);
    assert_eq!(judge(&[item(1), proved(4, 2)]), Some("H-S1"));
    assert_eq!(judge(&[item(1), proved(5, 1)]), Some("H-S1"), "nobody delivered that");
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
fn a_record_whose_certificates_the_crash_took_promised_nothing_and_any_other_did() {
    let log = |certified: bool| {
        let own = |view, name| by(0, certificate(view, name, 0b111).seen);
        let kept = [own(1, 1), by(0, safety(mark(2, 2), 1, mark(1, 1)))];
        let torn = [own(2, 2), by(0, safety(mark(3, 3), 2, mark(2, 2)))];
        let read = kept.into_iter().chain(torn.into_iter().skip(usize::from(!certified)));
        let after = [by(0, Seen::Started), by(0, safety(mark(2, 2), 1, mark(1, 1)))];
        core::iter::once(by(0, Seen::Reopened)).chain(read).chain(after).collect::<Vec<_>>()
    };
    assert_eq!(run(&mut Promises::new(Pack::Chain2), &log(false)), None);
    assert_eq!(run(&mut Promises::new(Pack::Chain2), &log(true)), Some("H-S6"));
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
fn a_commit_outlives_a_lock_of_its_view_and_none_of_a_later_one() {
    // Over the budget two blocks of one view are certified. The lock is on block 1; block 9 stands on its rival 7, or on 6.
    let voted = |committed: Option<u8>, below: u8| {
        let blocks = [header(1, 6, 0, 0), header(2, 1, 0, 0), header(2, 7, 0, 0), header(5, 9, below, 2)];
        let commit = committed.map(|name| by(0, Seen::Committed { digest: digest(name), last: 0 }));
        let vote = by(0, safety(mark(5, 9), 2, mark(0, 0)));
        let seen = blocks.map(|block| by(0, block)).into_iter().chain(commit).chain([vote]);
        run(&mut Promises::new(Pack::Chain3), &seen.collect::<Vec<_>>())
    };
    assert_eq!(voted(None, 7), Some("H-S6"));
    assert_eq!(voted(Some(7), 7), None);
    assert_eq!(voted(Some(6), 7), Some("H-S6"), "the block does not stand on what is committed");
    assert_eq!(voted(Some(6), 6), Some("H-S6"), "the commit is older than the lock");
}

#[test]
fn a_lock_that_rises_behind_a_vote_stands_on_its_branch() {
    // The lock of these records is on block 1.
    let voted = |view, name, parent_of_lock| {
        let blocks =
            [header(1, 4, 0, 0), header(2, 2, 4, 1), header(2, 9, 4, 1), header(3, 1, parent_of_lock, 2)];
        let mut seen: Vec<Sighting> = blocks.into_iter().map(|block| by(0, block)).collect();
        seen.push(by(0, safety(mark(view, name), 3, mark(4, 5))));
        run(&mut Promises::new(Pack::Chain3), &seen)
    };
    assert_eq!(voted(2, 2, 2), None);
    assert_eq!(voted(2, 2, 9), Some("H-S6"));
}

#[test]
fn a_commit_needs_the_votes_of_its_pack() {
    let votes = |view, name, phase| (0..3).map(move |n| by(n, Seen::Voted(mark(view, name), phase)));
    let commit = by(0, Seen::Committed { digest: digest(1), last: 1 });
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
    all.push(by(0, Seen::Committed { digest: digest(1), last: 1 }));
    assert_eq!(run(&mut Commits::new(Pack::Chain3, 4), &all), Some("H-S7"));
    // A two-chain commits block 2 at views 3 and 4, and its ancestor 1 with it.
    assert_eq!(run(&mut Commits::new(Pack::Chain2, 4), &all), None);
    let unknown = [by(0, Seen::Committed { digest: digest(77), last: 1 })];
    assert_eq!(run(&mut Commits::new(Pack::Chain2, 4), &unknown), Some("H-S7"));
}

#[test]
fn what_is_delivered_before_its_commit_is_written_is_found() {
    let committed = by(0, Seen::Committed { digest: digest(1), last: 3 });
    let promises = || Promises::new(Pack::Chain2);
    assert_eq!(run(&mut promises(), &[committed, delivered(0, 3, 7)]), None);
    assert_eq!(run(&mut promises(), &[by(0, Seen::Stable(3)), delivered(0, 3, 7)]), None);
    assert_eq!(run(&mut promises(), &[delivered(0, 3, 7), committed]), Some("X3"));
    assert_eq!(run(&mut promises(), &[committed, delivered(0, 4, 7)]), Some("X3"));
}

#[test]
fn where_order_votes_commit_the_certificate_of_a_block_covers_what_lies_up_to_it_and_nothing_above() {
    let blocks = [by(0, header(1, 1, 0, 0)), by(0, header(2, 2, 1, 1)), by(0, header(3, 3, 2, 2))];
    let certificate = |node: u32| {
        let seen = CertSeen { phase: Phase::Generic, of: mark(2, 2), signers: 0b111 };
        by(node, Seen::Certificate(seen))
    };
    let found = |pack: Pack, rest: &[Sighting]| run(&mut Promises::new(pack), &[&blocks, rest].concat());
    let upto = [certificate(0), delivered(0, 1, 7), delivered(0, 2, 7)];
    assert_eq!(found(Pack::Chain2Order, &upto), None);
    assert_eq!(found(Pack::Chain2, &upto), Some("X3"), "a chain of two needs its commit");
    assert_eq!(found(Pack::Chain2Order, &[certificate(0), delivered(0, 3, 7)]), Some("X3"));
    assert_eq!(found(Pack::Chain2Order, &[certificate(1), delivered(0, 1, 7)]), Some("X3"));
}

#[test]
fn a_complaint_that_hides_a_certificate_is_found() {
    let record = |complained: u64| {
        Seen::Safety(SafetySeen {
            voted: (mark(5, 5), Phase::Generic),
            proposed: mark(0, 0),
            ordered: mark(4, 4),
            complained,
            lock: mark(0, 0),
            high: mark(4, 4),
            given_up: 0,
        })
    };
    let complaint = |view, high| by(0, Seen::Complained { view, high });
    let promised = [by(0, header(5, 5, 4, 4)), by(0, record(9))];
    let with = |last: Sighting| run(&mut Promises::new(Pack::Chain2), &[&promised[..], &[last]].concat());
    assert_eq!(with(complaint(9, 4)), None);
    assert_eq!(with(complaint(9, 3)), Some("H-S6"), "it ordered view 4");
    assert_eq!(with(complaint(3, 2)), None, "what it gave up before that promise hides nothing");
    assert_eq!(with(complaint(10, 4)), Some("X3"));
}
