//! The broadcasts, by what they promise.

mod bracha;
mod crossing;
mod frontiers;
mod lies;
mod patience;
mod restarts;
mod signed;
mod world;

use synod_broadcast::bracha::{self as plain, Vote};
use synod_broadcast::signed::{Ack, Acked, Certificate, Message, Record, Row, Said, TwoPayloads};

/// As in Bracha's broadcast.
type PlainMessage = plain::Message;
/// As in Bracha's broadcast.
type PlainRecord = plain::Record;

synod_wire::conformance!(
    Vote,
    PlainMessage,
    PlainRecord,
    Ack,
    Acked,
    Certificate,
    Message,
    Record,
    Row,
    Said,
    TwoPayloads,
);

#[test]
fn the_log_is_compacted_once_for_as_many_slots_as_are_kept() {
    // 32 slots are kept: a compaction per slot would write 200 snapshots.
    for (compactions, records) in
        [world::compactions::<synod_broadcast::Bracha>(), world::compactions::<signed::Signed>()]
    {
        assert!((2..=6).contains(&compactions), "{compactions} compactions");
        assert!(records < 400, "{records} records are left");
    }
}

#[test]
fn a_slot_that_has_a_payload_keeps_it_and_a_gap_is_refused() {
    world::offers_are_numbered::<synod_broadcast::Bracha>();
    world::offers_are_numbered::<signed::Signed>();
}
