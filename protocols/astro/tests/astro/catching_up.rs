//! A member that is further behind than others keep batches catches up by a certified cut, whoever lies to it.

use synod_astro::{
    Cut, CutSign, CutSigned, LaneEnd, Opened, Output, Piece, Range, Served, Timer as Due, Word,
};
use synod_broadcast::Lot;
use synod_crypto::{Hash, Scope};
use synod_ledger::{EntryId, Kind, Total, Units, genesis};
use synod_machine::{Event, Span};
use synod_quorum::NodeId;
use synod_wire::List;

use crate::alone::Alone;
use crate::bank::{
    Bank, CLUSTER, CONTEXT, EPOCH, Message, account, custodial, digest, equal_books, first, issuer, keys,
    order, parts, pay, signing, told,
};
use crate::forge::{batch, carried, prepare};

/// Payments of an issuer and what it sets aside, in a batch of lane 3 each.
fn batches(count: u64) -> Vec<Opened> {
    let (mut head, mut prev) = (genesis(issuer(3)), Hash::ZERO);
    let all = (1..=count).map(|n| {
        let kind = if n % 3 == 0 {
            Kind::Hold { to: custodial(2), amount: Units(2), resolver: custodial(2), expires_at: 0 }
        } else {
            pay(if n % 2 == 0 { custodial(2) } else { signing(0) }, 10)
        };
        let line = carried(issuer(3), n, head, kind, u128::from(n));
        head = digest(&line.entry);
        let opened = batch(n, prev, Vec::new(), vec![line]);
        prev = opened.digest;
        opened
    });
    all.collect()
}

fn cut(last: &Opened) -> Cut {
    let ends = (0..4).map(|source| match source {
        3 => LaneEnd { lot: last.lot(), digest: last.digest },
        source => LaneEnd { lot: Lot { source, sequence: 0 }, digest: Hash::ZERO },
    });
    let lanes = List::try_from(ends.collect::<Vec<_>>()).expect("four");
    Cut { context: CONTEXT, epoch: EPOCH, number: 1, proposer: 1, lanes, exceptions: List::default() }
}

fn own(word: Word) -> Message {
    Message::Own(word)
}

fn words(alone: &mut Alone) -> Vec<Word> {
    let own = std::mem::take(&mut alone.sent).into_iter().filter_map(|message| match message {
        Message::Own(word) => Some(word),
        Message::Broadcast(_) => None,
    });
    own.collect()
}

/// A member that settled all of these batches, with the cut behind the last of them certified; and what it shows of the cut.
fn served(all: &[Opened]) -> (Alone, Word) {
    let mut server = Alone::cutting();
    all.iter().for_each(|opened| server.certify_whole(opened));
    server.hear(1, own(Word::CutPropose(Box::new(cut(&all[all.len() - 1])))));
    let root = words(&mut server).into_iter().find_map(|word| match word {
        Word::CutSign(sign) => Some(sign.root),
        _ => None,
    });
    let root = root.expect("it has settled all of it");
    for by in 1..4 {
        let statement = CutSigned { context: CONTEXT, number: 1, proposer: 1, root };
        let signature =
            keys(by).sign(Scope { cluster: CLUSTER, epoch: EPOCH }, NodeId(by), statement).signature;
        let member = u8::try_from(by).expect("few");
        server.hear(by, own(Word::CutSign(CutSign { number: 1, proposer: 1, root, member, signature })));
    }
    server.sent.clear();
    server.hear(2, own(Word::AskCut(0)));
    let shown = words(&mut server).pop().expect("it is certified");
    (server, shown)
}

/// What a member asks for.
fn asks(alone: &mut Alone) -> Vec<(u64, Piece)> {
    let asks = words(alone).into_iter().filter_map(|word| match word {
        Word::AskRange { number, piece } => Some((number, piece)),
        _ => None,
    });
    asks.collect()
}

fn answer(server: &mut Alone, (number, piece): (u64, Piece)) -> Served {
    server.sent.clear();
    server.hear(2, own(Word::AskRange { number, piece }));
    let answer = words(server).pop();
    let Some(Word::Range(served)) = answer else { unreachable!("it has that: {answer:?}") };
    *served
}

/// All that is asked for is answered; gives how many parts there were.
fn serve(server: &mut Alone, behind: &mut Alone) -> usize {
    let mut parts = 0;
    loop {
        let asked = asks(behind);
        if asked.is_empty() {
            return parts;
        }
        for ask in asked {
            let served = answer(server, ask);
            behind.hear(1, own(Word::Range(Box::new(served))));
            parts += 1;
        }
    }
}

