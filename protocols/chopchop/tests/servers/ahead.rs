//! Batches are opened and split ahead of their turn, and delivered in their turn all the same.

use std::collections::VecDeque;

use synod_chopchop::server::{ServerJob, ServerTask};
use synod_machine::{Event, Job as _};

use crate::world::{BROKER, CLIENTS, N, Recipe, World};

type Jobs = VecDeque<ServerJob<synod_machine::Never>>;

/// Lets server 1 do every job but deduplication, and all others everything; how often it split a batch.
fn all_but_lanes(world: &mut World) -> usize {
    let (mut lanes, mut splits): (Jobs, usize) = (Jobs::new(), 0);
    let keys = world.maker.ring.keys(1);
    world.node_mut(1).server.holding = true;
    loop {
        world.calm();
        let mut jobs: Jobs = world.node_mut(1).server.jobs.drain(..).collect();
        jobs.retain(|job| match job {
            ServerJob::Own(own) => match &own.1 {
                ServerTask::Dedup { .. } => {
                    lanes.push_back(job.clone());
                    false
                }
                ServerTask::Split(..) => {
                    splits += 1;
                    true
                }
                _ => true,
            },
            ServerJob::Order(never) => match *never {},
        });
        if jobs.is_empty() {
            break;
        }
        let done = ServerJob::run_all(jobs.into(), &keys);
        world.node_mut(1).server.local.extend(done.into_iter().map(Event::Done));
    }
    world.node_mut(1).server.jobs = lanes;
    splits
}

#[test]
fn batches_that_come_next_are_split_while_those_before_them_are_deduplicated() {
    let mut world = World::usual();
    // The same clients in all, so that only the order of heights delivers all of them.
    let batches: Vec<_> =
        (0..6).map(|k| world.maker.batch(&Recipe::of(k, &[(1, 5 + k), (9, 70 + k)]))).collect();
    all_but_lanes(&mut world);
    let mut splits = 0;
    for batch in &batches {
        world.upload(BROKER, &[0, 1, 2, 3], batch);
        world.order(batch, &[0, 2]);
        splits += all_but_lanes(&mut world);
    }
    assert_eq!(world.server(1).delivered(), 1, "the lanes of the first one are out");
    assert_eq!(splits, 4, "as many as a server holds for delivery");
    world.node_mut(1).server.holding = false;
    world.calm();
    assert_eq!(world.delivered(), [7; N as usize]);
    for batch in &batches {
        assert_eq!(world.outcome(batch), [], "the numbers of a client rise");
    }
    world.agree();
}

#[test]
fn a_batch_of_the_cards_before_it_is_split_by_the_table_that_has_them() {
    let (mut world, cards) = crate::signup::world_with_cards();
    let first = world.maker.batch(&Recipe::of(0, &[(1, 5)]));
    let (batch, _) = crate::signup::upload(&mut world, &cards);
    let second = Recipe { directory: CLIENTS + 2, ..Recipe::of(1, &[(1, 6), (CLIENTS + 1, 7)]) };
    let second = world.maker.batch(&second);
    all_but_lanes(&mut world);
    world.upload(BROKER, &[0, 1, 2, 3], &first);
    world.order(&first, &[0, 2]);
    crate::signup::order(&mut world, &batch);
    let mut splits = all_but_lanes(&mut world);
    // The other servers have delivered the cards by now, and witness what follows.
    world.upload(BROKER, &[0, 1, 2, 3], &second);
    world.order(&second, &[0, 2]);
    splits += all_but_lanes(&mut world);
    assert_eq!((world.server(1).delivered(), splits), (1, 1), "what stands behind cards waits for them");
    world.node_mut(1).server.holding = false;
    world.calm();
    assert_eq!(world.delivered(), [4; N as usize]);
    assert_eq!(world.outcome(&second), []);
    world.agree();
}
