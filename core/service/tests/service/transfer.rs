//! Snapshots, restarts and state transfer: equal roots, lying sources, lost blobs (TC5, K4, H-S10, X9).

use synod_crypto::Hash;
use synod_machine::broadcast::{Delivered, Position};
use synod_machine::{Condition, Machine, Span};
use synod_quorum::NodeId;
use synod_service::{ClientMessage, ExecutorLimits, FetchState, Part, StateChunk, StateSummary};
use synod_wire::{Blob, Bytes, Limits, List, Wire};

use crate::world::{Lie, Setup, World, checkpoint};

/// Whether this lie of this member is seen.
type Named = fn(usize) -> bool;

/// A world whose state takes several chunks, at least one checkpoint behind it.
fn filled(seed: u64, keys: u32) -> World {
    let mut world = World::new(Setup { seed, ..Setup::default() });
    fill(&mut world, keys);
    world
}

fn fill(world: &mut World, keys: u32) {
    for key in 0..keys {
        let command = format!("put k{key} {}", "v".repeat(6_000));
        let tags = world.submit(0, &[&command]);
        world.run_until("the write", |world| world.all_answered(0, &tags));
    }
    world.run_for(Span::millis(50));
}

fn jump(world: &mut World, at: usize) {
    let (position, root) = world.certified().expect("a checkpoint");
    world.nodes[at].cursor = position;
    world.deliver(at, Delivered::Jump(checkpoint(position, root)));
}

fn settle(world: &mut World, at: usize) {
    world.run_until("the state is installed and the rest executed", |world| {
        world.executor(at).status().installing.is_none()
            && world.executor(at).executed().0 == world.log.len() as u64
    });
}

fn blobs_are_those_of_the_kept_snapshots(world: &World, at: usize) {
    let mut named = Vec::new();
    synod_machine::Recover::snapshot(world.executor(at), &mut |record| {
        if let synod_service::executor::ExecutorRecord::Taken(record) = record {
            named.extend(record.chunks.iter().map(|(name, _)| *name));
        }
    });
    named.sort_unstable();
    named.dedup();
    assert_eq!(world.nodes[at].blobs.keys().copied().collect::<Vec<_>>(), named);
}

#[test]
fn a_restart_comes_back_to_the_same_state() {
    for seed in 0..6 {
        let mut world = filled(seed, 40);
        let before = world.executor(1).app().clone();
        world.crash(1);
        world.restart(1);
        assert!(world.executor(1).resume_position().0 >= 32, "from a snapshot, not from the beginning");
        settle(&mut world, 1);
        assert_eq!(*world.executor(1).app(), before);
        fill(&mut world, 30);
        settle(&mut world, 1);
        assert_eq!(world.executor(1).app(), world.executor(2).app());
        blobs_are_those_of_the_kept_snapshots(&world, 1);
    }
}

#[test]
fn a_crash_at_every_effect_of_a_checkpoint_leaves_a_lane_to_come_back_from() {
    for fuse in 0..40 {
        let mut world = filled(3, 30);
        world.nodes[2].fuse = Some(fuse);
        fill(&mut world, 20);
        world.crash(2);
        world.restart(2);
        settle(&mut world, 2);
        assert_eq!(world.executor(2).app(), world.executor(0).app(), "fuse {fuse}");
    }
}

#[test]
fn a_lost_blob_is_fetched_from_the_others() {
    let mut world = filled(4, 60);
    let names: Vec<Hash> = world.nodes[0].blobs.keys().copied().collect();
    assert!(names.len() > 3);
    world.crash(0);
    world.nodes[0].blobs.remove(&names[0]);
    world.nodes[0].blobs.remove(&names[2]);
    world.restart(0);
    settle(&mut world, 0);
    assert_eq!(world.executor(0).app(), world.executor(1).app());
}

