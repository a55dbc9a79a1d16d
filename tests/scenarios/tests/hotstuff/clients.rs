//! What clients may rely on whatever becomes of leaders and blocks: one execution (TK1), nothing accepted is lost (TK2),
//! a command at idle costs one block (TK4), bad frames change no view (TK7), a greedy client slows nobody (TK8).

use synod_hotstuff::{Item, Message};
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_scenarios::{SYSTEMS, settles, warm};
use synod_service::{ClientFrame, UNSIGNED};
use synod_trial::stage::{Fate, Stage, What};
use synod_wire::{Blob, Bytes, List};

/// One-view terms, so that every view has another leader.
const ONE_VIEW: &[(&str, i64)] = &[("term_views", 1), ("reputation", 0), ("send_all", 1)];

fn leader(stage: &Stage) -> NodeId {
    stage.leader().expect("an idle cluster knows its leader")
}

/// TK1, TK2: clients send to all, every fifth block is orphaned and a leader dies; each command executes once.
#[test]
fn commands_of_orphaned_blocks_execute_once() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, ONE_VIEW);
        let from = stage.view();
        let orphaned = stage.direct(move |sent| match sent.message {
            Message::Vote { view, .. } if view.0 > from && view.0 % 5 == 0 => Fate::Drop,
            _ => Fate::Pass,
        });
        for round in 0..12 {
            (0..2).for_each(|guest| stage.ask(guest));
            stage.run(Span::millis(120));
            if round == 5 {
                let first = leader(&stage);
                stage.world().crash(first, synod_sim::Loss::Nothing, Some(Span::millis(400)));
            }
        }
        assert!(stage.answered(Span::secs(12)), "{system}: {} commands wait", stage.book().open());
        let (asked, executed) = (stage.book().asked.len() as u64, stage.book().executed);
        assert_eq!(executed, asked, "{system}: not each command once");
        let given_up = stage.diary().rules("M5_advance_by_tc");
        assert!(orphaned.count() > 3 && given_up > 3, "{system}: {given_up} views were given up");
        let _report = settles(stage);
    }
}

/// TK2: the leader dies with the only forwarded copy; the member that accepted the command still has it.
#[test]
fn a_command_that_died_with_its_leader_is_proposed_by_another() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, &[("reputation", 0)]);
        let dead = leader(&stage);
        let guest = u32::from(dead.0 == 0);
        let holder = NodeId(guest);
        // The client reaches one member only; it may try the leader before.
        for id in (0..4).map(NodeId).filter(|id| *id != holder) {
            stage.world().block(NodeId(128 + guest), id);
        }
        let before = stage.book().highest.0;
        stage.ask(guest);
        let forwarded = stage.until(Span::millis(900), |event| {
            event.node == dead && matches!(event.what, What::Heard(_, Message::Forward(_)))
        });
        assert!(forwarded, "{system}: it was not forwarded");
        stage.kill(dead);
        let done = stage.until(Span::secs(2), |event| {
            event.node != dead && matches!(event.what, What::Delivered(position) if position > before)
        });
        assert!(done, "{system}: the command died with the leader");
        let _report = settles(stage);
    }
}

/// TK4, R8: one command at idle. With order votes it costs one block, and no pack waits for a timer.
#[test]
fn a_command_at_idle_commits_at_once() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, &[]);
        stage.run(Span::secs(2));
        for _ in 0..5 {
            let (blocks, view) = (stage.book().blocks, stage.view());
            stage.ask(0);
            assert!(stage.answered(Span::millis(40)), "{system}: it waits for something");
            stage.run(Span::millis(60));
            let (blocks, views) = (stage.book().blocks - blocks, stage.view() - view);
            // Three and two empty blocks push the last one to its commit where certificates of children do it.
            let most = match system {
                "hotstuff/chain3" => 3,
                "hotstuff/chain2" => 2,
                _ => 1,
            };
            assert!((1..=most).contains(&blocks), "{system}: {blocks} blocks for one command");
            assert_eq!(views, blocks, "{system}: a view without a block");
        }
        assert_eq!(stage.diary().rules("M2_complain"), 0, "{system}: somebody waited in vain");
        let _report = settles(stage);
    }
}

