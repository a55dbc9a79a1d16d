//! What a committed block costs, pack by pack: messages, bytes, signatures, verifications, syncs.

use synod_hotstuff::Pack;
use synod_machine::Span;

use crate::golden::{assert_golden, four};
use crate::world::{Counts, World};

const PACKS: [Pack; 4] = [Pack::Basic, Pack::Chain3, Pack::Chain2, Pack::Chain2Order];

fn reset(world: &mut World) {
    world.seats.iter_mut().for_each(|seat| seat.counts = Counts::default());
}

fn heights(world: &World) -> Vec<u64> {
    world.seats.iter().map(|seat| seat.seen().height).collect()
}

/// One command in an idle cluster, from the submission to the silence after it; warmed up by another one.
fn idle(pack: Pack) -> (u64, Counts) {
    let mut world = four(pack);
    world.submit(0, "warm");
    world.run(Span::millis(200));
    let before = heights(&world);
    reset(&mut world);
    world.submit(0, "command");
    world.run(Span::millis(200));
    let after = heights(&world);
    assert!(world.seats.iter().all(|seat| seat.texts() == ["warm", "command"]), "{pack:?}");
    assert!(after.iter().all(|height| *height == after[0]), "{pack:?}: {after:?}");
    (after[0] - before[0], world.counts())
}

/// A command each millisecond at member 0, for 200 ms in the middle of a run.
fn busy(pack: Pack) -> (u64, Counts) {
    let mut world = four(pack);
    let mut before = Vec::new();
    for tick in 0..300 {
        if tick == 100 {
            before = heights(&world);
            reset(&mut world);
        }
        world.submit(0, &format!("command {tick:>4}"));
        world.run(Span::millis(1));
    }
    let after = heights(&world);
    (after[0] - before[0], world.counts())
}

fn line(name: &str, pack: Pack, (blocks, counts): (u64, Counts)) -> String {
    let each = |total: u64| format!("{}.{:02}", total / blocks, total % blocks * 100 / blocks);
    format!(
        "{:<13} {name}  {blocks:>6} {:>9} {:>9} {:>10} {:>13} {:>6}   {} messages, {} signatures, {} verifications, {} syncs a block\n",
        pack.name(),
        counts.messages,
        counts.bytes,
        counts.signatures,
        counts.verifications,
        counts.syncs,
        each(counts.messages),
        each(counts.signatures),
        each(counts.verifications),
        each(counts.syncs),
    )
}

/// Section 7.6: the counts are pinned; a change of any of them is read in review.
#[test]
fn counts_per_block_are_those_written_down() {
    let mut text = String::from(
        "# What committed blocks cost at n = 4, all members together, links of 1 ms, no faults.\n\
         # idle: one command in an idle cluster, with the empty blocks that commit it. busy: a command each\n\
         # millisecond, counted for 200 ms. A message to three members counts three; a sync is one that something\n\
         # said had to wait for.\n\n\
         # pack        run   blocks  messages     bytes signatures verifications  syncs\n",
    );
    for pack in PACKS {
        text.push_str(&line("idle", pack, idle(pack)));
        text.push_str(&line("busy", pack, busy(pack)));
    }
    assert_golden("hotstuff_counts.txt", &text);
}

/// The default pack at idle: one block, no empty one beside it.
#[test]
fn a_single_command_costs_one_block_with_order_votes() {
    assert_eq!(idle(Pack::Chain2Order).0, 1);
    assert_eq!(idle(Pack::Basic).0, 1);
}
