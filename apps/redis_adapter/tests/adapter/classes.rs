//! Each class of commands.

use std::collections::BTreeSet;

use synod_redis_adapter::{Command, Config, Operation, WORDS_MAX, check, resp::Reply};
use synod_wire::{Bytes, List, Wire};

use crate::floor::{Floor, body, shown, words};

#[test]
fn replies_that_are_sets_are_sorted() {
    let mut floor = Floor::new(7);
    floor.ask("SADD s c a b");
    floor.ask("SADD t d");
    floor.ask("HSET h z 1 y 2 x 3");
    assert_eq!(floor.text("SMEMBERS s"), "[a b c]");
    assert_eq!(floor.text("SUNION s t"), "[a b c d]");
    assert_eq!(floor.text("HKEYS h"), "[x y z]");
    assert_eq!(floor.text("HGETALL h"), "[x 3 y 2 z 1]");
    assert_eq!(floor.text("HVALS h"), "[3 2 1]", "in the order of their fields");
    assert_eq!(floor.text("KEYS *"), "[h s t]");
    assert_eq!(floor.text("KEYS [st]"), "[s t]");
    floor.ask("RPUSH l c a b");
    assert_eq!(floor.text("LRANGE l 0 -1"), "[c a b]", "a list has an order");
}

#[test]
fn what_is_chosen_is_a_function_of_the_slot_and_is_removed_by_name() {
    let chosen = |seed: u64| {
        let mut floor = Floor::new(seed);
        floor.ask("SADD s a b c d e f g h i j");
        floor.ask("HSET h a 1 b 2 c 3 d 4");
        floor.ask("ZADD z 1 a 2 b 3 c");
        let told: Vec<String> = [
            "SRANDMEMBER s",
            "SRANDMEMBER s 3",
            "SRANDMEMBER s -12",
            "SPOP s",
            "SPOP s 3",
            "HRANDFIELD h 2 WITHVALUES",
            "ZRANDMEMBER z 2 WITHSCORES",
            "RANDOMKEY",
            "SMEMBERS s",
        ]
        .iter()
        .map(|line| floor.text(line))
        .collect();
        assert!(floor.adapter.keys() == 3);
        told
    };
    let first = chosen(1);
    assert_eq!(first, chosen(2), "servers in another order choose the same");
    let count = |text: &str| text.trim_matches(['[', ']']).split(' ').count();
    assert_eq!(first.iter().map(|text| count(text)).collect::<Vec<_>>(), [1, 3, 12, 1, 3, 4, 4, 1, 6]);
    let popped: BTreeSet<&str> = first[4].trim_matches(['[', ']']).split(' ').collect();
    assert!(popped.iter().all(|member| !first[8].contains(member)) && popped.len() == 3);
}

#[test]
fn two_commands_of_a_slot_choose_by_themselves_and_all_is_chosen_in_time() {
    let mut floor = Floor::new(1);
    let members: Vec<String> = (0..64).map(|at| format!("m{at}")).collect();
    floor.ask(&format!("SADD s {}", members.join(" ")));
    let bodies = vec![body("SRANDMEMBER s"); 400];
    let told: BTreeSet<Bytes> = floor.slot(&bodies).into_iter().collect();
    assert!(told.len() > 48, "{} of 64 in 400 choices", told.len());
    assert_eq!(floor.text("SPOP s 100").split(' ').count(), 64);
    assert_eq!(floor.text("EXISTS s"), "0");
    assert_eq!(floor.text("SPOP s"), "nil");
    assert_eq!(floor.adapter.keys(), 0);
}

#[test]
fn a_scan_tells_what_is_there_throughout_once() {
    let mut floor = Floor::new(3);
    let stays: Vec<String> = (0..60).map(|at| format!("stays{at}")).collect();
    for key in &stays {
        floor.ask(&format!("SET {key} x"));
    }
    let (mut cursor, mut told) = ("0".to_owned(), Vec::new());
    let mut round = 0;
    loop {
        // Others come and go meanwhile.
        floor.ask(&format!("SET comes{round} x"));
        floor.ask(&format!("DEL comes{}", round - 1));
        round += 1;
        let reply = floor.text(&format!("SCAN {cursor} COUNT 7 MATCH stays*"));
        let mut parts = reply.trim_matches(['[', ']']).splitn(2, ' ');
        cursor = parts.next().expect("a cursor").to_owned();
        let page = parts.next().unwrap_or_default().trim_matches(['[', ']']);
        told.extend(page.split(' ').filter(|key| !key.is_empty()).map(str::to_owned));
        if cursor == "0" {
            break;
        }
        assert!(round < 40, "a scan ends");
    }
    assert!(round > 5, "it took several calls");
    let distinct: BTreeSet<&String> = told.iter().collect();
    assert_eq!((distinct.len(), told.len()), (60, 60), "each once");
}

