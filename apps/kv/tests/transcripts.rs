//! Every command as Redis 7.0 answers it, with Synod's codes before the error texts (TV1).
//!
//! A transcript is lines of `> command` with the reply below, line ends shown as spaces; `@ ms` moves agreed time.

mod workbench;

use workbench::Bench;

/// Plays a transcript on an empty store.
fn play(transcript: &str) {
    let mut bench = Bench::new();
    let mut lines = transcript.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut compared = 0;
    while let Some(line) = lines.next() {
        if let Some(ms) = line.strip_prefix("@ ") {
            bench.time_ms += ms.parse::<u64>().expect("a number of ms");
        } else {
            let command = line.strip_prefix("> ").expect("a command or a time");
            let reply = bench.run(command);
            assert_eq!(reply, lines.next().expect("a reply follows"), "{command}");
            compared += 1;
        }
    }
    assert!(compared > 3, "a transcript compares something");
}

#[test]
fn strings_are_set_read_and_replaced() {
    play(include_str!("transcripts/strings.txt"));
}

#[test]
fn counters_count_and_refuse_to_wrap() {
    play(include_str!("transcripts/counters.txt"));
}

#[test]
fn keys_are_counted_typed_and_removed() {
    play(include_str!("transcripts/keys.txt"));
}

#[test]
fn keys_expire_by_agreed_time() {
    play(include_str!("transcripts/expiry.txt"));
}

#[test]
fn lists_have_two_ends() {
    play(include_str!("transcripts/lists.txt"));
}

#[test]
fn sets_hold_members_once_and_in_byte_order() {
    play(include_str!("transcripts/sets.txt"));
}

#[test]
fn hashes_hold_fields() {
    play(include_str!("transcripts/hashes.txt"));
}

#[test]
fn sorted_sets_go_by_score_then_member() {
    play(include_str!("transcripts/sorted.txt"));
}

#[test]
fn scan_answers_cursor_and_page() {
    play(include_str!("transcripts/scan.txt"));
}

#[test]
fn every_command_of_a_type_refuses_the_other_types() {
    let wrong = "-WRONGTYPE SYN-3004 Operation against a key holding the wrong kind of value";
    let mut bench = Bench::new();
    for (key, make) in
        [("s", "SET s 1"), ("l", "LPUSH l 1"), ("u", "SADD u 1"), ("h", "HSET h 1 1"), ("z", "ZADD z 1 1")]
    {
        bench.run(make);
        let root = synod_service::App::root(&mut bench.kv);
        for (owner, commands) in [
            ("s", "GET K;GETSET K v;GETDEL K;APPEND K v;STRLEN K;INCR K;DECRBY K 1;SET K v GET"),
            ("l", "LPUSH K v;RPUSH K v;LPOP K;RPOP K 2;LRANGE K 0 1;LLEN K"),
            ("u", "SADD K v;SREM K v;SPOP K;SPOP K 2;SISMEMBER K v;SMEMBERS K;SCARD K"),
            ("h", "HSET K f v;HGET K f;HDEL K f;HGETALL K;HINCRBY K f 1"),
            ("z", "ZADD K 1 m;ZADD K INCR 1 m;ZREM K m;ZRANGE K 0 1;ZPOPMIN K;ZPOPMIN K 2;ZSCORE K m"),
        ] {
            for command in commands.split(';').filter(|_| owner != key) {
                assert_eq!(
                    bench.run(&command.replace(" K", &format!(" {key}"))),
                    wrong,
                    "{command} on {key}"
                );
            }
        }
        assert_eq!(synod_service::App::root(&mut bench.kv), root, "a refusal changed {key}");
    }
    assert_eq!(bench.run("MGET s l"), "*2 $1 1 _");
    assert_eq!(bench.run("SET l now-text"), "+OK");
}
