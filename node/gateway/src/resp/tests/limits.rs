//! Caps at their edge, back-pressure and time limits.

use bytes::Bytes;
use synod_crypto::Hash;

use super::{Client, Numbers, Server, at, multibulk, settings, shown};
use crate::resp::{Answer, Limits, Overdue, Settings};

/// What a fresh connection answers; `None` when it says nothing.
fn outcome(settings: Settings, bytes: &[u8]) -> (String, bool) {
    let (mut server, mut client) = (Server::new(), Client::new(settings));
    let answer = shown(&client.exchange(&mut server, bytes));
    (answer, client.connection.is_finished())
}

#[test]
fn a_command_may_have_1024_elements() {
    let del = |count: usize| {
        let mut words: Vec<&[u8]> = vec![b"k"; count];
        words[0] = b"DEL";
        outcome(settings(), &multibulk(&words))
    };
    assert_eq!(del(1_023), (":0".to_owned(), false));
    assert_eq!(del(1_024), (":0".to_owned(), false));
    assert_eq!(del(1_025), ("-ERR SYN-3002 Protocol error: invalid multibulk length".to_owned(), true));
    let inline = |words: usize| outcome(settings(), format!("DEL{}\r\n", " k".repeat(words - 1)).as_bytes());
    assert_eq!(inline(1_024).0, ":0");
    assert_eq!(inline(1_025), ("-ERR SYN-3002 Protocol error: invalid multibulk length".to_owned(), true));
}

#[test]
fn a_bulk_string_may_have_512_kib() {
    let set = |length: usize| outcome(settings(), &multibulk(&[b"SET", b"k", &vec![b'v'; length]]));
    assert_eq!(set((512 << 10) - 1).0, "+OK");
    assert_eq!(set(512 << 10), ("+OK".to_owned(), false));
    assert_eq!(set((512 << 10) + 1), ("-ERR SYN-3002 Protocol error: invalid bulk length".to_owned(), true));
}

#[test]
fn a_command_must_fit_a_frame() {
    let max = Limits::default().request_bytes_max;
    let mset = |total: usize| {
        let first = vec![b'a'; 400 << 10];
        let empty = multibulk(&[b"MSET", b"k", &first, b"l", &vec![b'b'; 100_000]]).len() - 100_000;
        let bytes = multibulk(&[b"MSET", b"k", &first, b"l", &vec![b'b'; total - empty]]);
        assert_eq!(bytes.len(), total);
        outcome(settings(), &bytes)
    };
    assert_eq!(mset(max - 1).0, "+OK");
    assert_eq!(mset(max), ("+OK".to_owned(), false));
    assert_eq!(mset(max + 1), ("-ERR SYN-3002 Protocol error: too big request".to_owned(), true));
}

#[test]
fn an_inline_command_may_have_64_kib() {
    let echo = |length: usize| {
        let line = format!("ECHO {}", "x".repeat(length - 5));
        let (mut server, mut client) = (Server::new(), Client::new(settings()));
        let first = client.exchange(&mut server, line.as_bytes());
        let second = client.exchange(&mut server, b"\n");
        (shown(&[first, second].concat()), client.connection.is_finished())
    };
    assert!(echo((64 << 10) - 1).0.starts_with("$65530 x"));
    assert!(echo(64 << 10).0.starts_with("$65531 x"));
    assert_eq!(
        echo((64 << 10) + 1),
        ("-ERR SYN-3002 Protocol error: too big inline request".to_owned(), true)
    );
}

#[test]
fn strangers_may_send_little() {
    let locked = || Settings { password: Some(Hash::of(b"secret")), ..settings() };
    let noauth = "-NOAUTH SYN-3011 Authentication required.";
    let words = |count: usize| outcome(locked(), &multibulk(&vec![&b"DEL"[..]; count]));
    assert_eq!(words(9), (noauth.to_owned(), false));
    assert_eq!(words(10), (noauth.to_owned(), false));
    assert_eq!(
        words(11),
        ("-ERR SYN-3002 Protocol error: unauthenticated multibulk length".to_owned(), true)
    );
    let bulk = |length: usize| outcome(locked(), &multibulk(&[b"GET", &vec![b'k'; length]]));
    assert_eq!(bulk((16 << 10) - 1).0, noauth);
    assert_eq!(bulk(16 << 10), (noauth.to_owned(), false));
    let refused = "-ERR SYN-3002 Protocol error: unauthenticated bulk length";
    assert_eq!(bulk((16 << 10) + 1), (refused.to_owned(), true));
    // The same bytes behind AUTH in one burst are a friend's.
    let mut burst = multibulk(&[b"AUTH", b"secret"]);
    burst.extend_from_slice(&multibulk(&[b"GET", &vec![b'k'; 20_000]]));
    assert_eq!(outcome(locked(), &burst), ("+OK $-1".to_owned(), false));
}

