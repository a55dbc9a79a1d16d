//! Servers that uBFT orders: one of them and a memory node may be away, and all come to one state.

use crate::cluster::{Deployment, PATIENCE, pay, sign_up};
use std::time::{Duration, Instant};
use synod_service::BatchStanding;

/// Positions between two checkpoints.
const EVERY: u64 = 16;

impl Deployment {
    /// Waits until all servers that run stand at one height behind a checkpoint at or above this position, and gives where each stands.
    fn standings(&self, position: u64) -> Vec<BatchStanding> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let running = self.servers.iter().flatten();
            let all: Option<Vec<_>> = running.map(|server| Some(server.look().batches?.standing)).collect();
            let level = |one: &BatchStanding, first: &BatchStanding| {
                (one.height, one.checkpoint) == (first.height, first.checkpoint)
            };
            let is_there = |all: &Vec<BatchStanding>| {
                all.iter().all(|one| one.checkpoint.0 >= position && level(one, &all[0]))
            };
            if let Some(all) = all.clone().filter(is_there) {
                return all;
            }
            assert!(Instant::now() < deadline, "servers stand at {all:?}");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

#[test]
fn servers_over_ubft_have_one_state_root_though_one_and_a_memory_node_were_away_and_came_back() {
    let mut deployment = Deployment::of((3, 1, 3), &|parameters, _| {
        parameters.checkpoint_every = u32::try_from(EVERY).unwrap_or(16)
    });
    let client = deployment.client(0);
    assert_eq!(sign_up(&client), 0);
    let mut heights = Vec::new();
    let mut paid = |client, times: u64| {
        for _ in 0..times {
            let receipt = pay(client, 0, 1).receipt.expect("the first time");
            heights.push(receipt.certificate.statement.height);
        }
    };
    paid(&client, EVERY + 2);
    deployment.servers[2].take().expect("it runs").stop().expect("it ends well");
    deployment.memory[1].take().expect("it runs").stop().expect("it ends well");
    paid(&client, 2 * EVERY);
    deployment.start_memory(1);
    deployment.start_server(2);
    paid(&client, EVERY);
    let all = deployment.standings(3 * EVERY);
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|one| one == &all[0]), "equal roots: {all:?}");

    // Each payment is at a height of its own, and was executed once by whoever was there all the time.
    let payments = heights.len();
    heights.sort_unstable();
    heights.dedup();
    assert_eq!(heights.len(), payments);
    for server in [0, 1] {
        let seen = deployment.servers[server].as_ref().expect("it runs").chop().look();
        assert_eq!(seen.entries - seen.exceptions, payments as u64, "server {server}: {seen:?}");
    }
    client.stop().expect("it ends well");
    deployment.stop();
}
