//! A replica that lost its promises acts again only where none of them can matter (TS15).

use synod_hotstuff::{
    CommitProof, Commitment, Kind, Message, NoteName, Pack, Parameters, Proof, Qc, Status, View,
};
use synod_machine::broadcast::Position;
use synod_machine::{Rng, Span};
use synod_quorum::NodeId;

use crate::world::{Made, Setup, World, one_view};

/// The member that loses its memory.
const X: u32 = 0;

fn terms_of_two(parameters: &mut Parameters) {
    one_view(parameters);
    parameters.term_views = 2;
}

/// A peer says where it stands.
fn status(height: u64, high: &Qc) -> Message {
    Message::Status(Status {
        height,
        view: View(height),
        high: high.clone(),
        tc: None,
        stable: Position(0),
        yours: None,
    })
}

/// The proof that a block is committed by order votes of the other three.
fn ordered(world: &World, made: &Made) -> Message {
    let qc = world.qc_as(Kind::Order, made.view(), made.digest(), &[1, 2, 3]);
    let proof = CommitProof { header: made.header.clone(), commitment: Commitment::Direct(qc) };
    Message::Advance(Proof::Commit(Box::new(proof)))
}

/// Shows X a block, its certificate and the proof of its commit.
fn committed(world: &mut World, made: &Made) {
    world.show(X, made);
    world.certify(X, made);
    let proof = ordered(world, made);
    world.say(1, X, proof);
}

/// What X promised in a view, whatever life it was in.
fn promised(world: &World, view: u64) -> usize {
    let by_x = world.said.iter().filter(|(from, _)| *from == X);
    by_x.filter(|(_, message)| match message {
        Message::Vote { view: of, .. } | Message::Order { view: of, .. } => of.0 == view,
        Message::Propose { header, .. } => header.view.0 == view,
        _ => false,
    })
    .count()
}

/// TS15: TC(3) reaches X only, X complains 5 and loses its log; the rest commit at 4; X is back. With its old complaint a
/// TC(5) may exist that says X held no certificate above 3's: so X must neither order nor vote in 5.
#[test]
pub(crate) fn an_amnesiac_neither_votes_nor_orders_in_a_view_it_may_have_given_up() {
    let mut world = World::new(Setup { tweak: terms_of_two, ..Setup::of(Pack::Chain2Order, &[X]) });
    let first = world.block(2, &world.genesis(), world.genesis_qc(), &["v2"]);
    let genesis = world.genesis_qc();
    let tc = world.tc(1, &[(1, &genesis), (2, &genesis), (3, &genesis)]);
    let mut b2 = first;
    b2.header.tc = Some(tc);
    let b3 = world.block(3, &b2, world.qc(&b2), &["v3"]);
    let tc3 = world.tc(3, &[(1, &genesis), (2, &genesis), (3, &genesis)]);
    let message = world.advance_tc(&tc3);
    world.say(3, X, message);
    assert_eq!(world.seat(X).seen().view, View(4), "the TC of view 3 reaches X");
    world.submit(X, "work");
    assert!(world.expire(X));
    assert_eq!(world.complaints(X).into_iter().collect::<Vec<_>>(), [(5, 0)], "X gives up 5");

    world.lose_memory(X);
    assert!(!world.seat(X).seen().acting && world.seat(X).noted(NoteName::Listening));
    let mut b4 = world.block(4, &b3, world.qc(&b3), &["v4"]);
    b4.header.proposer = 2;
    for made in [&b2, &b3, &b4] {
        committed(&mut world, made);
    }
    let high = world.qc(&b4);
    for id in [1, 2, 3] {
        world.say(id, X, status(3, &high));
    }
    assert_eq!(world.seat(X).seen().height, 3, "X learns what is committed at 4");
    assert!(!world.seat(X).seen().acting, "4 proves too little: what was shown is as high");
    let b5 = world.block(5, &b4, world.qc(&b4), &["v5"]);
    world.show(X, &b5);
    world.certify(X, &b5);
    for id in [2, 3] {
        let order = world.order(id, &b5);
        world.say(id, X, order);
    }
    assert_eq!(promised(&world, 5), 0, "X promises nothing in 5");
    assert_eq!(world.seat(X).seen().height, 3, "and b@5 lacks its order to commit");

    let b6 = world.block(6, &b5, world.qc(&b5), &["v6"]);
    committed(&mut world, &b6);
    let seen = world.seat(X).seen();
    assert!(seen.acting, "6 is two above what was shown: X acts again");
    assert_eq!(seen.complained, View(7), "and has given up the term of view 7");
    let b7 = world.block(7, &b6, world.qc(&b6), &["v7"]);
    world.show(X, &b7);
    world.certify(X, &b7);
    assert_eq!(promised(&world, 7) + promised(&world, 6), 0, "nothing before the next term");
    let mut b8 = world.block(8, &b7, world.qc(&b7), &["v8"]);
    b8.header.proposer = u8::try_from(world.plain(8)).expect("a member");
    if world.plain(8) != X {
        world.show(X, &b8);
        assert!(world.voted(X, &b8), "in the next term it votes");
    }
}