/// TK7: a member puts items into its forwards that are no frames, and frames whose signature is broken. They waste a
/// place in a block and change no view.
#[test]
fn items_that_are_no_frames_change_no_view() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, &[("send_all", 1)]);
        let liar = NodeId((leader(&stage).0 + 1) % 4);
        let mut number = 0_u32;
        let lies = stage.corrupt(liar, move |sent, _| match sent.message {
            Message::Forward(items) => {
                number += 1;
                let noise = Item::new(format!("noise {number}").into_bytes().into());
                let broken = items.iter().next().and_then(|item| {
                    let mut bytes = item.payload.bytes().to_vec();
                    if let Some(last) = bytes.last_mut() {
                        *last ^= 1;
                    }
                    Item::new(bytes.into())
                });
                let all: Vec<Item> = items.iter().cloned().chain(noise).chain(broken).collect();
                all.try_into().map_or(Fate::Pass, |items| Fate::Say(vec![Message::Forward(items)]))
            }
            _ => Fate::Pass,
        });
        let before = stage.book().highest.0;
        for _ in 0..20 {
            (0..2).for_each(|guest| stage.ask(guest));
            assert!(stage.answered(Span::secs(2)), "{system}: commands wait");
        }
        let given_up = stage.diary().rules("M5_advance_by_tc");
        assert_eq!(given_up, 0, "{system}: views were given up");
        let delivered = stage.book().highest.0 - before;
        assert!(lies.count() > 0 && delivered > 40, "{system}: {delivered} items, {} lies", lies.count());
        let _report = settles(stage);
    }
}

/// Frames that no client signed: of the sessions of the two clients, and of any number of others.
fn forged(from: u64, count: u64) -> Vec<Item> {
    let frame = |number: u64| {
        let command = Blob::try_from(Bytes::from(vec![7; 200])).expect("short");
        let session = if number.is_multiple_of(2) { 1 + number / 2 % 4 } else { 1_000 + number };
        let commands = List::try_from(vec![command]).expect("short");
        let frame = ClientFrame { session, first: number, acked: 1, full: 0, commands, signature: UNSIGNED };
        Item::new(synod_service::Item::Frame(frame).payload()).expect("not empty")
    };
    (from..from + count).map(frame).collect()
}

/// 4.14: with everything it sends, a member forwards frames that nobody signed, in the clients' names and in others',
/// more than the pools hold. No pool turns the clients away: what they ask waits at most for views that the liar spoils,
/// and in the default pack, where it does not lead, for nothing.
#[test]
fn a_flood_of_forwarded_lies_keeps_no_command_of_a_client_out() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, &[("pool_items", 600), ("reputation", 0)]);
        let liar = NodeId((leader(&stage).0 + 1) % 4);
        let alone = latencies(&mut stage, 10, 0);
        let lies = stage.corrupt(liar, move |sent, _| {
            // The same to all, and anew a thousand times a second.
            let items = forged(100 * (sent.at.0 / 1_000_000), 100).try_into().expect("fits a message");
            Fate::Say(vec![sent.message.clone(), Message::Forward(items)])
        });
        let before = stage.book().highest.0;
        let flooded = latencies(&mut stage, 60, 1);
        let (median, most) = (|took: &[Span]| took[took.len() / 2], flooded[flooded.len() - 1]);
        assert!(most <= Span::millis(500), "{system}: a command took {most}");
        if system == "hotstuff/chain2+order" {
            let (alone, flooded) = (median(&alone), median(&flooded));
            assert!(flooded.0 <= 2 * alone.0, "{system}: {alone} alone, {flooded} under a flood");
        }
        let (said, ordered) = (lies.count() * 100, stage.book().highest.0 - before);
        assert!(said > 4_000 && ordered > 200, "{system}: {said} lies, {ordered} items ordered");
        let _report = settles(stage);
    }
}