/// What it stored as its state is another one than the others certified.
#[test]
fn a_damaged_lane_is_not_believed_where_there_are_others() {
    for far_behind in [false, true] {
        let wrong = filled(9, 30);
        let mut world = World::new(Setup { seed: 8, ..Setup::default() });
        fill(&mut world, 60);
        world.crash(3);
        world.nodes[3].records = wrong.nodes[3].records.clone();
        world.nodes[3].blobs = wrong.nodes[3].blobs.clone();
        world.restart_over(3, Condition::Damaged);
        assert_eq!(world.executor(3).resume_position(), Position(0));
        assert_eq!(
            world.nodes[3].blobs, wrong.nodes[3].blobs,
            "nothing goes before there is something in its place"
        );
        if far_behind {
            jump(&mut world, 3);
        }
        settle(&mut world, 3);
        assert_eq!(world.executor(3).app(), world.executor(0).app());
        blobs_are_those_of_the_kept_snapshots(&world, 3);
    }
    let mut world = World::new(Setup { nodes: 1, ..Setup::default() });
    fill(&mut world, 40);
    let before = world.executor(0).app().clone();
    world.crash(0);
    world.restart_over(0, Condition::Damaged);
    assert!(world.executor(0).resume_position().0 >= 32, "nobody else has it");
    settle(&mut world, 0);
    assert_eq!(*world.executor(0).app(), before);
}

/// Its own state is nowhere any more, and what was delivered above it is more than it would let wait else.
#[test]
fn a_node_that_waits_for_a_lost_state_hears_of_a_newer_one() {
    let limits = ExecutorLimits { lag_bytes: 2_000, ..Setup::default().limits };
    let mut world = World::new(Setup { limits, ..Setup::default() });
    fill(&mut world, 40);
    world.crash(3);
    let newest = world.nodes[3].blobs.keys().copied().collect();
    world.nodes[3].rotten = newest;
    fill(&mut world, 60);
    world.restart(3);
    let own = world.executor(3).resume_position();
    let others = (0..3).map(|at| world.executor(at).resume_position());
    assert!(own.0 > 0 && others.min() > Some(own), "the others have released it");
    world.run_for(Span::secs(2));
    assert_eq!(world.executor(3).status().installing, Some(own));
    assert_eq!(world.nodes[3].cursor, world.log.len() as u64, "far more than 2,000 bytes were taken");
    assert!(world.executor(3).room() > 0, "the jump is an input too");
    jump(&mut world, 3);
    settle(&mut world, 3);
    assert_eq!(world.executor(3).app(), world.executor(0).app());
}

#[test]
fn a_node_far_behind_installs_a_certified_state_and_goes_on() {
    let mut world = World::new(Setup::default());
    world.nodes[3].paused = true;
    fill(&mut world, 60);
    jump(&mut world, 3);
    assert!(world.executor(3).status().installing.is_some());
    world.nodes[3].paused = false;
    settle(&mut world, 3);
    assert_eq!(world.executor(3).app(), world.executor(0).app());
    assert!(world.executor(3).resume_position().0 >= 48, "the installed state is durable");
    blobs_are_those_of_the_kept_snapshots(&world, 3);
    world.crash(3);
    world.restart(3);
    settle(&mut world, 3);
    assert_eq!(world.executor(3).app(), world.executor(0).app());
    assert!(world.faults.is_empty(), "nobody is blamed: {:?}", world.faults);
}

#[test]
fn a_transfer_that_is_overtaken_does_not_ask_who_was_silent_first_again() {
    let mut world = World::new(Setup::default());
    world.nodes[3].paused = true;
    fill(&mut world, 40);
    let (position, root) = world.certified().expect("a checkpoint");
    fill(&mut world, 30);
    (0..3).for_each(|at| world.nodes[at].lie = Some(withholding));
    world.nodes[3].cursor = position;
    world.deliver(3, Delivered::Jump(checkpoint(position, root)));
    world.nodes[3].paused = false;
    world.run_for(Span::millis(600));
    (1..3).for_each(|at| world.nodes[at].lie = None);
    jump(&mut world, 3);
    assert!(world.executor(3).status().installing.is_some_and(|to| to.0 > position), "a newer state");
    world.run_for(Span::millis(300));
    assert_eq!(world.executor(3).status().installing, None, "member 0 alone is silent");
    settle(&mut world, 3);
    assert_eq!(world.executor(3).app(), world.executor(1).app());
}

