//! RESP over a socket: what clients see.

mod solo;

use solo::{
    Behaviour,
    wire::{LIMITS, Resp, multibulk},
};
use synod_config::{Address, Limits, code};
use synod_gateway::{Api, RespServer, RespSettings, Secret};
use synod_host::Mode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Duration, Instant};

/// Ordered.
const O: Mode = Mode::Ordered;
/// By a quorum.
const Q: Mode = Mode::Quorum;

#[tokio::test]
async fn a_session_reads_what_it_wrote() {
    let server = Resp::start().await;
    let mut client = server.client().await;
    for (line, reply) in [
        ("PING", "+PONG"),
        ("SET greeting hello", "+OK"),
        ("GET greeting", "$5 hello"),
        ("GET nobody", "$-1"),
        ("INCR counter", ":1"),
        ("APPEND greeting !", ":6"),
        ("LPUSH list a b", ":2"),
        ("LRANGE list 0 -1", "*2 $1 b $1 a"),
        ("GET list", "-WRONGTYPE_SYN-3004_Operation_against_a_key_holding_the_wrong_kind_of_value"),
        ("DEL greeting counter nobody", ":2"),
        ("SELECT 0", "+OK"),
        ("ECHO bye", "$3 bye"),
    ] {
        client.say(line, reply).await;
    }
    client.say("QUIT", "+OK").await;
    client.expect_closed().await;
    assert_eq!(server.shared.traffic.accepted_total(Api::Resp), 8);
    let refused: Vec<_> = server.shared.traffic.refused_total(Api::Resp).collect();
    assert_eq!(refused, [(code::WRONG_TYPE, 1)]);
    assert_eq!(server.shared.traffic.inflight(Api::Resp), 0);
}

#[tokio::test]
async fn ten_thousand_pipelined_commands_are_answered_in_order() {
    let server = Resp::start().await;
    let client = server.client().await;
    let (mut reader, mut writer) = client.0.into_split();
    let (mut sent, mut wanted) = (Vec::new(), Vec::new());
    for number in 0..10_000_u32 {
        let text = number.to_string();
        let (command, reply) = match number % 4 {
            0 => (multibulk(&[b"SET", b"k", text.as_bytes()]), "+OK\r\n".to_owned()),
            1 => {
                let last = (number - 1).to_string();
                (multibulk(&[b"GET", b"k"]), format!("${}\r\n{last}\r\n", last.len()))
            }
            2 => (multibulk(&[b"ECHO", text.as_bytes()]), format!("${}\r\n{text}\r\n", text.len())),
            _ => (b"INCR n\r\n".to_vec(), format!(":{}\r\n", number / 4 + 1)),
        };
        sent.extend_from_slice(&command);
        wanted.extend_from_slice(reply.as_bytes());
    }
    let sending = tokio::spawn(async move { writer.write_all(&sent).await.map(|()| writer) });
    let mut got = vec![0; wanted.len()];
    reader.read_exact(&mut got).await.expect("every reply comes");
    assert!(got == wanted, "a reply is out of place");
    drop(sending.await.expect("the sender ends"));
    let seen = server.store.seen();
    assert_eq!(seen.iter().map(|call| call.modes.len()).sum::<usize>(), 7_500);
    assert!(seen.iter().all(|call| call.modes.len() <= 1_024 && call.bytes <= 768 << 10));
    assert!(seen.len() < 1_000, "bursts were taken apart: {} calls", seen.len());
}

#[tokio::test]
async fn a_command_may_arrive_byte_by_byte() {
    let server = Resp::start().await;
    let mut client = server.client().await;
    for byte in multibulk(&[b"SET", b"key", b"a\r\nb"]) {
        client.send(&[byte]).await;
        tokio::task::yield_now().await;
    }
    client.expect("+OK\r\n").await;
    client.say("GET key", "$4 a b").await;
    assert_eq!(server.store.seen().len(), 2);
}