/// The latencies of so many commands of one guest, asked one after the other, in ascending order; another asks for
/// `beside` commands with each.
fn latencies(stage: &mut Stage, count: usize, beside: u32) -> Vec<Span> {
    let mut took = Vec::with_capacity(count);
    for _ in 0..count {
        (0..beside).for_each(|_| stage.ask(0));
        let tag = u64::try_from(stage.book().asked.len()).unwrap_or(u64::MAX);
        stage.ask(1);
        let asked: Time = stage.now();
        while stage.book().get(tag).is_some_and(|asked| asked.open)
            && stage.now().since(asked) < Span::secs(4)
        {
            stage.run(Span::micros(100));
        }
        took.push(stage.now().since(asked));
        stage.run(Span::millis(2));
    }
    took.sort_unstable();
    took
}

/// TK8: one client asks for ten times what another does; the other's slowest commands take at most twice as long.
#[test]
fn a_client_at_ten_times_the_load_does_not_slow_another_down() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, &[]);
        let alone = latencies(&mut stage, 200, 0);
        let beside = latencies(&mut stage, 200, 10);
        let most = |took: &[Span]| took[took.len() * 99 / 100];
        assert!(
            most(&beside).0 <= 2 * most(&alone).0,
            "{system}: {} alone, {} beside",
            most(&alone),
            most(&beside)
        );
        assert!(stage.book().accepted > 700, "{system}: the other did not ask for ten times as much");
        let _report = settles(stage);
    }
}

/// What a read of the number of executed commands said, once it did.
fn said(stage: &mut Stage, tag: u64) -> u64 {
    let deadline = stage.now() + Span::secs(4);
    loop {
        let value = stage.diary().accepted(tag).cloned();
        if let Some(value) = value {
            return u64::from_le_bytes(value.as_ref().try_into().expect("a count has eight bytes"));
        }
        assert!(stage.now() < deadline, "a read waits");
        stage.run(Span::micros(200));
    }
}

/// TK9, K2: quorum reads of one client beside the writes of another, with a member that hears little, a member that
/// dies, and reads that begin in the midst of a write: none is older than what was acknowledged before it began, and
/// none is older than another read.
#[test]
fn quorum_reads_see_what_was_acknowledged_before_them() {
    for system in SYSTEMS {
        let mut stage = warm(system, 4, &[("reputation", 0)]);
        let (deaf, dead) = (NodeId(3), NodeId((leader(&stage).0 + 1) % 3));
        let hidden = stage.direct(move |sent| match sent.message {
            Message::Propose { .. } | Message::Body { .. } | Message::Blocks(_) if sent.to == deaf => {
                Fate::Delay(Span::millis(9))
            }
            _ => Fate::Pass,
        });
        let mut seen = 0;
        for round in 0..24 {
            if round == 12 {
                stage.world().crash(dead, synod_sim::Loss::Nothing, Some(Span::millis(150)));
            }
            let floor = stage.book().accepted.max(seen);
            stage.ask(0);
            stage.run(Span::micros(round * 731 % 9_000));
            // What was acknowledged until now must be seen.
            let floor = floor.max(stage.book().accepted);
            let tag = stage.read_count(1);
            let read = said(&mut stage, tag);
            let most = stage.book().asked.len() as u64;
            assert!((floor..=most).contains(&read), "{system}: {read} of {floor} to {most} in round {round}");
            seen = read;
            assert!(stage.answered(Span::secs(4)), "{system}: a command waits");
        }
        assert!(seen >= 24 && hidden.count() > 20, "{system}: {seen}, {}", hidden.count());
        assert!(stage.diary().rules("X_barrier") > 0, "{system}: no read waited for a barrier");
        let _report = settles(stage);
    }
}