fn wrong_chunk(message: &mut ClientMessage) -> bool {
    if let ClientMessage::StateChunk(chunk) = message
        && chunk.part != Part::Summary
    {
        let mut bytes = chunk.bytes.to_vec();
        bytes[0] ^= 1;
        chunk.bytes = Blob::try_from(Bytes::from(bytes)).expect("as long");
    }
    true
}

/// A whole other state: a summary that is consistent with itself and with the chunks it names.
fn other_summary(message: &mut ClientMessage) -> bool {
    if let ClientMessage::StateChunk(chunk) = message
        && chunk.part == Part::Summary
    {
        let summary =
            StateSummary::decode(chunk.bytes.bytes().clone(), &Limits::default()).expect("a summary");
        let other = StateSummary { app_root: Hash::ZERO, ..summary };
        chunk.bytes = Blob::try_from(other.encode()).expect("as long");
    }
    true
}

fn short_path(message: &mut ClientMessage) -> bool {
    if let ClientMessage::StateChunk(chunk) = message {
        chunk.path = List::default();
    }
    true
}

fn withholding(message: &mut ClientMessage) -> bool {
    !matches!(message, ClientMessage::StateChunk(_))
}

#[test]
fn a_lying_source_is_named_and_the_state_is_right() {
    // The summary is asked of the first source alone, chunks of all.
    let lies: [(Lie, Named); 4] = [
        (wrong_chunk, |_| true),
        (other_summary, |at| at == 0),
        (short_path, |_| true),
        (withholding, |_| false),
    ];
    for (lie, named) in lies {
        for liar in 0..3 {
            let mut world = World::new(Setup::default());
            world.nodes[3].paused = true;
            fill(&mut world, 60);
            world.nodes[liar].lie = Some(lie);
            jump(&mut world, 3);
            world.nodes[3].paused = false;
            settle(&mut world, 3);
            assert_eq!(world.executor(3).app(), world.executor((liar + 1) % 3).app());
            let liar = NodeId(u32::try_from(liar).expect("small"));
            let blamed = world.faults.iter().filter(|(_, _, fault)| fault.name == "wrong_state_chunk");
            let blamed: Vec<NodeId> = blamed.map(|(_, peer, _)| *peer).collect();
            assert!(blamed.iter().all(|peer| *peer == liar), "only the liar is named");
            assert_eq!(!blamed.is_empty(), named(usize::try_from(liar.0).expect("small")));
        }
    }
}

#[test]
fn a_summary_that_many_send_is_nothing_against_the_certificate() {
    let mut world = World::new(Setup::default());
    world.nodes[3].paused = true;
    fill(&mut world, 60);
    (0..3).for_each(|at| world.nodes[at].lie = Some(other_summary));
    jump(&mut world, 3);
    world.run_for(Span::secs(10));
    assert!(world.executor(3).status().installing.is_some(), "three senders are no certificate");
    assert!(world.faults.len() >= 3);
    world.nodes[1].lie = None;
    world.nodes[3].paused = false;
    settle(&mut world, 3);
    assert_eq!(world.executor(3).app(), world.executor(1).app());
}

#[test]
fn a_newer_checkpoint_overtakes_a_transfer_and_nothing_leaks() {
    let mut world = World::new(Setup::default());
    world.nodes[3].paused = true;
    fill(&mut world, 60);
    jump(&mut world, 3);
    for _ in 0..12 {
        world.tick();
    }
    fill(&mut world, 40);
    jump(&mut world, 3);
    world.nodes[3].paused = false;
    settle(&mut world, 3);
    assert_eq!(world.executor(3).app(), world.executor(0).app());
    blobs_are_those_of_the_kept_snapshots(&world, 3);
}