#[tokio::test]
async fn a_burst_is_one_call_and_its_reads_are_ordered_only_behind_writes() {
    let server = Resp::start().await;
    let mut client = server.client().await;
    client.send(b"GET a\r\nGET b\r\n").await;
    client.expect("$-1\r\n$-1\r\n").await;
    client.send(b"GET a\r\nSET a 1\r\nGET a\r\n").await;
    client.expect("$-1\r\n+OK\r\n$1\r\n1\r\n").await;
    client.send(b"GET a\r\n").await;
    client.expect("$1\r\n1\r\n").await;
    let modes: Vec<_> = server.store.seen().into_iter().map(|call| call.modes).collect();
    assert_eq!(modes, [vec![Q, Q], vec![O, O, O], vec![Q]]);
}

#[tokio::test]
async fn what_arrives_while_a_write_is_in_flight_is_executed_behind_it() {
    let server = Resp::start().await;
    server.store.behave(Behaviour::Silent);
    let mut client = server.client().await;
    client.send(b"SET a 1\r\n").await;
    while server.shared.traffic.inflight(Api::Resp) < 1 {
        tokio::task::yield_now().await;
    }
    client.send(b"SET a 2\r\nGET a\r\n").await;
    // Nothing tells when the gateway has read it; if it had made a call of it, that would be executed first here.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    server.store.behave(Behaviour::Serve);
    server.store.serve_kept();
    client.expect("+OK\r\n+OK\r\n$1\r\n2\r\n").await;
    client.say("GET a", "$1 2").await;
    let modes: Vec<_> = server.store.seen().into_iter().map(|call| call.modes).collect();
    assert_eq!(modes, [vec![O], vec![O, O], vec![Q]]);
}

#[tokio::test]
async fn each_connection_has_a_lane_of_its_own() {
    let server = Resp::start().await;
    let (mut one, mut two) = (server.client().await, server.client().await);
    for client in [&mut one, &mut two] {
        client.say("SET a 1", "+OK").await;
        client.say("GET a", "$1 1").await;
    }
    let lanes: Vec<_> = server.store.seen().into_iter().map(|call| call.lane).collect();
    assert!(lanes[0] == lanes[1] && lanes[2] == lanes[3] && lanes[0] != lanes[2], "{lanes:?}");
    assert_eq!(server.shared.traffic.connections(Api::Resp), 2);
}

#[tokio::test]
async fn a_watched_key_that_another_connection_wrote_voids_the_transaction() {
    let server = Resp::start().await;
    let (mut one, mut two) = (server.client().await, server.client().await);
    one.say("SET balance 10", "+OK").await;
    one.say("WATCH balance", "+OK").await;
    two.say("SET balance 20", "+OK").await;
    for (line, reply) in [
        ("MULTI", "+OK"),
        ("SET balance 11", "+QUEUED"),
        ("EXEC", "*-1"),
        ("GET balance", "$2 20"),
        ("WATCH balance", "+OK"),
        ("MULTI", "+OK"),
        ("SET balance 21", "+QUEUED"),
        ("GET balance", "+QUEUED"),
        ("EXEC", "*2 +OK $2 21"),
    ] {
        one.say(line, reply).await;
    }
    two.say("GET balance", "$2 21").await;
}

#[tokio::test]
async fn broken_input_is_refused_with_its_error_and_closed() {
    let server = Resp::start().await;
    let cases: [(&[u8], &str); 6] = [
        (b"*1025\r\n", "-ERR SYN-3002 Protocol error: invalid multibulk length\r\n"),
        (b"*1\r\n$524289\r\n", "-ERR SYN-3002 Protocol error: invalid bulk length\r\n"),
        (b"*-7\r\n", "-ERR SYN-3002 Protocol error: invalid multibulk length\r\n"),
        (b"*x\r\n", "-ERR SYN-3002 Protocol error: invalid multibulk length\r\n"),
        (b"*1\r\n*1\r\n", "-ERR SYN-3002 Protocol error: expected '$'\r\n"),
        (&[b'a'; 65_538], "-ERR SYN-3002 Protocol error: too big inline request\r\n"),
    ];
    for (bytes, error) in cases {
        let mut client = server.client().await;
        client.send(bytes).await;
        assert_eq!(client.rest().await, error);
    }
    let mut client = server.client().await;
    client.say("EVAL x 0", "-ERR_SYN-3003_unknown_command_'EVAL',_with_args_beginning_with:_'x'_'0'_").await;
    client.say("GET", "-ERR_SYN-3001_wrong_number_of_arguments_for_'get'_command").await;
    client.say("PING", "+PONG").await;
    assert_eq!(server.store.seen(), []);
}

