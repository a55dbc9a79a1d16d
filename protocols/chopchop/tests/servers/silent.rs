//! Stores that lost promises say nothing until no promise of theirs can matter any more (4.9).

use synod_chopchop::config::Rules;
use synod_machine::Condition;
use synod_quorum::NodeId;

use crate::world::{BROKER, Recipe, Setup, World};

/// Whether server 0 witnesses a new batch, which then takes its height.
fn witnesses(world: &mut World) -> bool {
    let height = world.server(1).height();
    let batch = world.maker.batch(&Recipe { expiry: height + 6, ..Recipe::of(height, &[(1, height)]) });
    let digest = world.upload(BROKER, &[0, 1, 2], &batch);
    world.order(&batch, &[1, 2]);
    world.shards(&digest).iter().any(|(id, _)| *id == NodeId(0))
}

#[test]
fn a_store_that_loses_promises_again_is_silent_again() {
    let usual = Setup::default();
    let rules = Rules { horizon: 8, checkpoint_every: 4, ..usual.rules };
    let mut world = World::new(Setup { rules, ..usual });
    let count = |world: &mut World, times: u64| (0..times).filter(|_| witnesses(world)).count();
    // Each loss falls behind a checkpoint, so that the server comes back at its height.
    assert_eq!(count(&mut world, 8), 8);
    for life in 0..3 {
        world.kill(0);
        world.open(0, Condition::Damaged);
        world.calm();
        assert_eq!(count(&mut world, 8), 0, "as many heights as the horizon, in life {life}");
        assert_eq!(count(&mut world, 4), 4, "life {life}");
        world.restart(0);
        assert_eq!(count(&mut world, 4), 4, "what is over stays over, in life {life}");
    }
    assert_eq!(world.delivered(), [57; 4]);
    world.agree();
}