fn caught_up(alone: &Alone) -> usize {
    alone.told.iter().filter(|output| matches!(output, Output::CaughtUp { number: 1, .. })).count()
}

#[test]
fn a_member_that_lacks_more_than_others_keep_goes_on_from_a_certified_cut() {
    let all = batches(45);
    let (mut server, shown) = served(&all[..40]);
    let mut behind = Alone::cutting();
    // It had a little.
    all[..3].iter().for_each(|opened| behind.certify_whole(opened));
    behind.sent.clear();
    behind.hear(1, own(shown));
    assert_eq!(serve(&mut server, &mut behind), 2, "accounts and holds");
    assert_eq!(caught_up(&behind), 1);
    assert_eq!(parts(behind.replica.book()), parts(server.replica.book()));
    // What comes above the cut settles, here and after a crash anywhere.
    let mut lives = [behind.restarted(), behind.compacted(), behind];
    all[40..].iter().for_each(|opened| server.certify_whole(opened));
    for life in &mut lives {
        assert!(parts(life.replica.book()).len() > 12);
        all[40..].iter().for_each(|opened| life.certify_whole(opened));
        assert_eq!(parts(life.replica.book()), parts(server.replica.book()));
        assert!(life.blamed.is_empty());
        assert_eq!(parts(life.restarted().replica.book()), parts(server.replica.book()));
    }
}

#[test]
fn a_member_that_is_not_far_behind_asks_for_no_state() {
    let all = batches(16);
    let (_, shown) = served(&all);
    let mut behind = Alone::cutting();
    behind.hear(1, own(shown));
    assert!(asks(&mut behind).is_empty(), "others keep sixteen batches");
}

/// A served part with something changed.
fn lies(good: &Served) -> Vec<Served> {
    let with = |range: Range| Served { range, ..good.clone() };
    match &good.range {
        Range::Accounts { accounts, proof } => {
            let mut richer = accounts.to_vec();
            richer[2].standing.credits = Total::of(77);
            let mut renamed = accounts.to_vec();
            renamed[0].standing.opening.representative = 2;
            let mut recovered = accounts.to_vec();
            recovered[0].standing.opening.terms.recovery = Some(keys(3).public());
            let mut raised = accounts.to_vec();
            raised[1].standing.opening.limit_max = Units(5);
            let fewer = accounts[1..].to_vec();
            let mut further = accounts.to_vec();
            further[0].standing.sequence += 1;
            let mut free = accounts.to_vec();
            free[9].pending = Total::ZERO;
            let all = [richer, renamed, recovered, raised, fewer, further, free].into_iter();
            let list = |accounts: Vec<_>| List::try_from(accounts).expect("few");
            all.map(|accounts| with(Range::Accounts { accounts: list(accounts), proof: proof.clone() }))
                .collect()
        }
        Range::Holds { holds, path } => {
            let mut more = holds.to_vec();
            more[0].hold.to = custodial(3);
            let less = holds[1..].to_vec();
            let list = |holds: Vec<_>| List::try_from(holds).expect("few");
            [more, less].map(|holds| with(Range::Holds { holds: list(holds), path: path.clone() })).to_vec()
        }
    }
}

#[test]
fn a_part_that_is_none_is_blamed_and_asked_of_somebody_else() {
    let all = batches(40);
    let (mut server, shown) = served(&all);
    let mut tried = 0;
    for kind in 0..2 {
        for nth in 0.. {
            let mut behind = Alone::cutting();
            behind.hear(1, own(shown.clone()));
            let asked = asks(&mut behind);
            assert_eq!(asked.len(), 2);
            let good = answer(&mut server, asked[kind]);
            let Some(lie) = lies(&good).into_iter().nth(nth) else { break };
            behind.hear(3, own(Word::Range(Box::new(lie.clone()))));
            assert_eq!(behind.blamed, ["wrong_range"], "{lie:?}");
            assert_eq!(caught_up(&behind), 0);
            // The same liar once more, and one part for another.
            behind.hear(3, own(Word::Range(Box::new(lie))));
            let piece = asked[1 - kind].1;
            behind.hear(2, own(Word::Range(Box::new(Served { piece, ..good }))));
            assert_eq!(behind.blamed, ["wrong_range"; 3]);
            serve(&mut server, &mut behind);
            assert_eq!(caught_up(&behind), 1);
            assert_eq!(parts(behind.replica.book()), parts(server.replica.book()));
            tried += 1;
        }
    }
    assert_eq!(tried, 9);
}

