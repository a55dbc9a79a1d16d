//! The memory node of one host: who gets which region, once, and what becomes of epochs.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use synod_machine::Span;
use synod_machine::register::{Held, Place, Region, RegisterOp, Said};
use synod_quorum::Epoch;
use synod_shm::{Door, Error, Monotonic, Regions, RegionsConfig, RegistersConfig, Tenant};
use synod_tail::Words;

const MEASURES: (u32, u32) = (32, 16);

static DOORS: AtomicU32 = AtomicU32::new(0);

struct Node {
    regions: Regions,
    path: PathBuf,
}

impl Drop for Node {
    fn drop(&mut self) {
        // The door is this test's own.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn node_of(uids: Vec<u32>) -> Node {
    let number = DOORS.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("synod-regions-{}-{number}", std::process::id()));
    let (registers, tail) = MEASURES;
    let config = RegionsConfig { uids, faulty: 1, registers, tail, boot: 7 };
    let regions = Regions::start(config, Door::bind(&path).expect("a door")).expect("a thread");
    Node { regions, path }
}

fn node() -> Node {
    node_of(vec![me(); 3])
}

fn tenant(node: &Node, member: u8) -> Tenant {
    Tenant::connect(&node.path, me(), member, MEASURES).expect("let in")
}

fn region(epoch: u32, owner: u8) -> Region {
    Region { epoch: Epoch(epoch), owner }
}

fn no_region<T>(given: Result<T, Error>) -> Option<u32> {
    match given {
        Err(Error::NoRegion { oldest }) => Some(oldest),
        _ => None,
    }
}

#[test]
fn an_owner_gets_its_region_once_and_others_see_what_it_writes() {
    let node = node();
    let (one, other) = (tenant(&node, 0), tenant(&node, 1));
    assert_eq!((one.boot(), other.boot()), (7, 7));
    let early = other.show(region(0, 0)).expect("readers wait for no owner");
    let own = one.own(Epoch(0)).expect("its own");
    own.store(3, 9);
    assert_eq!(early.load(3), 9);
    assert_eq!(no_region(one.own(Epoch(0))), Some(0), "not a second time");
    drop(one);
    let again = loop {
        // The memory node notices in its own time that the member is gone.
        match Tenant::connect(&node.path, me(), 0, MEASURES) {
            Ok(again) => break again,
            Err(_) => std::thread::yield_now(),
        }
    };
    assert_eq!(no_region(again.own(Epoch(0))), Some(0), "nor in another life");
    assert_eq!(other.show(region(0, 0)).expect("as often as it likes").load(3), 9);
    let status = node.regions.status();
    assert_eq!((status.boot, status.regions, status.members, status.oldest), (7, 1, 2, Epoch(0)));
}

#[test]
fn one_connection_of_a_member_stands_and_strangers_are_sent_away() {
    let node = node();
    let _one = tenant(&node, 0);
    assert!(Tenant::connect(&node.path, me(), 0, MEASURES).is_err(), "it is here already");
    assert!(Tenant::connect(&node.path, me(), 3, MEASURES).is_err(), "there is no fourth");
    let other = Tenant::connect(&node.path, me(), 1, (64, 16));
    assert!(matches!(other, Err(Error::Size { .. })), "another layout: {other:?}");
    let strange = node_of(vec![me() + 1; 3]);
    assert!(Tenant::connect(&strange.path, me(), 0, MEASURES).is_err(), "under another user");
}

#[test]
fn epochs_that_two_have_left_are_retired_and_far_ones_are_not_given() {
    let node = node();
    let members: Vec<Tenant> = (0..3).map(|member| tenant(&node, member)).collect();
    let own = members[0].own(Epoch(0)).expect("its own");
    let kept = members[1].show(region(0, 0)).expect("shown");
    own.store(3, 5);
    assert_eq!(no_region(members[0].show(region(9, 1))), Some(0), "a liar alone");
    assert!(members[1].own(Epoch(1)).is_ok(), "the next");
    assert_eq!(node.regions.status().oldest, Epoch(1), "two have gone beyond");
    assert_eq!(no_region(members[2].show(region(0, 0))), Some(1), "told, and given nothing empty");
    assert_eq!(kept.load(3), 5, "what was mapped stays as it was written");
    assert!(members[2].show(region(1, 1)).is_ok(), "the epoch that two are in");
    assert_eq!(no_region(members[0].show(region(9, 1))), Some(1), "still too far");
}

#[test]
fn registers_in_place_are_those_of_the_memory_node() {
    let node = node();
    let config =
        RegistersConfig { me: 0, members: 3, registers: 32, tail: 16, cooldown: Span::millis(50), boot: 0 };
    let clock = Monotonic::start();
    let mut all: Vec<_> = (0..3)
        .map(|member| tenant(&node, member).registers(config, Epoch(0)).expect("all regions"))
        .collect();
    let place = Place { region: region(0, 1), index: 4 };
    let held = Held { stamp: 4, value: [6; 96] };
    let mut said = |at: usize, op| {
        let mut answers = Vec::new();
        assert!(all[at].begin(op));
        all[at].tick(&clock, &mut |reply| answers.push((reply.boot, reply.said)));
        answers
    };
    assert_eq!(said(2, RegisterOp::Write { tag: 1, place, held }), [(7, Said::Refused)], "not its own");
    assert_eq!(said(1, RegisterOp::Write { tag: 1, place, held }), [(7, Said::Written)]);
    for reader in 0..3 {
        assert_eq!(said(reader, RegisterOp::Read { tag: 2, place }), [(7, Said::Value(Some(held)))]);
    }
}

#[test]
fn a_configuration_that_cannot_work_is_refused() {
    let path = std::env::temp_dir().join(format!("synod-regions-none-{}", std::process::id()));
    for (uids, registers, tail) in [(vec![1, 2], 32, 16), (vec![1, 2, 3], 33, 16), (vec![1, 2, 3], 0, 16)] {
        let config = RegionsConfig { uids, faulty: 1, registers, tail, boot: 1 };
        let door = Door::bind(&path).expect("a door");
        std::fs::remove_file(&path).expect("the path is ours");
        assert!(matches!(Regions::start(config, door), Err(Error::Plan(_))));
    }
}
