//! Each command.

use synod_memcached_adapter::{Ask, Config};
use synod_wire::Bytes;

use crate::floor::Floor;

#[test]
fn values_are_stored_read_and_deleted() {
    let mut floor = Floor::new();
    for (asked, told) in [
        ("get k", "END"),
        ("replace k 0 0 1|a", "NOT_STORED"),
        ("append k 0 0 1|a", "NOT_STORED"),
        ("add k 7 0 2|hi", "STORED"),
        ("add k 0 0 1|x", "NOT_STORED"),
        ("get k none k", "VALUE k 7 2|hi|VALUE k 7 2|hi|END"),
        ("append k 9 0 1|!", "STORED"),
        ("prepend k 9 0 1|>", "STORED"),
        ("get k", "VALUE k 7 4|>hi!|END"),
        ("set k 1 0 0|", "STORED"),
        ("get k", "VALUE k 1 0||END"),
        ("delete k", "DELETED"),
        ("delete k", "NOT_FOUND"),
        ("touch k 9", "NOT_FOUND"),
        ("version", "VERSION synod"),
        ("stats", "CLIENT_ERROR not a command of replicated state"),
    ] {
        assert_eq!(floor.text(asked), told, "{asked}");
    }
}

#[test]
fn ids_are_the_adapters_own_and_change_with_every_write() {
    let mut floor = Floor::new();
    floor.text("set k 0 0 1|a");
    assert_eq!(floor.text("gets k"), "VALUE k 0 1 1|a|END");
    assert_eq!(floor.text("cas k 0 0 1 2|b"), "EXISTS");
    assert_eq!(floor.text("cas k 0 0 1 1|b"), "STORED");
    assert_eq!(floor.text("cas k 0 0 1 1|c"), "EXISTS");
    assert_eq!(floor.text("gets k"), "VALUE k 0 1 2|b|END");
    assert_eq!(floor.text("cas none 0 0 1 1|c"), "NOT_FOUND");
    floor.text("touch k 100");
    assert_eq!(floor.text("gets k"), "VALUE k 0 1 2|b|END", "touching is no write");
}

#[test]
fn numbers_count_and_a_shorter_one_leaves_blanks() {
    let mut floor = Floor::new();
    assert_eq!(floor.text("incr n 1"), "NOT_FOUND");
    floor.text("set n 0 0 2|10");
    assert_eq!(floor.text("decr n 1"), "9");
    assert_eq!(floor.text("get n"), "VALUE n 0 2|9 |END");
    assert_eq!(floor.text("decr n 20"), "0");
    assert_eq!(floor.text("incr n 1234"), "1234");
    assert_eq!(floor.text("get n"), "VALUE n 0 4|1234|END");
    floor.text("set s 0 0 1|x");
    assert_eq!(floor.text("incr s 1"), "CLIENT_ERROR cannot increment or decrement non-numeric value");
}

#[test]
fn what_has_ended_is_deleted_by_name_before_anything_of_the_slot_and_the_server_sees_no_time() {
    let mut floor = Floor::new();
    floor.text("set k 0 5 1|a");
    floor.text("set stays 0 0 1|a");
    floor.time += 4_999;
    assert_eq!(floor.text("get k"), "VALUE k 0 1|a|END");
    floor.time += 1;
    floor.adapter.server().heard();
    assert_eq!(floor.text("get k stays"), "VALUE stays 0 1|a|END");
    let (k, stays) = (Bytes::from_static(b"k"), Bytes::from_static(b"stays"));
    assert_eq!(floor.adapter.server().heard(), [Ask::Delete(k), Ask::Get(stays)]);
    assert_eq!(floor.text("set k 0 -1 1|a"), "STORED", "it ends at once");
    assert_eq!(floor.text("get k"), "END");
    // Beyond thirty days a time is a date.
    let date = floor.time / 1_000 + 7;
    floor.text(&format!("set k 0 {date} 1|a"));
    assert_eq!(floor.text("gat 3 k"), "VALUE k 0 1|a|END");
    floor.time += 3_000;
    assert_eq!(floor.text("get k"), "END", "the later word counts");
    floor.text("set k 0 2592001 1|a");
    assert_eq!(floor.text("get k"), "END", "a date that is over");
}

#[test]
fn a_flush_takes_what_was_there_and_nothing_later() {
    let mut floor = Floor::new();
    floor.text("set a 0 0 1|a");
    assert_eq!(floor.text("flush_all"), "OK");
    assert_eq!(floor.adapter.keys(), 0);
    floor.text("set a 0 0 1|a");
    assert_eq!(floor.text("flush_all 10"), "OK");
    floor.time += 9_999;
    assert_eq!(floor.text("get a"), "VALUE a 0 1|a|END");
    floor.time += 1;
    assert_eq!(floor.text("get a"), "END");
    floor.text("set a 0 0 1|b");
    floor.time += 60_000;
    assert_eq!(floor.text("get a"), "VALUE a 0 1|b|END");
    assert!(
        !floor.adapter.server().heard()[1..].contains(&Ask::FlushAll),
        "the server's own way counts in seconds"
    );
}

#[test]
fn the_quota_is_exact_and_nothing_is_evicted_for_it() {
    // Three items of 64 + 1 + 100 bytes.
    for (bytes_max, told) in
        [(494, "SERVER_ERROR out of memory storing object"), (495, "STORED"), (496, "STORED")]
    {
        let mut floor = Floor::within(Config { bytes_max });
        let value = "v".repeat(100);
        for key in ["a", "b"] {
            assert_eq!(floor.text(&format!("set {key} 0 0 100|{value}")), "STORED");
        }
        assert_eq!(floor.text(&format!("set c 0 0 100|{value}")), told, "{bytes_max}");
        let joined = if bytes_max == 494 { "STORED" } else { "SERVER_ERROR out of memory storing object" };
        assert_eq!(floor.text("append a 0 0 2|vv"), joined, "{bytes_max}");
        assert_eq!(floor.text(&format!("set a 0 0 99|{}", "v".repeat(99))), "STORED", "what shrinks fits");
        assert!(floor.text("get a b").matches("VALUE").count() == 2);
    }
}

#[test]
fn a_value_joined_beyond_the_largest_is_refused() {
    let mut floor = Floor::new();
    floor.text(&format!("set k 0 0 1000000|{}", "v".repeat(1_000_000)));
    assert_eq!(floor.text("append k 0 0 1|v"), "SERVER_ERROR object too large for cache");
    assert_eq!(floor.text("prepend k 0 0 0|"), "STORED");
}