#[test]
fn a_part_that_does_not_come_is_asked_again() {
    let all = batches(40);
    let (mut server, shown) = served(&all);
    let mut behind = Alone::cutting();
    behind.hear(1, own(shown));
    assert_eq!(asks(&mut behind).len(), 2);
    behind.run(Event::Timer(Due::Fetch));
    let again = asks(&mut behind);
    assert_eq!(again.len(), 2);
    for ask in again {
        let served = answer(&mut server, ask);
        behind.hear(1, own(Word::Range(Box::new(served))));
    }
    assert_eq!(caught_up(&behind), 1);
}

/// What a member promised stands: of its own log above the cut, and not against it.
#[test]
fn a_promise_above_the_cut_stands_and_one_beside_it_gives_way() {
    let all = batches(41);
    let (mut server, shown) = served(&all[..40]);
    let mut behind = Alone::cutting();
    all[..2].iter().for_each(|opened| behind.certify_whole(opened));
    // It endorsed a third entry that nobody else did: the certified one is another.
    let head = digest(&all[1].batch.lines[0].entry);
    let beside = carried(issuer(3), 3, head, pay(custodial(1), 9), 99);
    let other = batch(3, all[1].digest, Vec::new(), vec![beside]);
    behind.hear(3, prepare(&other));
    // And the first entry of an owner, which the cut does not count.
    let paid = carried(issuer(1), 1, genesis(issuer(1)), pay(signing(1), 50), 5);
    let funded = Opened::new(0, Lot { source: 1, sequence: 1 }, Hash::ZERO, Vec::new(), vec![paid]);
    behind.certify_whole(&funded);
    let spent = first(signing(1), pay(custodial(1), 20), 6);
    let spending = Opened::new(0, Lot { source: 1, sequence: 2 }, funded.digest, Vec::new(), vec![spent]);
    behind.hear(1, prepare(&spending));
    behind.hear(1, own(shown));
    serve(&mut server, &mut behind);
    assert_eq!(caught_up(&behind), 1);
    for life in [behind.restarted(), behind] {
        let book = life.replica.book();
        assert_eq!(book.account(issuer(3)).map(synod_ledger::Account::sequence), Some(40));
        assert_eq!(
            book.account(issuer(1)).map(synod_ledger::Account::sequence),
            Some(1),
            "settled beyond the cut"
        );
        let open: Vec<EntryId> = life
            .promises()
            .filter_map(|promise| match promise {
                synod_astro::Promise::Open { line, .. } => Some(line.entry.id),
                _ => None,
            })
            .collect();
        assert_eq!(open, [EntryId { spender: signing(1), n: 1 }]);
    }
}

/// Four members, one of which hears nothing for a long time while another one's lane goes on.
#[test]
fn a_member_that_heard_nothing_for_long_settles_with_the_others_again() {
    for seed in 0..4 {
        let mut world = Bank::cutting(4, seed, Span::millis(400));
        world.deaf = vec![NodeId(2)];
        for ticket in 1..=70 {
            order(&mut world, ticket, issuer(0), custodial(1), 1);
            world.until(|world| world.users.told[0].settled.len() as u64 == ticket);
        }
        world.deaf.clear();
        let there = |world: &crate::bank::World| {
            let books: Vec<_> = world.correct().map(|(_, seat)| parts(seat.machine.book())).collect();
            books.windows(2).all(|two| two[0] == two[1])
        };
        assert!(world.until(there), "seed {seed}");
        assert!(world.users.told[2].caught_up > 0, "seed {seed}: it lacked more than others keep");
        assert!(told(&world).all(|told| !told.cuts.is_empty()));
        // It goes on: its own customers pay, and it endorses what others pay.
        order(&mut world, 100, issuer(2), account(3, 2), 7);
        world.deaf = vec![NodeId(3)];
        assert!(world.until(|world| {
            let paid =
                |at: usize| world.users.told[at].settled.contains_key(&EntryId { spender: issuer(2), n: 1 });
            (0..3).all(paid)
        }));
        world.deaf.clear();
        assert!(world.until(there));
        equal_books(&world);
    }
}
