//! Snapshots: who is behind the archives takes one, and so does who finds that its own state is wrong.

use synod_crypto::Hash;
use synod_machine::Span;
use synod_quorum::NodeId;
use synod_ubft::Statement;
use synod_ubft::batch::Slot;
use synod_ubft::certificate::Snapshotted;
use synod_ubft::message::{Message, Standing};
use synod_ubft::replica::{Output, ReplicaConfig};
use synod_ubft::snapshot::Part;

use crate::net::seeds;
use crate::town::Town;
use crate::world::signature_by;

const SOON: Span = Span::millis(50);
const LONG: Span = Span::secs(20);

/// Snapshots behind each 32 slots, and an archive of a few batches.
fn small(settings: &mut ReplicaConfig) {
    settings.config.parameters.snapshot_slots = 32;
    settings.archive_bytes_max = 2 << 10;
}

#[test]
fn t26_a_replica_behind_the_archives_takes_a_snapshot_and_goes_on() {
    for seed in seeds(6) {
        let mut town = Town::new(3, 1, seed, small);
        town.open();
        town.ask(0, "before", LONG);
        town.net.cut_off(NodeId(2), 3);
        for round in 0..90 {
            town.ask(0, &format!("{round}"), LONG);
        }
        assert!(town.of(0).snapshotted().0 >= 64, "{}", town.describe());
        town.net.heal();
        for round in 0..20 {
            town.ask(0, &format!("again {round}"), LONG);
        }
        town.pass(Span::secs(1));
        assert!(town.count("A2.60_install") > 0 && town.installed(2) > 0, "{}", town.describe());
        assert!(!town.told.iter().any(|(_, told)| matches!(told, Output::Stranded { .. })));
        assert_eq!(town.executed(2), town.executed(1));
        assert_eq!(town.chains(2), town.chains(1));
        assert!(town.net.blamed.is_empty(), "{:?}", town.net.blamed);
        // It is worth as much as any other.
        town.net.stop(NodeId(0));
        town.liars.insert(NodeId(0));
        for round in 0..20 {
            town.ask(0, &format!("without the first {round}"), LONG);
        }
        town.pass(SOON);
        assert_eq!(town.chains(2), town.chains(1));
    }
}

/// Peers answer 64 times in T_fast. Where links are so fast that more pieces of a log fit into that, it was begun anew at each peer, for ever.
#[test]
fn a_log_of_more_pieces_than_a_peer_gives_in_a_while_is_fetched_over_links_however_fast() {
    let slow_waits = |settings: &mut ReplicaConfig| {
        settings.config.parameters.fast = Span::millis(100);
        settings.config.parameters.suspect = Span::millis(500);
    };
    let mut town = Town::new(3, 1, 5, slow_waits);
    town.open();
    town.net.cut_off(NodeId(2), 3);
    let slots = 16 * 80;
    for round in 0..slots {
        town.ask(0, &format!("{round}"), LONG);
    }
    assert_eq!(town.count("A2.60_transfer"), 0);
    town.net.heal();
    town.ask(0, "again", LONG);
    town.pass(Span::secs(3));
    assert!(town.count("A2.60_transfer") > 0 && town.executed(1) > slots, "{}", town.describe());
    assert_eq!(town.executed(2), town.executed(1), "{}", town.describe());
    assert_eq!(town.chains(2), town.chains(1));
}

const fn is_of(seed: u64, part: Part) -> bool {
    matches!((seed % 3, part), (0, Part::Summary) | (1, Part::Own(_)) | (2, Part::App(_)))
}