#[tokio::test]
async fn a_password_is_needed_once_it_is_set() {
    let settings = RespSettings { password: Some(Secret::of(b"open sesame")), ..RespSettings::default() };
    let server = Resp::with(settings, &LIMITS).await;
    let mut client = server.client().await;
    client.say("GET a", "-NOAUTH_SYN-3011_Authentication_required.").await;
    client.send(b"AUTH wrong\r\n").await;
    let mut line = vec![0; 9];
    client.0.read_exact(&mut line).await.expect("a reply comes");
    assert_eq!(line, b"-WRONGPAS");
    let mut client = server.client().await;
    client.say("AUTH \"open sesame\"", "+OK").await;
    client.say("SET a 1", "+OK").await;

    let mut stranger = server.client().await;
    stranger.send(b"*11\r\n").await;
    assert!(stranger.rest().await.starts_with("-ERR SYN-3002 "));
    let mut stranger = server.client().await;
    stranger.send(b"*2\r\n$4\r\nAUTH\r\n$16385\r\n").await;
    assert!(stranger.rest().await.starts_with("-ERR SYN-3002 "));
}

#[tokio::test]
async fn outcomes_have_their_errors() {
    let server = Resp::start().await;
    let mut client = server.client().await;
    server.store.behave(Behaviour::Reject(3402, 250));
    client.say("SET a 1", "-TRYAGAIN_SYN-3402_retry-ms=250").await;
    server.store.behave(Behaviour::Reject(3401, 0));
    client.send(b"SET a 1\r\n").await;
    client.expect("-CLUSTERDOWN SYN-3401 too few members answer\r\n").await;
    server.store.behave(Behaviour::Reject(3405, 0));
    client.say("SET a 1", "-ERR_SYN-3405_draining").await;
    server.store.behave(Behaviour::Lost);
    client.say("SET a 1", "-UNKNOWN_SYN-3501_id=none").await;
    server.store.behave(Behaviour::Unknown);
    client.send(b"SET a 1\r\n").await;
    let lane = server.store.seen()[0].lane;
    let cluster = &synod_crypto::Hash::of(b"solo").to_string()[..8];
    client.expect(&format!("-UNKNOWN SYN-3501 id=r1-{cluster}-{lane}-9\r\n")).await;
    server.store.behave(Behaviour::Serve);
    client.say("SET a 1", "+OK").await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_never_answers_leaves_unknown_at_the_deadline() {
    let server = Resp::start().await;
    server.store.behave(Behaviour::Silent);
    let mut client = server.client().await;
    let begun = Instant::now();
    client.send(b"SET a 1\r\nPING\r\n").await;
    client.expect("-UNKNOWN SYN-3501 id=none\r\n+PONG\r\n").await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(5) && took < Duration::from_millis(5_100), "{took:?}");
    assert_eq!(server.shared.traffic.inflight(Api::Resp), 0);
    let refused: Vec<_> = server.shared.traffic.refused_total(Api::Resp).collect();
    assert_eq!(refused, [(code::DEADLINE_PASSED, 1)]);
    server.store.behave(Behaviour::Serve);
    client.say("GET a", "$-1").await;
}