/// TS15: a listening replica says nothing that counts and takes nothing in.
#[test]
fn a_listening_replica_promises_nothing_and_serves_no_status() {
    for pack in [Pack::Basic, Pack::Chain3, Pack::Chain2, Pack::Chain2Order] {
        let mut world = World::alone(pack, X);
        world.lose_memory(X);
        world.flight.clear();
        world.said.clear();
        let ticket = world.submit(X, "work");
        let refused = world.seat(X).outputs.iter().any(|output| {
            matches!(output, synod_machine::broadcast::Delivered::Refused { ticket: of, .. } if *of == ticket)
        });
        assert!(refused, "{pack:?}: its user is refused");
        let b = world.block(1, &world.genesis(), world.genesis_qc(), &["b"]);
        world.show(X, &b);
        let genesis = world.genesis_qc();
        for id in [1, 2, 3] {
            let complaint = world.complain(id, 1, &genesis);
            world.say(id, X, complaint);
            world.say(id, X, Message::Fetch(synod_hotstuff::Want::Status));
        }
        world.expire(X);
        let counts = |message: &Message| {
            matches!(
                message,
                Message::Vote { .. }
                    | Message::Order { .. }
                    | Message::Complain { .. }
                    | Message::Propose { .. }
                    | Message::NewView { .. }
                    | Message::Attest { .. }
                    | Message::Status(_)
            )
        };
        let said: Vec<_> = world.said.iter().filter(|(_, message)| counts(message)).collect();
        assert!(said.is_empty(), "{pack:?}: {said:?}");
    }
}

/// Nobody asks for anything while X is away or after it is back: it has the others commit what it needs to see.
#[test]
fn an_amnesiac_rejoins_a_cluster_at_rest() {
    for pack in [Pack::Basic, Pack::Chain3, Pack::Chain2, Pack::Chain2Order] {
        for views in [0, 1, 7] {
            let mut world = World::four(pack, |_| {});
            for view in 0..views {
                world.submit(1, &format!("before {view}"));
                world.run(Span::secs(1));
            }
            world.lose_memory(X);
            world.run(Span::secs(8));
            assert!(world.seat(X).seen().acting, "{pack:?} after {views}");
            let before = world.seat(2).texts();
            world.submit(2, "behind");
            world.run(Span::secs(8));
            let texts = world.seat(X).texts();
            assert_eq!(texts.last().map(String::as_str), Some("behind"), "{pack:?} after {views}");
            assert!(texts.ends_with(&[&before[..], &["behind".to_owned()]].concat()), "{pack:?}");
        }
    }
}