#[test]
fn sets_hashes_and_sorted_sets_are_scanned_with_what_stands_beside() {
    let mut floor = Floor::new(3);
    floor.ask("SADD s a b c");
    floor.ask("HSET h a 1 b 2 c 3");
    floor.ask("ZADD z 1 a 2 b 3 c");
    for (line, elements) in [("SSCAN s 0", 3), ("HSCAN h 0", 6), ("ZSCAN z 0", 6)] {
        let text = floor.text(line);
        assert!(text.starts_with("[0 ["), "{text}");
        assert_eq!(text.split(' ').count(), 1 + elements, "{text}");
    }
    assert_eq!(floor.text("HSCAN h 0 MATCH b"), "[0 [b 2]]");
    assert_eq!(floor.text("SCAN 0 TYPE hash"), "[0 [h]]");
    for wrong in ["SCAN x", "SCAN 0 COUNT 0", "SCAN 0 COUNT", "SSCAN s 0 TYPE set", "SCAN 0 LIMIT 3"] {
        assert!(floor.text(wrong).starts_with("-ERR"), "{wrong}");
    }
}

#[test]
fn what_is_not_allowed_never_reaches_the_server() {
    let mut floor = Floor::new(1);
    floor.adapter_heard();
    for line in [
        "EVAL return 0",
        "FCALL f 0",
        "BLPOP l 0",
        "SUBSCRIBE c",
        "CONFIG SET maxmemory 1",
        "DEBUG SLEEP 1",
        "OBJECT IDLETIME k",
        "SHUTDOWN",
        "MULTI",
        "XREAD STREAMS s 0",
        "WHAT",
        "GET",
        "GET a b",
        "SORT l BY w_*",
        "XADD s MAXLEN ~ 5 * a b",
        "XTRIM s MAXLEN ~ 5",
        "SETRANGE k 9999999999 x",
        "SET k v EX",
        "SET k v NX XX",
        "SET k v EX 0",
        "SINTERCARD x a",
    ] {
        let reply = floor.text(line);
        assert!(reply.starts_with("-ERR "), "{line}: {reply}");
    }
    assert_eq!(floor.adapter_heard(), Vec::<String>::new());
    let nothing = floor.slot(&[Bytes::from_static(b"junk"), Bytes::new()]);
    assert!(nothing.iter().all(|reply| reply.starts_with(b"-ERR ")));
}

impl Floor {
    /// What the server heard since the last time.
    fn adapter_heard(&mut self) -> Vec<String> {
        self.adapter.server().heard()
    }
}

#[test]
fn a_burst_is_executed_as_one_and_answered_as_a_list() {
    let mut floor = Floor::new(1);
    let commands = ["SET a 1", "INCR a", "LPUSH a x", "GET a"];
    let commands =
        commands.iter().map(|line| Command::of(&words(line)).expect("a command")).collect::<Vec<_>>();
    let burst = Operation::Burst(List::try_from(commands).expect("few")).encode();
    let reply = floor.slot(&[burst]).remove(0);
    let (reply, _) = synod_redis_adapter::resp::Reply::read(&reply).expect("RESP").expect("whole");
    assert_eq!(shown(&reply), "[OK 2 -WRONGTYPE Operation against a key holding the wrong kind of value 2]");
    assert!(Command::of(&vec![&b"x"[..]; WORDS_MAX]).is_some());
    assert!(Command::of(&vec![&b"x"[..]; WORDS_MAX + 1]).is_none());
}

#[test]
fn the_quota_refuses_growth_counts_again_what_was_counted_too_much_and_frees_what_goes() {
    let mut floor = Floor::within(1, Config { bytes_max: 2_000, ..Config::default() });
    let value = "x".repeat(500);
    // The same member again and again is charged until it is counted.
    for _ in 0..20 {
        assert_ne!(floor.text(&format!("SADD s {value}")), "-OOM", "counted again");
    }
    assert_eq!(floor.text(&format!("SET a {value}")), "OK");
    assert_eq!(floor.text(&format!("SET b {value}")), "OK");
    assert!(floor.text(&format!("SET c {value}")).starts_with("-OOM"));
    assert_eq!(floor.text("EXISTS c"), "0");
    assert_eq!(floor.text("GET a"), value, "reading goes on");
    assert_eq!(floor.text("DEL a"), "1");
    assert_eq!(floor.text(&format!("SET c {value}")), "OK");
    assert!(floor.text(&format!("APPEND c {value}")).starts_with("-OOM"));
}