#[test]
fn a_certified_checkpoint_releases_what_lies_below_it() {
    let mut world = filled(9, 100);
    world.run_for(Span::secs(1));
    let (stable, _) = world.certified().expect("a checkpoint");
    for at in 0..4 {
        assert_eq!(world.executor(at).resume_position(), Position(stable));
        blobs_are_those_of_the_kept_snapshots(&world, at);
        let records = world.nodes[at].records.len();
        assert!(records <= 4, "{records} records after compaction");
    }
}

#[test]
fn a_jump_to_what_is_executed_already_changes_nothing() {
    let mut world = filled(2, 40);
    let before = world.executor(0).executed();
    let (position, root) = world.certified().expect("a checkpoint");
    world.deliver(0, Delivered::Jump(checkpoint(position, root)));
    assert_eq!((world.executor(0).executed(), world.executor(0).status().installing), (before, None));
}

#[test]
fn entries_that_come_again_after_a_jump_are_executed_once() {
    let mut world = filled(2, 40);
    let (position, root) = world.certified().expect("a checkpoint");
    let before = world.executor(0).executed();
    assert!(before.0 > position, "something lies above the checkpoint");
    world.deliver(0, Delivered::Jump(checkpoint(position, root)));
    world.nodes[0].cursor = position;
    fill(&mut world, 5);
    settle(&mut world, 0);
    assert!(world.executor(0).executed() > before);
    assert_eq!(world.executor(0).app(), world.executor(1).app());
    assert!(world.faults.is_empty());
}

#[test]
fn a_state_that_is_being_installed_answers_nobody() {
    let mut world = World::new(Setup::default());
    world.nodes[3].paused = true;
    fill(&mut world, 40);
    (0..3).for_each(|at| world.nodes[at].lie = Some(withholding));
    jump(&mut world, 3);
    world.nodes[3].paused = false;
    let tags = world.submit(0, &["inc n"]);
    world.run_until("the others answer", |world| world.all_answered(0, &tags));
    world.run_for(Span::secs(1));
    assert!(world.executor(3).status().installing.is_some());
    assert!(world.executor(3).status().lag >= 1, "what is delivered waits");
    (0..3).for_each(|at| world.nodes[at].lie = None);
    settle(&mut world, 3);
    assert_eq!(world.executor(3).app(), world.executor(0).app());
}

#[test]
fn parts_that_are_not_there_are_not_answered() {
    let mut world = filled(2, 40);
    let (position, _) = world.certified().expect("a checkpoint");
    for (position, part) in [(position, Part::App(9_999)), (position, Part::Sessions(7)), (3, Part::Summary)]
    {
        let fetch = FetchState { position: Position(position), part };
        world.inject(NodeId(1), 0, ClientMessage::FetchState(fetch));
    }
    world.run_for(Span::secs(1));
    assert!(world.faults.is_empty());
    assert_eq!(world.executor(0).app(), world.executor(1).app());
}

#[test]
fn guests_give_no_part_of_a_state_and_cannot_have_others_asked_again() {
    let mut world = World::new(Setup::default());
    world.nodes[3].paused = true;
    fill(&mut world, 60);
    (0..3).for_each(|at| world.nodes[at].lie = Some(withholding));
    jump(&mut world, 3);
    let (position, _) = world.certified().expect("a checkpoint");
    let bytes = Blob::try_from(Bytes::from_static(b"no summary")).expect("short");
    let part = StateChunk { position: Position(position), part: Part::Summary, bytes, path: List::default() };
    for guest in 0..20 {
        world.inject(NodeId(NodeId::GUESTS.0 + guest), 3, ClientMessage::StateChunk(part.clone()));
    }
    world.run_for(Span::millis(100));
    assert_eq!(world.faults.len(), 20);
    assert!(world.faults.iter().all(|(_, _, fault)| fault.name == "out_of_role"));
    (0..3).for_each(|at| world.nodes[at].lie = None);
    world.nodes[3].paused = false;
    settle(&mut world, 3);
    assert_eq!(world.executor(3).app(), world.executor(0).app());
}
