//! Replicas and memory nodes that lost what they knew, and come back with the next epoch.

use synod_machine::Span;
use synod_quorum::{Epoch, NodeId};
use synod_ubft::message::Message;
use synod_ubft::replica::Word;

use crate::net::seeds;
use crate::town::Town;

const SOON: Span = Span::millis(50);
const LONG: Span = Span::secs(20);

fn plain(_: &mut synod_ubft::replica::ReplicaConfig) {}

/// U-S13: from now on a replica says nothing in an epoch before `epoch` but what asks for something.
fn is_silent_before(town: &mut Town, id: u32, epoch: u32) {
    let lie = move |_: NodeId, message: &Message| {
        let promises = matches!(message, Message::Word { word, epoch: of } if of.0 < epoch && !matches!(word, Word::Fetch(_)));
        assert!(!promises, "U-S13: {message:?}");
        Some(message.clone())
    };
    town.net.lies.insert(NodeId(id), Box::new(lie));
}

fn epoch(town: &Town, id: u32) -> Epoch {
    town.of(id).configuration().epoch
}

#[test]
fn t37_a_replica_that_was_killed_is_silent_until_an_epoch_lists_it_and_then_takes_part() {
    for seed in seeds(6) {
        for victim in 0..3 {
            let mut town = Town::new(3, 1, seed, plain);
            town.open();
            for round in 0..seed * 4 {
                town.ask(0, &format!("before {round}"), LONG);
            }
            town.net.stop(NodeId(victim));
            town.pass(Span::millis(seed));
            is_silent_before(&mut town, victim, 1);
            town.restart(victim);
            assert_eq!(town.of(victim).incarnation(), 2);
            assert!(!town.takes_part(victim));
            let took = town.rejoined(victim, LONG);
            assert!(took <= Span::secs(2), "it took {took}");
            assert!((0..3).all(|id| epoch(&town, id) == Epoch(1)), "{}", town.describe());
            assert_eq!(town.of(victim).configuration().incarnation(NodeId(victim)), Some(2));
            for round in 0..40 {
                town.ask(0, &format!("after {round}"), LONG);
            }
            town.pass(SOON);
            let (one, all) = (town.chains(0), (0..3).map(|id| town.chains(id)));
            assert!(all.into_iter().all(|chains| chains == one), "{}", town.describe());
            assert!(town.net.blamed.is_empty(), "{:?}", town.net.blamed);
        }
    }
}