#[test]
fn t26_corrupt_chunks_and_summaries_make_their_sender_no_source() {
    let mut found = 0;
    for seed in seeds(12) {
        let mut town = Town::new(3, 1, seed, small);
        town.open();
        town.net.cut_off(NodeId(2), 3);
        for round in 0..90 {
            town.ask(0, &format!("{round}"), LONG);
        }
        // A byte of another value, in what the snapshot consists of, in what replicas hold, or in what the application holds.
        let lie = move |_: NodeId, message: &Message| match message {
            Message::Chunk { low, part, bytes, path } if is_of(seed, *part) => {
                let mut bytes = bytes.bytes().to_vec();
                bytes[9] ^= 1;
                let bytes = synod_wire::Bytes::from(bytes).try_into().expect("short");
                Some(Message::Chunk { low: *low, part: *part, bytes, path: path.clone() })
            }
            _ => Some(message.clone()),
        };
        town.net.lies.insert(NodeId(1), Box::new(lie));
        town.net.heal();
        for round in 0..20 {
            town.ask(0, &format!("again {round}"), LONG);
        }
        town.pass(Span::secs(2));
        assert!(town.count("A2.60_install") > 0, "{}", town.describe());
        assert_eq!(town.chains(2), town.chains(0), "{}", town.describe());
        assert!(town.net.blamed.iter().all(|blamed| *blamed == (NodeId(2), NodeId(1), "bad_content")));
        found += town.net.blamed.len();
        assert_eq!(town.executed(2), town.executed(0));
        assert!(town.compare_all(), "what was taken over is what was executed");
    }
    assert!(found > 3, "it was asked, and found out: {found} times");
}

#[test]
fn a_state_that_differs_from_what_was_certified_is_discarded_and_taken_anew() {
    for (seed, tweak) in seeds(4).flat_map(|seed| [(seed, small as fn(&mut ReplicaConfig)), (seed, |_| {})]) {
        let mut town = Town::new(3, 1, seed, tweak);
        town.open();
        for round in 0..50 {
            town.ask(0, &format!("before {round}"), LONG);
        }
        town.break_app_once(2);
        for round in 0..60 {
            town.ask(0, &format!("{round}"), LONG);
        }
        town.pass(Span::secs(1));
        let of = |what: fn(&Output) -> bool| {
            town.told.iter().filter(|(_, told)| what(told)).map(|(id, _)| *id).collect::<Vec<_>>()
        };
        assert_eq!(of(|told| matches!(told, Output::Diverged { .. })), [NodeId(2)]);
        assert!(of(|told| matches!(told, Output::Irreparable { .. })).is_empty());
        assert_eq!(town.chains(2), town.chains(1), "{}", town.describe());
        assert_eq!(town.executed(2), town.executed(1));
        // It answers again: with the first one gone it is needed for every result.
        town.net.stop(NodeId(0));
        town.liars.insert(NodeId(0));
        town.ask(0, "last", LONG);
    }
}

#[test]
fn t28_a_state_that_differs_again_ends_the_replica() {
    let mut town = Town::new(3, 1, 7, small);
    town.open();
    town.break_app(2);
    for round in 0..120 {
        town.ask(0, &format!("{round}"), LONG);
    }
    town.pass(SOON);
    let of_2 = |what: fn(&Output) -> bool| {
        assert!(town.told.iter().all(|(id, told)| *id == NodeId(2) || !what(told)));
        town.told.iter().filter(|(_, told)| what(told)).count()
    };
    assert_eq!(of_2(|told| matches!(told, Output::Diverged { .. })), 2);
    assert_eq!(of_2(|told| matches!(told, Output::Irreparable { .. })), 1);
}

