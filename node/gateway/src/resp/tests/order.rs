//! Replies in order, reads and writes in order, results of every kind (TV4).

use bytes::Bytes;

use super::{Client, Numbers, Server, at, multibulk, settings, shown};
use crate::resp::{Answer, Ask, Connection};

fn connection() -> Connection {
    Client::new(settings()).connection
}

/// Which asks are ordered.
fn ordered(asks: &[Ask]) -> Vec<bool> {
    asks.iter().map(|ask| ask.ordered).collect()
}

fn integer(value: u64) -> Answer {
    Answer::Reply(Bytes::from(format!(":{value}\r\n")))
}

fn answer_all(connection: &mut Connection, asks: &[Ask]) {
    asks.iter().for_each(|ask| connection.answer(ask.slot, integer(1), at(0)));
}

#[test]
fn replies_keep_the_order_of_the_commands_whatever_comes_first() {
    let mut connection = connection();
    connection.receive(b"INCR a\r\nPING\r\nINCR b\r\nECHO x\r\nINCR c\r\n", at(0));
    let asks = connection.take_asks();
    assert_eq!(asks.len(), 3);
    connection.answer(asks[2].slot, integer(3), at(0));
    connection.answer(asks[1].slot, integer(2), at(0));
    assert_eq!(connection.output(), b"");
    connection.answer(asks[0].slot, integer(1), at(0));
    assert_eq!(shown(connection.output()), ":1 +PONG :2 $1 x :3");
    // A second answer, and one for a slot that never was, change nothing.
    connection.answer(asks[0].slot, integer(9), at(0));
    assert_eq!(shown(connection.output()), ":1 +PONG :2 $1 x :3");
}

#[test]
fn reads_alone_are_unordered() {
    let mut connection = connection();
    connection.receive(b"GET a\r\nMGET a b\r\nSCAN 0\r\n", at(0));
    assert_eq!(ordered(&connection.take_asks()), [false, false, false]);
    connection.receive(b"GET c\r\n", at(0));
    assert_eq!(ordered(&connection.take_asks()), [false]);
}

#[test]
fn a_read_too_long_for_a_question_is_ordered() {
    let get = |length: usize| {
        let mut connection = connection();
        connection.receive(&multibulk(&[b"GET", &vec![b'k'; length]]), at(0));
        ordered(&connection.take_asks())
    };
    let overhead = 1 + 1 + 1 + 3;
    assert_eq!(get(synod_service::QUESTION_MAX - overhead), [false]);
    assert_eq!(get(synod_service::QUESTION_MAX - overhead + 1), [true]);
}

#[test]
fn a_read_behind_a_write_is_ordered_behind_it() {
    let mut connection = connection();
    connection.receive(b"SET a 1\r\nGET a\r\n", at(0));
    let first = connection.take_asks();
    assert_eq!(ordered(&first), [true, true]);
    connection.receive(b"GET a\r\n", at(0));
    assert!(connection.take_asks().is_empty(), "the write is unanswered");
    answer_all(&mut connection, &first);
    let second = connection.take_asks();
    assert_eq!(ordered(&second), [true], "it came while the write was unanswered");
    answer_all(&mut connection, &second);
    connection.receive(b"GET a\r\n", at(0));
    assert_eq!(ordered(&connection.take_asks()), [false], "everything is answered");
}

#[test]
fn what_arrives_while_a_write_is_unanswered_is_the_next_frame() {
    let mut connection = connection();
    connection.receive(b"SET a 1\r\nSET b 1\r\n", at(0));
    let first = connection.take_asks();
    assert_eq!(first.len(), 2);
    for more in [&b"SET a 2\r\n"[..], b"GET a\r\n", b"PING\r\nINCR n\r\n"] {
        assert!(connection.wants_input(), "it is gathered");
        connection.receive(more, at(0));
        assert!(connection.take_asks().is_empty(), "two frames in flight have no order");
    }
    connection.answer(first[1].slot, integer(1), at(0));
    assert!(connection.take_asks().is_empty(), "one write is unanswered");
    connection.answer(first[0].slot, integer(1), at(0));
    assert_eq!(ordered(&connection.take_asks()), [true; 3], "one frame, in the order of arrival");
    assert!(connection.take_asks().is_empty());
}

#[test]
fn gathering_ends_at_the_bounds_of_a_frame() {
    let big = |key: &[u8], bytes: usize| multibulk(&[b"SET", key, &vec![b'v'; bytes]]);
    let mut connection = connection();
    connection.receive(b"INCR n\r\n", at(0));
    let first = connection.take_asks();
    connection.receive(&big(b"a", 400 << 10), at(0));
    assert!(connection.wants_input());
    connection.receive(&[big(b"b", 400 << 10), b"GET b\r\n".to_vec()].concat(), at(0));
    assert!(!connection.wants_input(), "more than a frame is here");
    let mut frames = Vec::new();
    answer_all(&mut connection, &first);
    loop {
        let asks = connection.take_asks();
        if asks.is_empty() {
            break;
        }
        let bytes: usize = asks.iter().map(|ask| ask.operation.len()).sum();
        assert!(bytes <= synod_kv::OPERATION_BYTES_MAX, "{bytes} bytes in one frame");
        frames.push(asks.len());
        answer_all(&mut connection, &asks);
    }
    assert_eq!(frames, [1, 2], "the second does not fit beside the first");
    assert!(connection.wants_input());
}

