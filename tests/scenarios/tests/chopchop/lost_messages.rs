//! Attacks by what is not said: T7, T20, T24, T26, T27, T32, T34; and T40 and T46, in which somebody lies.

use synod_chopchop::message::{ClientMessage, StoreMessage};
use synod_machine::Span;
use synod_quorum::NodeId;
use synod_scenarios::{suffering, with};
use synod_sim::Family;
use synod_trial::systems::chopchop::SYSTEMS;
use synod_trial::systems::chopchop::stage::Stage;
use synod_wire::Drawn;

use crate::{FIRST, Message, calm, settles, stage, told};

/// From one second on and for ever.
const FOR_EVER: (Span, Span) = (Span::secs(1), Span::secs(100_000));

#[test]
fn t07_deliveries_that_the_first_broker_keeps_to_itself_come_from_the_other() {
    for system in SYSTEMS {
        let scenario = calm(system, 4, 4);
        let mut stage = stage(&scenario, |from, _, message| {
            !(from == FIRST && matches!(message, Message::Client(ClientMessage::Delivery(_))))
        });
        stage.run(Span::secs(12));
        let told = told(&stage);
        assert!(stage.clients().iter().all(|id| told.get(&id.0).is_some_and(|told| *told > 5)), "{told:?}");
        let report = settles(stage);
        assert!(report.applied.contains(&"other_broker"), "{system}: nobody turned to the other one");
    }
}

#[test]
fn t20_batches_that_only_two_servers_are_given_reach_all() {
    for system in SYSTEMS {
        let scenario = calm(system, 4, 4);
        let mut stage = stage(&scenario, |_, to, message| {
            to.0 < 2 || !matches!(message, Message::Store(StoreMessage::Batch(_)))
        });
        stage.run(Span::secs(6));
        let heights = stage.book(|book| book.heights.clone());
        let highest = heights.values().max().copied().unwrap_or(0);
        assert!(highest > 10, "{system}: {heights:?}");
        assert!(heights.values().all(|height| height + 3 >= highest), "{system}: {heights:?}");
        let report = settles(stage);
        assert!(report.counts["retrievals"] > 0);
    }
}

#[test]
fn t24_a_server_that_is_down_all_the_time_catches_up() {
    for system in SYSTEMS {
        let numbers = [("retain_bytes", 8 << 10), ("checkpoint_every", 8)];
        let scenario = suffering(with(calm(system, 4, 6), &numbers), Family::NodeCrash, &[3], FOR_EVER, 1);
        let mut stage = stage(&scenario, |_, _, _| true);
        stage.run(Span::secs(8));
        assert!(stage.book(|book| book.highest) > 20, "{system}");
        settles(stage);
    }
}

#[test]
fn t26_clients_of_a_broker_that_dies_turn_to_the_other() {
    for system in SYSTEMS {
        // Brokers come behind the servers.
        let scenario = suffering(calm(system, 4, 4), Family::NodeCrash, &[4], FOR_EVER, 1);
        let mut stage = stage(&scenario, |_, _, _| true);
        stage.run(Span::secs(12));
        assert!(stage.book(|book| book.asked.iter().all(|asked| asked.told.is_some())), "{system}");
        let report = settles(stage);
        assert!(report.applied.contains(&"other_broker"), "{system}");
    }
}

#[test]
fn t27_a_client_that_is_gone_for_good_hinders_nobody() {
    for system in SYSTEMS {
        let scenario = suffering(calm(system, 4, 4), Family::NodeCrash, &[6], FOR_EVER, 1);
        let mut stage = stage(&scenario, |_, _, _| true);
        stage.run(Span::secs(8));
        let others: Vec<NodeId> = stage.clients().into_iter().skip(1).collect();
        let open = stage.book(|book| {
            let of_others = book.asked.iter().filter(|asked| others.contains(&NodeId(asked.node)));
            of_others.filter(|asked| asked.told.is_none()).count()
        });
        assert_eq!(open, 0, "{system}");
        settles(stage);
    }
}

#[test]
fn t32_lost_letters_of_clients_cost_shares_of_the_multi_signature_and_no_message() {
    for system in SYSTEMS {
        let mut together = Vec::new();
        for percent in [0, 5, 30] {
            let scenario = with(calm(system, 4, 8), &[("datagrams", 1), ("batch_max", 16)]);
            let mut drawn = Drawn::new(9);
            let mut stage = stage(&scenario, move |_, _, message| {
                !(matches!(message, Message::Client(_)) && drawn.below(100) < percent)
            });
            let told = |stage: &Stage| stage.book(|book| book.asked.iter().all(|asked| asked.told.is_some()));
            let mut seconds = 0..90;
            stage.run(Span::secs(4));
            while !told(&stage) && seconds.next().is_some() {
                stage.run(Span::secs(1));
            }
            assert!(told(&stage), "{system}, {percent} %");
            let counts = settles(stage).counts;
            let (shared, alone) = (counts["signed_together"], counts["stragglers"]);
            together.push(shared * 1_000 / (shared + alone).max(1));
        }
        // Broadcasts that are alone in their batch straggle with or without losses.
        assert!(together[0] > together[2] && together[2] > 0, "{system}: {together:?} of a thousand");
    }
}

#[test]
fn t34_a_client_that_never_signs_together_takes_that_from_nobody_else() {
    for system in SYSTEMS {
        let scenario = calm(system, 4, 6);
        let silent = NodeId(synod_trial::systems::chopchop::plan::CLIENTS);
        let mut stage = stage(&scenario, move |from, _, message| {
            !(from == silent && matches!(message, Message::Client(ClientMessage::MultiSig { .. })))
        });
        stage.run(Span::secs(20));
        assert!(stage.book(|book| book.asked.iter().all(|asked| asked.told.is_some())), "{system}");
        let counts = settles(stage).counts;
        assert!(counts["signed_together"] > 0 && counts["stragglers"] > 0, "{system}: {counts:?}");
    }
}

#[test]
fn t40_one_lying_server_and_t46_one_lying_broker_change_no_verdict() {
    for system in SYSTEMS {
        for liar in [0, 3, 4] {
            let forever = (Span::ZERO, Span::ZERO);
            let scenario = suffering(calm(system, 4, 6), Family::ByzBatches, &[liar], forever, 5);
            let mut stage = stage(&scenario, |_, _, _| true);
            stage.run(Span::secs(6));
            let report = settles(stage);
            assert!(report.counts["messages"] > 30, "{system}: {liar} lies");
        }
    }
}
