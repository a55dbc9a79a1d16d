//! Expiry, choices, transactions, scanning and limits.

mod workbench;

use std::collections::BTreeSet;

use synod_crypto::Hash;
use synod_kv::{ARGUMENTS_MAX, Config, KEY_BYTES_MAX, Kv, VALUE_BYTES_MAX, Verb, operation};
use synod_service::{App, At, Position, Replies, Request, Wall};
use workbench::{Bench, Numbers, command, line, transaction, version};

#[test]
fn what_has_expired_is_gone_before_the_first_command_of_the_block() {
    let mut bench = Bench::new();
    bench.run("SET early 1 PX 100");
    bench.run("SET late 1 PX 200");
    bench.run("RPUSH list 1");
    bench.run("PEXPIRE list 100");
    bench.time_ms += 100;
    let replies = bench.execute(&[command("EXISTS early late list"), command("DBSIZE")]);
    assert_eq!(replies.iter().map(|reply| line(reply)).collect::<Vec<_>>(), [":1", ":1"]);
}

#[test]
fn expiry_goes_by_deadline_then_key_and_each_removal_counts() {
    let order = |first: &str, second: &str| {
        let mut bench = Bench::new();
        bench.execute(&[command(&format!("SET {first} 1 PX 50")), command(&format!("SET {second} 1 PX 50"))]);
        bench.run("SET sooner 1 PX 40");
        bench.time_ms += 1_000;
        bench.run("SET after 1");
        // Three keys were made and three removed, so the next change is number seven.
        assert_eq!(version(&bench.kv, "after"), 7);
        bench.kv.chunk(0)
    };
    assert_eq!(order("a", "b"), order("b", "a"));
}

#[test]
fn agreed_time_never_goes_back() {
    let mut bench = Bench::new();
    bench.run("SET k v PX 100");
    bench.time_ms -= 50_000;
    assert_eq!(bench.run("PTTL k"), ":100");
}

#[test]
fn a_pop_is_chosen_by_the_draw_and_the_key_alone() {
    let pop = |draw: u8, key: &str| {
        let mut kv = Kv::new(Config::default());
        let members: Vec<String> = (0..50).map(|i| format!("m{i:02}")).collect();
        let operations =
            [command(&format!("SADD {key} {}", members.join(" "))), command(&format!("SPOP {key}"))];
        let mut requests =
            operations.iter().map(|body| Request { session: u64::from(draw), sequence: 1, body });
        let at = At { position: Position(1), time: Wall(u64::from(draw)), draw: Hash([draw; 32]) };
        let mut replies = Replies::default();
        kv.execute(&at, &mut requests, &mut replies);
        replies.drain().next_back().expect("two replies")
    };
    assert_eq!(pop(1, "set"), pop(1, "set"));
    let by_draw: BTreeSet<_> = (0..40).map(|draw| pop(draw, "set")).collect();
    assert!(by_draw.len() > 15, "{} of 50 members in 40 draws", by_draw.len());
    assert_ne!(pop(1, "set"), pop(1, "other"));
}

#[test]
fn popped_members_are_distinct_and_gone() {
    let mut bench = Bench::new();
    let members: Vec<String> = (0..600).map(|i| i.to_string()).collect();
    bench.run(&format!("SADD s {}", members.join(" ")));
    let popped = bench.run("SPOP s 250");
    let popped: BTreeSet<_> = popped.split(' ').skip(1).filter(|word| !word.starts_with('$')).collect();
    assert_eq!(popped.len(), 250);
    assert_eq!(bench.run("SCARD s"), ":350");
    for member in popped.iter().take(20) {
        assert_eq!(bench.run(&format!("SISMEMBER s {member}")), ":0");
    }
}

#[test]
fn a_transaction_is_one_operation_with_one_reply_per_command() {
    let mut bench = Bench::new();
    let all = transaction(&[], &["SET k v", "LPUSH k x", "GET", "INCR n", "GET k"]);
    assert_eq!(
        line(&bench.execute(&[all])[0]),
        "*5 +OK -WRONGTYPE SYN-3004 Operation against a key holding the wrong kind of value \
         -ERR SYN-3001 wrong number of arguments for 'get' command :1 $1 v"
    );
    assert_eq!(line(&bench.execute(&[transaction(&[], &[])])[0]), "*0");
}