/// TS15: fewer than a quorum of the others, or X itself, show nothing.
#[test]
fn an_amnesiac_waits_for_a_quorum_of_the_others() {
    let mut world = World::new(Setup { tweak: terms_of_two, ..Setup::of(Pack::Chain2Order, &[X]) });
    world.lose_memory(X);
    let genesis = world.genesis_qc();
    let mut parent = world.genesis();
    for view in 2..=7 {
        let justify = world.qc(&parent);
        let mut made = match parent.view() + 1 == view {
            true => world.block(view, &parent, justify, &[]),
            false => world.block_after_tc(view, &parent, justify, &[]),
        };
        if view % 2 == 0 && parent.view() + 1 == view {
            made.header.proposer = u8::try_from(world.plain(view)).expect("a member");
        }
        committed(&mut world, &made);
        for id in [1, 2] {
            world.say(id, X, status(0, &genesis));
        }
        assert!(!world.seat(X).seen().acting, "two of three others");
        parent = made;
    }
    world.say(3, X, status(0, &genesis));
    assert!(world.seat(X).seen().acting, "the third one says where it stands");
}

/// Everything a member promised, over all its lives: one block for each view and kind, nothing it had given up.
pub(crate) fn assert_no_promise_is_broken(world: &World, member: u32, case: &str) -> usize {
    let mut slots = std::collections::BTreeMap::new();
    let (mut complained, mut promises) = (0, 0);
    for (from, message) in &world.said {
        if *from != member {
            continue;
        }
        let slot = match message {
            Message::Vote { kind, view, digest, .. } => Some((view.0, format!("{kind:?}"), *digest)),
            Message::Order { view, digest, .. } => Some((view.0, "order".to_owned(), *digest)),
            Message::Propose { header, .. } => Some((header.view.0, "proposal".to_owned(), header.digest())),
            Message::Complain { view, .. } => {
                complained = complained.max(view.0);
                None
            }
            _ => None,
        };
        if let Some((view, kind, digest)) = slot {
            promises += 1;
            assert!(view > complained, "{case}: {kind} in {view}, which was given up");
            let first = *slots.entry((view, kind.clone())).or_insert(digest);
            assert_eq!(first, digest, "{case}: two {kind} in view {view}");
        }
    }
    promises
}

type Tweak = fn(&mut Parameters);

/// TS15, random schedules: X loses its memory again and again while links fail; no promise of any life is broken by a
/// later one, and nobody's deliveries disagree.
#[test]
fn random_losses_of_memory_break_no_promise_and_no_agreement() {
    let tweaks: [(u64, Tweak); 4] = [
        (1, one_view),
        (2, terms_of_two),
        (3, |p| {
            one_view(p);
            p.term_views = 3;
        }),
        (32, |p| {
            one_view(p);
            p.term_views = 32;
        }),
    ];
    let mut rejoined = 0;
    for (k, tweak) in tweaks {
        for seed in 0..12 {
            let mut world = World::new(Setup { tweak, ..Setup::of(Pack::Chain2Order, &[0, 1, 2, 3]) });
            let case = format!("term_views {k}, seed {seed}");
            let mut rng = Rng::new(seed, NodeId(0), 0);
            for round in 0..40 {
                let at = u32::try_from(rng.below(4)).expect("a member");
                world.submit(at, &format!("{seed} {round}"));
                let (from, to) = (rng.below(4), rng.below(4));
                let bad = round < 30 && rng.below(3) == 0;
                let span = Span::millis(5 + rng.below(200));
                world.run_losing(span, |e| bad && (u64::from(e.from) == from || u64::from(e.to) == to));
                if round % 13 == 7 {
                    world.lose_memory(X);
                }
            }
            for round in 40..60 {
                world.submit(1, &format!("{seed} {round}"));
                world.run(Span::secs(1));
            }
            for id in 0..4 {
                assert!(
                    assert_no_promise_is_broken(&world, id, &case) > 0,
                    "{case}: n{id} promised something"
                );
            }
            rejoined += u32::from(world.seat(X).seen().acting);
            let longest = (0..4).map(|id| world.seat(id).texts()).max_by_key(Vec::len).expect("members");
            assert!(longest.len() > 40, "{case}: {} delivered", longest.len());
            for id in 1..4 {
                let texts = world.seat(id).texts();
                assert_eq!(texts, longest[..texts.len()], "{case}: n{id}");
            }
        }
    }
    assert!(rejoined >= 40, "{rejoined} of 48 runs ended with X acting again");
}
