//! Deadlines in agreed time.

use crate::floor::Floor;

#[test]
fn a_key_is_deleted_by_name_before_anything_of_the_slot_in_which_its_time_has_come() {
    let mut floor = Floor::new(1);
    floor.ask("SET k v PX 10");
    assert_eq!(floor.text("PTTL k"), "10");
    floor.time += 9;
    assert_eq!(floor.text("GET k"), "v");
    floor.adapter.server().heard();
    floor.time += 1;
    assert_eq!(floor.text("GET k"), "nil");
    assert_eq!(floor.adapter.server().heard(), ["DEL k", "GET k"]);
    assert_eq!(floor.adapter.keys(), 0);
    assert_eq!(floor.text("PTTL k"), "-2");
}

#[test]
fn the_server_never_sees_an_expiry() {
    let mut floor = Floor::new(1);
    for line in [
        "SET a v EX 5",
        "SETEX b 5 v",
        "PSETEX c 5 v",
        "EXPIRE a 9",
        "PEXPIREAT a 9999999999",
        "GETEX a PX 7",
    ] {
        assert!(!floor.text(line).starts_with('-'), "{line}");
    }
    for heard in floor.adapter.server().heard() {
        for word in [" EX", " PX", "EXPIRE", "SETEX", "GETEX"] {
            assert!(!heard.contains(word), "{heard}");
        }
    }
    assert_eq!(floor.text("TIME"), "[1000 0]");
}

#[test]
fn each_way_to_state_a_time_and_each_condition() {
    let mut floor = Floor::new(1);
    floor.ask("SET k v");
    for (line, told, left) in [
        ("EXPIRE k 10 XX", "0", "-1"),
        ("EXPIRE k 10 GT", "0", "-1"),
        ("EXPIRE k 10 LT", "1", "10000"),
        ("EXPIRE k 20 NX", "0", "10000"),
        ("EXPIRE k 20 LT", "0", "10000"),
        ("EXPIRE k 20 GT", "1", "20000"),
        ("PEXPIRE k 5 XX", "1", "5"),
        ("EXPIREAT k 1100", "1", "100000"),
        ("PEXPIREAT k 1000007", "1", "7"),
        ("PERSIST k", "1", "-1"),
        ("PERSIST k", "0", "-1"),
        ("GETEX k EX 3", "v", "3000"),
        ("GETEX k", "v", "3000"),
        ("GETEX k PERSIST", "v", "-1"),
        ("SET k w PXAT 1000009", "OK", "9"),
        ("SET k w KEEPTTL", "OK", "9"),
        ("APPEND k x", "2", "9"),
        ("SET k w NX", "nil", "9"),
        ("SET k w GET", "wx", "-1"),
        ("SETEX k 4 u", "OK", "4000"),
        ("MSET k x", "OK", "-1"),
    ] {
        assert_eq!(floor.text(line), told, "{line}");
        assert_eq!(floor.text("PTTL k"), left, "{line}");
    }
    floor.ask("EXPIREAT k 1100");
    assert_eq!((floor.text("TTL k"), floor.text("EXPIRETIME k")), ("100".into(), "1100".into()));
    assert_eq!(floor.text("PEXPIRETIME k"), "1100000");
    for (line, told) in [("EXPIRE none 9", "0"), ("TTL none", "-2"), ("GETEX none EX 9", "nil")] {
        assert_eq!(floor.text(line), told);
    }
    for wrong in
        ["EXPIRE k x", "EXPIRE k 9 ZZ", "SETEX k 0 v", "SETEX k -1 v", "EXPIRE k 9223372036854775807"]
    {
        assert!(floor.text(wrong).starts_with("-ERR"), "{wrong}");
    }
    assert_eq!(floor.text("EXPIRE k -1"), "1", "a time that is over");
    assert_eq!(floor.text("EXISTS k"), "0");
}

#[test]
fn a_deadline_goes_with_its_key_and_moves_with_a_rename() {
    let mut floor = Floor::new(1);
    floor.ask("RPUSH l a");
    floor.ask("EXPIRE l 10");
    floor.ask("LPOP l");
    floor.ask("RPUSH l b");
    assert_eq!(floor.text("TTL l"), "-1", "another list of that name");
    floor.ask("EXPIRE l 10");
    floor.ask("RENAME l m");
    assert_eq!((floor.text("TTL m"), floor.text("TTL l")), ("10".into(), "-2".into()));
    floor.ask("SADD s a");
    floor.ask("SADD m2 b");
    floor.ask("EXPIRE m2 10");
    floor.ask("SUNIONSTORE m2 s");
    assert_eq!(floor.text("TTL m2"), "-1", "a key that is stored anew");
    floor.ask("SPOP m2");
    assert_eq!(floor.text("TTL m2"), "-2");
    floor.time += 20_000;
    assert_eq!(floor.text("KEYS *"), "[s]", "what was renamed ended in time");
}
