//! The ten items of the runtime contract, each written once and run on every runtime.
//!
//! A description drives a [`Rig`] of probes and holds what they told against the contract. It knows nothing of the
//! runtime; where an item speaks of what may happen, the test accepts every order and every loss that it allows.

#[path = "contract/durability.rs"]
mod durability;
#[path = "contract/events.rs"]
mod events;
#[path = "contract/links.rs"]
mod links;

use synod_parity::{Act, Log, Rig, Said};
use synod_quorum::{NodeId, NodeSet};

fn to(node: u32) -> NodeSet {
    NodeSet::only(NodeId(node))
}

/// Gives the acts to machine 0 of a node.
fn act<R: Rig<Said>>(rig: &mut R, place: usize, acts: Vec<Act>) {
    rig.input(place, 0, acts);
}

/// The tags of the words that machine 0 heard from a peer in a queue, greetings left out.
fn heard(log: &Log<Said>, of: u32, at: u8) -> Vec<u64> {
    let tag = |said: &Said| match *said {
        Said::Heard { from, queue, tag } if from == of && queue == at && tag != u64::MAX => Some(tag),
        _ => None,
    };
    log.of(0).filter_map(tag).collect()
}

/// What machine 0 was told to say and said.
fn said(log: &Log<Said>) -> Vec<u64> {
    let number = |said: &Said| if let Said::Said(n) = said { Some(*n) } else { None };
    log.of(0).filter_map(number).collect()
}

/// Whether machine 0 of a node noted this.
fn noted(log: &Log<Said>, name: &str, first: u64) -> bool {
    log.notes(name).any(|(n, _)| n == first)
}

/// One test per item on one runtime.
macro_rules! contract {
    ($($name:ident => $module:ident::$item:ident,)*) => {
        mod sim {
            $(#[test]
            fn $name() {
                crate::$module::$item::<synod_parity::SimRig<synod_parity::Said>>();
            })*
        }
        mod net {
            $(#[test]
            fn $name() {
                crate::$module::$item::<synod_parity::NetRig<synod_parity::Said>>();
            })*
        }
        mod shm {
            $(#[test]
            fn $name() {
                crate::$module::$item::<synod_parity::ShmRig<synod_parity::Said>>();
            })*
        }
    };
}

contract! {
    item_1_events_come_one_at_a_time_and_a_broken_link_loses_a_suffix => links::item_1,
    item_2_what_follows_a_record_leaves_only_once_it_is_durable => durability::item_2,
    item_3_many_turns_and_machines_share_one_sync => durability::item_3,
    item_4_from_is_who_is_at_the_other_end_of_the_link => links::item_4,
    item_5_timers_fire_once_at_or_after_their_time_and_in_order => events::item_5,
    item_6_a_job_answers_once_and_a_crash_loses_it => events::item_6,
    item_7_a_message_to_oneself_is_a_later_event => events::item_7,
    item_8_undecodable_frames_are_blamed_and_the_third_closes_the_link => links::item_8,
    item_9_the_random_stream_is_that_of_seed_node_and_machine => events::item_9,
    item_10_start_comes_first_and_after_the_whole_log => events::item_10,
}