#[test]
fn streams_are_numbered_by_agreed_time() {
    let mut floor = Floor::new(1);
    assert_eq!(floor.text("XADD s * a 1"), "1000000-0");
    assert_eq!(floor.text("XADD s * a 2"), "1000000-1");
    floor.time += 5;
    assert_eq!(floor.text("XADD s * a 3"), "1000005-0");
    assert_eq!(floor.text("XADD s 2000000-7 a 4"), "2000000-7");
    assert_eq!(floor.text("XADD s * a 5"), "2000000-8", "ids rise, whatever the clock says");
    assert_eq!(floor.text("XRANGE s - +").matches("[a ").count(), 5);
}

/// The replies to the commands of a burst that were executed.
fn burst(floor: &mut Floor, lines: &[&str]) -> Vec<Reply> {
    let commands: Vec<Command> =
        lines.iter().map(|line| Command::of(&words(line)).expect("a command")).collect();
    let body = Operation::Burst(List::try_from(commands).expect("few")).encode();
    let reply = floor.slot(&[body]).remove(0);
    assert!(reply.len() <= 2_000, "{} bytes", reply.len());
    match Reply::read(&reply) {
        Ok(Some((Reply::Array(replies), _))) => replies,
        other => unreachable!("a burst is answered by an array: {other:?}"),
    }
}

#[test]
fn a_burst_ends_before_replies_that_have_no_room_and_changes_nothing_that_it_does_not_tell() {
    let mut floor = Floor::within(1, Config { replies_max: 2_000, ..Config::default() });
    let value = "v".repeat(1_100);
    floor.text(&format!("SET a {value}"));
    floor.text(&format!("RPUSH l {value} {value}"));
    let told = burst(&mut floor, &["INCR n", "GET a", "INCR n", "GET a", "INCR n"]);
    assert_eq!(told.len(), 3, "the second value has no room");
    assert_eq!(floor.text("GET n"), "2", "what stood behind it was not carried out");
    // What removes a long value is carried out only as the first of a burst.
    assert_eq!(burst(&mut floor, &["INCR n", "LPOP l"]).len(), 1);
    assert_eq!(burst(&mut floor, &["LPOP l", "INCR n", "LPOP l"]).len(), 2);
    assert_eq!((floor.text("LLEN l"), floor.text("GET n")), ("1".to_owned(), "4".to_owned()));
    assert_eq!(burst(&mut floor, &["SET a 1", "SET a 2 GET"]).len(), 1);
    // Short replies have room until none is left for the longest of them.
    let many = vec!["SET b 1"; 128];
    assert_eq!(burst(&mut floor, &many).len(), 128);
    floor.text(&format!("SET long {}", "v".repeat(2_000)));
    let told = burst(&mut floor, &["GET long", "INCR n"]);
    assert_eq!(shown(&told[0]), "-ERR the command was carried out, and its reply is too long");
    assert_eq!(shown(&told[1]), "5");
}

#[test]
fn a_transaction_is_carried_out_as_a_whole_however_long_its_replies_are() {
    let mut floor = Floor::within(1, Config { replies_max: 2_000, ..Config::default() });
    floor.text(&format!("SET a {}", "v".repeat(900)));
    let commands =
        ["GET a", "GET a", "GET a", "INCR n"].map(|line| Command::of(&words(line)).expect("a command"));
    let body = Operation::Whole(List::try_from(commands.to_vec()).expect("few")).encode();
    let reply = floor.slot(&[body]).remove(0);
    assert!(reply.starts_with(b"*4\r\n") && reply.ends_with(b":1\r\n"));
    assert_eq!(floor.text("GET n"), "1");
}

#[test]
fn a_gateway_learns_which_commands_are_carried_out_before_it_asks() {
    let of = |line: &str| check(line.split(' ').map(str::as_bytes).collect::<Vec<_>>().into_iter());
    assert_eq!(of("get a"), Ok(()));
    assert!(of("GET").is_err_and(|why| why.starts_with("ERR wrong number")));
    assert!(of("BLPOP l 0").is_err_and(|why| why.contains("block")));
    assert!(of("WATCH a").is_err_and(|why| why.contains("WATCH")));
    assert!(of("NOSUCH").is_err() && of(&"x".repeat(100)).is_err());
}
