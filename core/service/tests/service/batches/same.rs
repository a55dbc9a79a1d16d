//! Checkpoints of one height: their state is one.

use synod_crypto::Hash;

use super::log;
use super::world::{Handed, World};

/// Nine heights, and behind the checkpoint of the last one three more of it, the third beyond the next batch; its root.
fn repeated(seed: u64) -> (Vec<Handed>, Hash) {
    let (mut handed, roots, _) = log(seed, 8);
    let (last, root) = *roots.last().expect("two checkpoints");
    assert_eq!((last, handed.len()), (25, 10));
    let batch = handed.pop().expect("the batch of height 9");
    handed.extend([Handed::Checkpoint(26, 8), Handed::Checkpoint(27, 8), batch, Handed::Checkpoint(28, 8)]);
    (handed, root)
}

#[test]
fn a_checkpoint_of_the_height_of_the_last_one_is_a_record_alone_and_stalls_nobody() {
    let (handed, root) = repeated(4);
    let mut world = World::new(2, 3, 0, 4);
    world.nodes[1].cursor = handed.len();
    world.log = handed;
    world.run();
    let expected = [25, 26, 27, 28].map(|position| (position, root));
    assert_eq!(world.nodes[0].applied[1..], expected, "also behind the next batch");
    assert_eq!(world.machine(0).height(), 9);
    world.blobs_are_those_kept(0);
    // Others find the state under the last position, also after a restart of whoever has it.
    world.restart(0);
    world.run();
    assert_eq!(world.nodes[0].applied.last(), Some(&(28, root)));
    world.jump(1, 28, 8, root);
    world.run();
    assert_eq!(world.nodes[1].applied, [(28, root)]);
    assert_eq!(world.machine(1).state().root(), root);
    assert!(world.faults.is_empty());
}

#[test]
fn a_crash_between_any_two_effects_of_such_checkpoints_costs_nothing() {
    let (handed, root) = repeated(5);
    for fuse in 0.. {
        let (world, crashed) = World::crashed_at(fuse, &handed);
        assert_eq!(world.nodes[0].applied.last(), Some(&(28, root)), "crash at effect {fuse}");
        world.blobs_are_those_kept(0);
        if !crashed {
            assert!(fuse > 50, "{fuse} crashes were tried");
            break;
        }
    }
}