#[test]
fn what_stands_before_a_refusal_is_still_answered() {
    let (mut server, mut client) = (Server::new(), Client::new(settings()));
    client.connection.receive(b"SET k v\r\n*1\r\n:1\r\nSET k w\r\n", at(0));
    assert!(!client.connection.is_finished() && !client.connection.wants_input());
    let answers = shown(&client.settle(&mut server));
    assert_eq!(answers, "+OK -ERR SYN-3002 Protocol error: expected '$'");
    assert!(client.connection.is_finished());
}

#[test]
fn a_pipeline_has_a_depth_and_goes_on_when_answers_come() {
    let (mut server, mut client) = (Server::new(), Client::new(settings()));
    client.connection.receive(&b"INCR k\r\n".repeat(1_023), at(0));
    assert!(client.connection.wants_input());
    client.connection.receive(&b"INCR k\r\n".repeat(977), at(0));
    assert!(!client.connection.wants_input());
    let asks = client.connection.take_asks();
    assert_eq!(asks.len(), 1_023, "what came behind them is the next frame");
    for ask in &asks {
        let reply = server.perform(ask);
        client.connection.answer(ask.slot, Answer::Reply(reply), at(0));
    }
    let rest = shown(&client.settle(&mut server));
    assert!(rest.starts_with(":1 :2 ") && rest.ends_with(" :1999 :2000"));
}

#[test]
fn a_reader_that_does_not_read_stops_its_input_and_is_told() {
    let small = Settings { limits: Limits { output_bytes_max: 1_000, ..Limits::default() }, ..settings() };
    let mut client = Client::new(small);
    client.connection.receive(&b"PING 0123456789\r\n".repeat(200), at(0));
    let full = client.connection.output().len();
    assert!((1_000..1_100).contains(&full), "{full}");
    assert!(!client.connection.wants_input());
    assert_eq!(client.connection.overdue(at(5_000)), None);
    assert_eq!(client.connection.overdue(at(5_001)), Some(Overdue::Output));
    client.connection.sent(900, at(5_001));
    assert_eq!(client.connection.output().len().div_euclid(1_000), 1, "the pipeline went on");
    while !client.connection.output().is_empty() {
        client.connection.sent(50, at(6_000));
    }
    assert!(client.connection.wants_input());
    assert_eq!(client.connection.overdue(at(60_000)), None);
}

#[test]
fn one_command_may_take_ten_seconds_to_arrive() {
    let mut client = Client::new(settings());
    assert_eq!(client.connection.overdue(at(100_000)), None, "an idle connection is welcome");
    client.connection.receive(b"PING\r\n*2\r\n$4\r\n", at(1_000));
    for second in 1..=10 {
        client.connection.receive(b"E", at(1_000 + second * 900));
        assert_eq!(client.connection.overdue(at(11_000)), None);
        if second == 4 {
            break;
        }
    }
    assert_eq!(client.connection.overdue(at(11_001)), Some(Overdue::Command));
    let mut client = Client::new(settings());
    client.connection.receive(b"PI", at(0));
    client.connection.receive(b"NG\r\nPI", at(9_000));
    assert_eq!(client.connection.overdue(at(19_000)), None, "each command has its own time");
    client.connection.receive(b"NG\r\n", at(19_000));
    assert_eq!(client.connection.overdue(at(99_000)), None);
}