#[test]
fn a_read_before_a_write_never_sees_it() {
    let mut connection = connection();
    connection.receive(b"GET a\r\nSET a 1\r\n", at(0));
    assert_eq!(ordered(&connection.take_asks()), [true, true], "one burst is ordered as a whole");
    let mut connection = self::connection();
    connection.receive(b"GET a\r\n", at(0));
    let read = connection.take_asks();
    connection.receive(b"SET a 1\r\nGET a\r\n", at(0));
    assert!(connection.take_asks().is_empty(), "the write waits for the unordered read");
    assert!(!connection.wants_input());
    connection.answer(read[0].slot, integer(0), at(0));
    assert_eq!(ordered(&connection.take_asks()), [true, true]);
    assert!(connection.wants_input());
}

#[test]
fn a_watch_holds_back_what_follows_until_the_versions_are_known() {
    let mut connection = connection();
    connection.receive(b"WATCH k\r\nMULTI\r\nSET k 1\r\nEXEC\r\n", at(0));
    let asks = connection.take_asks();
    assert_eq!(asks.len(), 1);
    assert!(!connection.wants_input());
    connection.answer(asks[0].slot, Answer::Reply(Bytes::from_static(b"*1\r\n:7\r\n")), at(0));
    assert_eq!(shown(connection.output()), "+OK +OK +QUEUED");
    assert_eq!(ordered(&connection.take_asks()), [true]);
}

#[test]
fn a_watch_that_failed_forbids_the_transaction() {
    for answer in [Answer::NoQuorum, integer(7), Answer::Reply(Bytes::from_static(b"*0\r\n"))] {
        let mut connection = connection();
        connection.receive(b"WATCH k\r\nMULTI\r\nSET k 1\r\nEXEC\r\n", at(0));
        let asks = connection.take_asks();
        connection.answer(asks[0].slot, answer, at(0));
        let last = shown(connection.output());
        assert!(
            last.ends_with(
                "-EXECABORT SYN-3001 Transaction discarded because a watched key could not be read."
            )
        );
        assert!(connection.take_asks().is_empty());
    }
}

#[test]
fn every_outcome_has_its_error() {
    for (answer, text) in [
        (Answer::Busy { retry_ms: 250 }, "-TRYAGAIN SYN-3402 retry-ms=250"),
        (Answer::NoQuorum, "-CLUSTERDOWN SYN-3401 too few members answer"),
        (Answer::Unknown { id: "r1-abc".to_owned() }, "-UNKNOWN SYN-3501 id=r1-abc"),
        (
            Answer::Refused { code: 3014, text: "session\r\nunknown".to_owned() },
            "-ERR SYN-3014 session  unknown",
        ),
        (Answer::Reply(Bytes::from_static(b"garbage")), "-ERR SYN-9001 the result is not a reply"),
        (
            Answer::Reply(Bytes::from_static(b"$1\r\nx\r\n+forged\r\n")),
            "-ERR SYN-9001 the result is not a reply",
        ),
    ] {
        let mut connection = connection();
        connection.receive(b"INCR a\r\nPING\r\n", at(0));
        let asks = connection.take_asks();
        connection.answer(asks[0].slot, answer, at(0));
        assert_eq!(shown(connection.output()), format!("{text} +PONG"));
        assert!(connection.wants_input() && !connection.is_finished());
    }
}

#[test]
fn a_transaction_that_was_not_performed_says_so() {
    let mut connection = connection();
    connection.receive(b"MULTI\r\nPING\r\nINCR a\r\nEXEC\r\n", at(0));
    let asks = connection.take_asks();
    connection.answer(asks[0].slot, Answer::Unknown { id: "r1-x".to_owned() }, at(0));
    assert_eq!(shown(connection.output()), "+OK +QUEUED +QUEUED -UNKNOWN SYN-3501 id=r1-x");
}

/// A pipeline of commands of every kind.
fn pipeline(numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..60 {
        let key = format!("k{}", numbers.below(6));
        let key = key.as_bytes();
        bytes.extend_from_slice(&match numbers.below(12) {
            0 => multibulk(&[b"SET", key, b"1"]),
            1 => multibulk(&[b"INCR", key]),
            2 => multibulk(&[b"RPUSH", key, b"a", b"b"]),
            3 => multibulk(&[b"DEL", key]),
            4 => b"PING\r\n".to_vec(),
            5 => multibulk(&[b"MULTI"]),
            6 => multibulk(&[b"EXEC"]),
            7 => multibulk(&[b"WATCH", key]),
            8 => multibulk(&[b"HELLO", if numbers.below(2) == 0 { b"2" } else { b"3" }]),
            9 => multibulk(&[b"ZADD", b"z", b"1.5", key]),
            10 => multibulk(&[b"ZRANGE", b"z", b"0", b"-1", b"WITHSCORES"]),
            _ => multibulk(&[b"GET", key]),
        });
    }
    bytes
}

#[test]
fn the_answers_do_not_depend_on_how_a_pipeline_arrives() {
    for seed in 0..6 {
        let bytes = pipeline(&mut Numbers(seed));
        let whole = Client::new(settings()).exchange(&mut Server::new(), &bytes);
        assert!(whole.len() > 500);
        for split in (0..bytes.len()).step_by(3) {
            let (mut server, mut client) = (Server::new(), Client::new(settings()));
            let mut got = client.exchange(&mut server, &bytes[..split]);
            got.extend_from_slice(&client.exchange(&mut server, &bytes[split..]));
            assert_eq!(got, whole, "seed {seed}, split at {split}");
        }
        let (mut server, mut client) = (Server::new(), Client::new(settings()));
        let single: Vec<u8> = bytes.iter().flat_map(|byte| client.exchange(&mut server, &[*byte])).collect();
        assert_eq!(single, whole, "seed {seed}, byte by byte");
    }
}