#[test]
fn an_archive_that_is_full_waits_for_a_snapshot_and_goes_on_with_it() {
    for seed in seeds(4) {
        let mut town = Town::new(3, 1, seed, small);
        town.open();
        // Shares of snapshots reach nobody.
        let lie = |_: NodeId, message: &Message| {
            (!matches!(message, Message::CertifySnapshot { .. })).then(|| message.clone())
        };
        (0..3).for_each(|id| drop(town.net.lies.insert(NodeId(id), Box::new(lie))));
        let tickets: Vec<u64> = (0..10).map(|round| town.call(0, &format!("{round}"))).collect();
        town.pass(SOON);
        assert!(tickets.iter().all(|ticket| town.result(*ticket).is_some()));
        for _ in 0..150 {
            town.call(0, &"x".repeat(200));
            town.pass(Span::millis(2));
        }
        assert!(town.count("archive_full") > 0, "{}", town.describe());
        let executed = town.of(0).executed();
        town.pass(Span::millis(300));
        assert_eq!(town.of(0).executed(), executed, "nothing is executed");
        town.net.lies.clear();
        town.pass(Span::secs(3));
        assert!(town.of(0).executed() > executed && town.of(0).snapshotted().0 > 0, "{}", town.describe());
    }
}

#[test]
fn a_root_that_one_replica_alone_signs_is_nobodys_snapshot() {
    for seed in seeds(4) {
        let mut town = Town::new(3, 1, seed, small);
        town.open();
        town.net.cut_off(NodeId(2), 3);
        // A liar signs a root of its own for each snapshot.
        let lie = |_: NodeId, message: &Message| match message {
            Message::CertifySnapshot { snapshot, .. } => {
                let snapshot = Snapshotted { root: Hash([7; 32]), ..*snapshot };
                let statement = Statement::Snapshot { signer: 1, low: snapshot.low, root: snapshot.root };
                Some(Message::CertifySnapshot {
                    snapshot,
                    signature: Box::new(signature_by(NodeId(1), statement)),
                })
            }
            // Nor does it show what it has of the first one's.
            Message::Standing(standing) => {
                Some(Message::Standing(Box::new(Standing { snapshot: None, ..Standing::clone(standing) })))
            }
            _ => Some(message.clone()),
        };
        town.net.lies.insert(NodeId(1), Box::new(lie));
        for round in 0..8 {
            town.ask(0, &format!("{round}"), LONG);
        }
        for round in 0..40 {
            town.call(0, &format!("more {round}"));
            town.pass(Span::millis(5));
        }
        town.pass(Span::millis(200));
        assert!(town.count("snapshot") > 0);
        assert_eq!(town.of(0).snapshotted(), Slot(0), "two of three did not sign one root");
        // The third one's share makes it one, and nobody is stranded.
        town.net.heal();
        for round in 0..40 {
            town.call(0, &format!("of all {round}"));
            town.pass(Span::millis(20));
        }
        town.pass(Span::secs(2));
        assert!(town.of(0).snapshotted() > Slot(0), "{}", town.describe());
        assert_eq!(town.chains(2), town.chains(0), "{}", town.describe());
        assert!(
            town.net.blamed.is_empty(),
            "a signature of a wrong root proves nothing: {:?}",
            town.net.blamed
        );
    }
}

/// Found by `ubft/smr:5b9092`: who came to the next epoch later dropped a share of its first snapshot, and who had the certificate did not say
/// its share again, so the archive of the former was full for ever.
#[test]
fn whoever_missed_a_share_of_a_snapshot_is_given_the_certificate() {
    for seed in seeds(6) {
        let mut town = Town::new(3, 1, seed, small);
        town.open();
        // Replica 0 hears no share of the others, so it certifies nothing itself.
        let lie = |to: NodeId, message: &Message| {
            let is_share = matches!(message, Message::CertifySnapshot { .. });
            (!is_share || to != NodeId(0)).then(|| message.clone())
        };
        town.net.lies.insert(NodeId(1), Box::new(lie));
        town.net.lies.insert(NodeId(2), Box::new(lie));
        for round in 0..80 {
            town.call(0, &format!("{round}"));
            town.pass(Span::millis(5));
        }
        town.pass(Span::secs(2));
        assert!(town.of(1).snapshotted() > Slot(0), "{}", town.describe());
        assert!(town.of(0).snapshotted() > Slot(0), "{}", town.describe());
        assert_eq!(town.chains(0), town.chains(1), "{}", town.describe());
    }
}