#[test]
fn a_transaction_fits_one_operation() {
    let (mut server, mut client) = (Server::new(), Client::new(settings()));
    client.say(&mut server, "MULTI");
    let value = vec![b'v'; 300 << 10];
    let set = multibulk(&[b"SET", b"k", &value]);
    assert_eq!(shown(&client.exchange(&mut server, &set)), "+QUEUED");
    assert_eq!(shown(&client.exchange(&mut server, &set)), "+QUEUED");
    assert_eq!(shown(&client.exchange(&mut server, &set)), "-ERR SYN-3002 the transaction is too large");
    assert!(client.say(&mut server, "EXEC").starts_with("-EXECABORT"));
    client.say(&mut server, "MULTI");
    for i in 0..1_025 {
        let answer = client.say(&mut server, if i % 2 == 0 { "INCR n" } else { "PING" });
        assert_eq!(answer == "+QUEUED", i < 1_024, "command {i}: {answer}");
    }
    client.say(&mut server, "DISCARD");
    let keys: Vec<Vec<u8>> = (0..1_023).map(|i: i32| i.to_string().into_bytes()).collect();
    let mut watch: Vec<&[u8]> = vec![b"WATCH"];
    watch.extend(keys.iter().map(Vec::as_slice));
    assert_eq!(shown(&client.exchange(&mut server, &multibulk(&watch))), "+OK");
    assert_eq!(client.say(&mut server, "WATCH a"), "+OK");
    assert_eq!(client.say(&mut server, "WATCH b"), "-ERR SYN-3002 too many watched keys");
}

#[test]
fn noise_never_stops_a_connection() {
    let mut numbers = Numbers(9);
    let words: [&[u8]; 14] = [
        b"GET",
        b"SET",
        b"MULTI",
        b"EXEC",
        b"WATCH",
        b"k",
        b"1",
        b"HELLO",
        b"3",
        b"RESET",
        b"CLIENT",
        b"\xff\r\n",
        b"DISCARD",
        b"INCR",
    ];
    let mut server = Server::new();
    let mut answered = 0;
    for _ in 0..300 {
        let mut client = Client::new(settings());
        for _ in 0..30 {
            let count = usize::try_from(1 + numbers.below(4)).expect("small");
            let chosen: Vec<&[u8]> =
                (0..count).map(|_| words[usize::try_from(numbers.below(14)).expect("small")]).collect();
            let mut bytes = multibulk(&chosen);
            if numbers.below(20) == 0 {
                let at = usize::try_from(numbers.below(bytes.len() as u64)).expect("small");
                bytes[at] = numbers.byte();
            }
            answered += client.exchange(&mut server, &bytes).len();
            assert!(client.connection.bytes() < 1 << 20);
        }
        // Results of every slot, real or not, are survived.
        client.connection.receive(b"GET a\r\nINCR b\r\n", at(0));
        for ask in client.connection.take_asks() {
            let noise: Vec<u8> = (0..numbers.below(20)).map(|_| numbers.byte()).collect();
            client.connection.answer(ask.slot, Answer::Reply(Bytes::from(noise)), at(0));
        }
    }
    assert!(answered > 10_000);
}

#[test]
fn large_commands_and_replies_leave_no_memory_behind() {
    let (mut server, mut client) = (Server::new(), Client::new(settings()));
    client.connection.receive(&multibulk(&[b"SET", b"k", &vec![b'v'; 500_000]]), at(0));
    assert!(client.connection.bytes() >= 500_000, "what is held is counted");
    client.settle(&mut server);
    client.connection.receive(b"*2\r\n$3\r\nGET\r\n$1\r\n", at(0));
    client.connection.receive(b"k", at(0));
    assert!(client.connection.bytes() < 64 << 10, "{} bytes", client.connection.bytes());
    assert!(client.exchange(&mut server, b"\r\n").len() > 500_000);
    client.connection.receive(&b"GET n\r\n".repeat(1_000), at(0));
    assert_eq!(client.settle(&mut server).len(), 5_000);
    assert_eq!(client.say(&mut server, "PING"), "+PONG");
    assert!(client.connection.bytes() < 16 << 10, "{} bytes", client.connection.bytes());
}

#[test]
fn a_reply_that_is_being_sent_is_counted_until_all_of_it_is() {
    let (mut server, mut client) = (Server::new(), Client::new(settings()));
    client.exchange(&mut server, &multibulk(&[b"SET", b"k", &vec![b'v'; 500_000]]));
    client.connection.receive(b"GET k\r\n", at(0));
    for ask in client.connection.take_asks() {
        let reply = server.perform(&ask);
        client.connection.answer(ask.slot, Answer::Reply(reply), at(0));
    }
    let length = client.connection.output().len();
    client.connection.sent(length - 1, at(0));
    assert!(client.connection.bytes() >= 500_000, "its memory is held to the last byte");
    client.connection.sent(1, at(0));
    assert!(client.connection.bytes() < 16 << 10);
}