#[tokio::test(start_paused = true)]
async fn a_command_that_takes_more_than_ten_seconds_closes_its_connection() {
    let server = Resp::start().await;
    let mut client = server.client().await;
    let begun = Instant::now();
    client.send(b"*2\r\n$3\r\nGET\r\n").await;
    client.expect_closed().await;
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(10) && took < Duration::from_secs(11), "{took:?}");
    assert_eq!(server.shared.traffic.cuts(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_stays_open() {
    let server = Resp::start().await;
    let mut client = server.client().await;
    client.say("PING", "+PONG").await;
    tokio::time::advance(Duration::from_secs(3_600)).await;
    client.say("PING", "+PONG").await;
    assert_eq!(server.shared.traffic.cuts(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_read_is_closed() {
    let server = Resp::start().await;
    let mut client = server.client().await;
    let value = vec![b'v'; 512 << 10];
    client.send(&multibulk(&[b"SET", b"big", &value])).await;
    client.expect("+OK\r\n").await;
    // More than the socket buffers of both sides take.
    let (reader, mut writer) = client.0.into_split();
    let asking = tokio::spawn(async move {
        let ask = b"GET big\r\n".repeat(60);
        drop(writer.write_all(&ask).await);
    });
    while server.shared.traffic.cuts() == 0 {
        tokio::time::advance(Duration::from_millis(250)).await;
        tokio::task::yield_now().await;
    }
    asking.await.expect("the asking ends");
    assert!(server.shared.budget.used() < 1 << 20);
    drop(reader);
}

#[tokio::test]
async fn a_connection_without_a_place_is_told_so() {
    let server = Resp::with(RespSettings::default(), &Limits { clients_max: 1, ..LIMITS }).await;
    let mut first = server.client().await;
    first.say("PING", "+PONG").await;
    let mut second = server.client().await;
    assert_eq!(second.rest().await, "-ERR SYN-3402 max number of clients reached\r\n");
    first.say("QUIT", "+OK").await;
    first.expect_closed().await;
    drop(first);
    while server.shared.traffic.connections(Api::Resp) > 0 {
        tokio::task::yield_now().await;
    }
    server.client().await.say("PING", "+PONG").await;
}

#[tokio::test(start_paused = true)]
async fn a_spent_budget_pauses_reads_and_closes_the_largest_holder() {
    let limits = Limits { gateway_bytes: 768 << 10, ..LIMITS };
    let server = Resp::with(RespSettings::default(), &limits).await;
    let (mut large, mut small) = (server.client().await, server.client().await);
    // Neither command ends, so that both stay in memory.
    let unfinished = |bytes: usize| {
        let mut command = b"*2\r\n$4\r\nECHO\r\n$500000\r\n".to_vec();
        command.resize(command.len() + bytes, b'x');
        command
    };
    large.send(&unfinished(450_000)).await;
    small.send(&unfinished(200_000)).await;
    large.expect_closed().await;
    assert_eq!(server.shared.budget.evictions(), 1);
    small.send(&[b'x'; 300_000]).await;
    small.send(b"\r\n").await;
    small.expect(&format!("$500000\r\n{}\r\n", "x".repeat(500_000))).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_idle_connections_and_lets_owed_replies_out() {
    let server = Resp::start().await;
    let (mut idle, mut owed) = (server.client().await, server.client().await);
    idle.say("PING", "+PONG").await;
    server.store.behave(Behaviour::Silent);
    owed.send(b"SET a 1\r\n").await;
    while server.shared.traffic.inflight(Api::Resp) < 1 {
        tokio::task::yield_now().await;
    }
    server.stopper.stop();
    idle.expect_closed().await;
    assert_eq!(owed.rest().await, "-UNKNOWN SYN-3501 id=none\r\n");
    server.served.await.expect("the listener ends");
    assert_eq!(server.shared.traffic.connections(Api::Resp), 0);
}

#[tokio::test]
async fn a_plain_listener_off_loopback_is_refused_even_with_a_password() {
    let server = Resp::start().await;
    let open = Address::parse("0.0.0.0:0").expect("an address");
    for password in [None, Some(Secret::of(b"open sesame"))] {
        let settings = RespSettings { password, ..RespSettings::default() };
        let bound = RespServer::bind(&open, settings, server.shared.clone()).await;
        assert_eq!(bound.map(|_| ()).map_err(|error| error.code()), Err(code::INSECURE_LISTENER));
    }
}