#[test]
fn a_watched_key_that_changed_stops_the_transaction() {
    let mut bench = Bench::new();
    bench.run("SET k 1");
    let seen = version(&bench.kv, "k");
    assert!(seen > 0);
    assert_eq!(version(&bench.kv, "none"), 0);
    let write = |seen| transaction(&[("k", seen), ("none", 0)], &["SET k 2", "SET other 2"]);
    assert_eq!(line(&bench.execute(&[write(seen)])[0]), "*2 +OK +OK");
    // The transaction itself changed the key: the same versions do not hold twice.
    assert_eq!(line(&bench.execute(&[write(seen)])[0]), "^");
    let seen = version(&bench.kv, "k");
    for (change, holds) in [
        ("SET k 2", false),
        ("APPEND k x", false),
        ("EXPIRE k 1000", false),
        ("PERSIST k", false),
        ("GETDEL k", false),
        ("GET k", true),
        ("SET none x", false),
    ] {
        let mut bench = Bench::new();
        bench.execute(&[
            command("SET k 1"),
            command("SET k 2"),
            command("SET other 1"),
            command("SET k 2 EX 9"),
        ]);
        let seen = version(&bench.kv, "k");
        bench.run(change);
        let reply = line(&bench.execute(&[write(seen)])[0]);
        assert_eq!(reply == "*2 +OK +OK", holds, "{change}: {reply}");
    }
    bench.run("SET k 3 PX 10");
    let seen_timed = version(&bench.kv, "k");
    assert!(seen_timed > seen);
    bench.time_ms += 10;
    assert_eq!(line(&bench.execute(&[write(seen_timed)])[0]), "^", "expiry is a change");
}

#[test]
fn commands_that_change_nothing_keep_the_version() {
    let mut bench = Bench::new();
    bench.execute(&[command("SADD s a"), command("ZADD z 1 m"), command("HSET h f v")]);
    for (key, same) in [
        ("s", "SADD s a"),
        ("s", "SREM s none"),
        ("z", "ZADD z 1 m"),
        ("z", "ZADD z NX 5 m"),
        ("h", "HDEL h none"),
    ] {
        let before = version(&bench.kv, key);
        bench.run(same);
        assert_eq!(version(&bench.kv, key), before, "{same}");
    }
}

#[test]
fn a_malformed_operation_is_answered_and_changes_nothing() {
    let mut bench = Bench::new();
    bench.run("SET k v");
    let root = bench.kv.root();
    let mut trailing = command("SET k w");
    trailing.push(0);
    let whole = transaction(&[], &["SET k w", "SET k x"]);
    let broken = [Vec::new(), vec![9], vec![1], vec![1, 255, 0], trailing, whole[..whole.len() - 1].to_vec()];
    for operation in broken {
        let reply = line(&bench.execute(core::slice::from_ref(&operation))[0]);
        assert_eq!(reply, "-ERR SYN-3001 malformed operation", "{operation:?}");
        assert!(bench.kv.query(&operation).is_none());
    }
    assert_eq!(bench.kv.root(), root);
}

#[test]
fn random_operations_never_stop_the_store() {
    let mut bench = Bench::new();
    let mut numbers = Numbers(5);
    for _ in 0..300 {
        let block: Vec<Vec<u8>> = (0..40)
            .map(|_| {
                let length = numbers.below(30);
                let mut bytes: Vec<u8> =
                    (0..length).map(|_| u8::try_from(numbers.below(256)).expect("a byte")).collect();
                if let Some(first) = bytes.first_mut() {
                    *first = u8::try_from(numbers.below(7)).expect("a byte");
                }
                if let Some(verb) = bytes.get_mut(1) {
                    *verb %= 46;
                }
                bytes.iter_mut().skip(2).for_each(|byte| *byte %= 4);
                bytes
            })
            .collect();
        bench.execute(&block);
    }
    assert!(bench.kv.keys() > 0, "some operations were whole");
}

/// The cursor that SCAN answers.
fn cursor_of(reply: &str) -> String {
    reply.split(' ').find(|word| !word.starts_with(['$', '*'])).expect("a cursor").to_owned()
}

#[test]
fn a_costly_pattern_ends_a_page_early_and_too_costly_a_one_is_refused() {
    let mut bench = Bench::new();
    for number in 0..20 {
        bench.run(&format!("SET {}{number} v", "a".repeat(10_000)));
    }
    let (mut cursor, mut pages) = ("0".to_owned(), 0);
    loop {
        let pattern = format!("*{}b", "a".repeat(50));
        let reply = bench.run(&format!("SCAN {cursor} COUNT 1000 MATCH {pattern}"));
        cursor = cursor_of(&reply);
        pages += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(pages, 10, "two keys are what the steps of a page allow");
    let pattern = format!("*{}b", "a".repeat(500));
    let refused = bench.run(&format!("SCAN 0 MATCH {pattern}"));
    assert!(refused.starts_with("-ERR SYN-3002 the pattern takes"), "{refused}");
    let plain = bench.run("SCAN 0 COUNT 1000 MATCH *19");
    assert_eq!(cursor_of(&plain), "0");
}

#[test]
fn scanning_meets_every_key_that_stays() {
    let mut bench = Bench::new();
    let stay: BTreeSet<String> = (0..700).map(|i| format!("stay:{i}")).collect();
    for key in &stay {
        bench.run(&format!("SET {key} 1"));
    }
    let (mut cursor, mut seen, mut pages) = ("0".to_owned(), BTreeSet::new(), 0);
    loop {
        let reply = bench.run(&format!("SCAN {cursor} COUNT 7"));
        let mut words = reply.split(' ').filter(|word| !word.starts_with(['$', '*']));
        cursor = words.next().expect("a cursor").to_owned();
        let page: Vec<String> = words.map(str::to_owned).collect();
        assert!(page.len() <= 8 && page.is_sorted());
        // What was returned goes away at once, and other keys appear.
        for key in page.iter().filter(|key| !stay.contains(*key) || pages % 2 == 0) {
            bench.run(&format!("DEL {key}"));
        }
        bench.run(&format!("SET new:{pages} 1"));
        for key in page {
            assert!(seen.insert(key), "no key twice");
        }
        pages += 1;
        if cursor == "0" {
            break;
        }
        assert!(cursor.parse::<u64>().expect("a number") < 1 << 48);
    }
    assert!(pages > 90 && stay.is_subset(&seen));
}

#[test]
fn ranges_go_in_byte_order_with_the_last_key_as_cursor() {
    let mut bench = Bench::new();
    bench.run("MSET b 1 a:2 1 a:1 1 a 1 a:3 1 c 1");
    let ask = |kv: &Kv, prefix: &str, after: &str, limit: u32| {
        let mut question = Vec::new();
        let range = operation::Range { prefix: prefix.as_bytes(), after: after.as_bytes(), limit };
        operation::write_range(&range, &mut question);
        line(&kv.query(&question).expect("a range is a question"))
    };
    assert_eq!(ask(&bench.kv, "", "", 100), "*6 $1 a $3 a:1 $3 a:2 $3 a:3 $1 b $1 c");
    assert_eq!(ask(&bench.kv, "a:", "", 2), "*2 $3 a:1 $3 a:2");
    assert_eq!(ask(&bench.kv, "a:", "a:2", 2), "*1 $3 a:3");
    assert_eq!(ask(&bench.kv, "a:", "a", 1), "*1 $3 a:1");
    assert_eq!(ask(&bench.kv, "a:", "zzz", 9), "*0");
    assert_eq!(ask(&bench.kv, "", "", 0), "*0");
}

#[test]
fn a_fetch_answers_value_and_version() {
    let mut bench = Bench::new();
    bench.run("SET k v");
    bench.run("LPUSH l v");
    let ask = |kv: &Kv, key: &str| {
        let mut question = Vec::new();
        operation::write_fetch(key.as_bytes(), &mut question);
        line(&kv.query(&question).expect("a fetch is a question"))
    };
    assert_eq!(ask(&bench.kv, "k"), "*2 $1 v :1");
    assert_eq!(ask(&bench.kv, "none"), "*2 _ :0");
    assert!(ask(&bench.kv, "l").starts_with("-WRONGTYPE"));
}

/// The reply to a command with raw arguments.
fn raw(bench: &mut Bench, verb: Verb, arguments: &[&[u8]]) -> String {
    let mut out = Vec::new();
    operation::write_command(verb, arguments.iter().copied(), &mut out);
    line(&bench.execute(&[out])[0])
}

#[test]
fn keys_and_strings_hold_at_their_limit_and_not_beyond() {
    let mut bench = Bench::new();
    let key = vec![b'k'; KEY_BYTES_MAX + 1];
    assert_eq!(raw(&mut bench, Verb::Set, &[&key[2..], b"v"]), "+OK");
    assert_eq!(raw(&mut bench, Verb::Set, &[&key[1..], b"v"]), "+OK");
    assert!(raw(&mut bench, Verb::Set, &[&key, b"v"]).starts_with("-ERR SYN-3002 key exceeds"));
    assert!(raw(&mut bench, Verb::Get, &[&key]).starts_with("-ERR SYN-3002 key exceeds"));
    let value = vec![b'v'; VALUE_BYTES_MAX + 1];
    assert_eq!(raw(&mut bench, Verb::Set, &[b"a", &value[2..]]), "+OK");
    assert_eq!(raw(&mut bench, Verb::Append, &[b"a", b"x"]), format!(":{VALUE_BYTES_MAX}"));
    assert!(raw(&mut bench, Verb::Append, &[b"a", b"x"]).starts_with("-ERR SYN-3002 string exceeds"));
    assert_eq!(raw(&mut bench, Verb::StrLen, &[b"a"]), format!(":{VALUE_BYTES_MAX}"));
    assert!(raw(&mut bench, Verb::Set, &[b"a", &value]).starts_with("-ERR SYN-3001 malformed"));
    let members: Vec<Vec<u8>> = (0..ARGUMENTS_MAX).map(|i| i.to_string().into_bytes()).collect();
    let mut arguments: Vec<&[u8]> = vec![b"s"];
    arguments.extend(members.iter().map(Vec::as_slice));
    assert!(raw(&mut bench, Verb::SAdd, &arguments).starts_with("-ERR SYN-3001 malformed"));
    arguments.pop();
    assert_eq!(raw(&mut bench, Verb::SAdd, &arguments), format!(":{}", ARGUMENTS_MAX - 1));
}

#[test]
fn a_reply_that_would_be_too_large_is_refused_and_nothing_is_popped() {
    let mut bench = Bench::new();
    let value = "x".repeat(VALUE_BYTES_MAX - 100);
    for i in 0..9 {
        bench.run(&format!("RPUSH l {value}"));
        bench.run(&format!("SADD s {i}{value}"));
        bench.run(&format!("HSET h {i} {value}"));
        bench.run(&format!("ZADD z 1 {i}{value}"));
    }
    let root = bench.kv.root();
    for command in [
        "LRANGE l 0 -1",
        "LPOP l 9",
        "RPOP l 9",
        "SMEMBERS s",
        "SPOP s 9",
        "HGETALL h",
        "ZRANGE z 0 -1",
        "ZPOPMIN z 9",
    ] {
        assert!(bench.run(command).starts_with("-ERR SYN-3002 reply exceeds"), "{command}");
    }
    let before = bench.kv.chunk(1);
    assert_eq!((bench.kv.root(), bench.kv.chunk(1)), (root, before));
    assert!(bench.run("LRANGE l 0 3").starts_with("*4"));
    let reads = vec!["LRANGE l 0 2"; 3];
    let reply = bench.execute(&[transaction(&[], &reads)]).remove(0);
    assert!(reply.len() < 3 << 20, "{} bytes", reply.len());
    assert!(line(&reply).contains("-ERR SYN-3002 reply exceeds"));
}

#[test]
fn an_entry_has_a_largest_size() {
    let mut bench = Bench::new();
    let value = "x".repeat(VALUE_BYTES_MAX);
    let refused = (0..200).map(|_| bench.execute(&[command(&format!("RPUSH l {value}"))]).remove(0));
    let refused = refused.filter(|reply| reply.starts_with(b"-ERR SYN-3002 value exceeds")).count();
    assert!((60..80).contains(&refused), "{refused} of 200 pushes of 512 KiB");
    assert!(bench.run("LPOP l").starts_with('$'));
}

#[test]
fn a_full_store_refuses_to_grow_and_still_shrinks() {
    let mut bench = Bench::with(Config { bytes_max: 100_000 });
    let mut full = 0;
    for i in 0..400 {
        let reply = bench.run(&format!("SET k{i} 0123456789"));
        full += usize::from(reply.starts_with("-OOM SYN-3402"));
        assert!(bench.kv.bytes() <= 100_000);
    }
    assert!(full > 0 && full < 400);
    assert!(bench.run("GET k0").starts_with('$'));
    assert_eq!(bench.run("DEL k0 k1 k2"), ":3");
    assert_eq!(bench.run("SET k0 1"), "+OK");
}
