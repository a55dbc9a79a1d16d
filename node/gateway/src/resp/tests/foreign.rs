//! Connections in front of a replicated Redis server, which is a list of what it was asked.

use synod_redis_adapter::{Command, Operation};
use synod_wire::{Limits, Wire};

use super::*;
use crate::resp::render;

/// A connection and the requests that it made.
struct Front {
    connection: Connection,
    asked: Vec<Vec<String>>,
    /// How many commands of a burst have room for their replies.
    room: usize,
}

fn words(command: &Command) -> String {
    command
        .0
        .iter()
        .map(|word| String::from_utf8_lossy(word.bytes()).into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

impl Front {
    fn new(room: usize) -> Self {
        let settings = Settings { store: Store::Redis, ..settings() };
        Self { connection: Connection::new(Arc::new(settings), 7), asked: Vec::new(), room }
    }

    /// The reply to a command is its words.
    fn perform(&mut self, operation: &Bytes) -> Bytes {
        let limits = Limits { frame_max: 1 << 20 };
        let decoded = Operation::decode(operation.clone(), &limits).expect("an operation");
        let (commands, is_one, most) = match decoded {
            Operation::One(command) => (vec![command], true, 1),
            Operation::Burst(burst) => (burst.to_vec(), false, self.room),
            Operation::Whole(all) => (all.to_vec(), false, usize::MAX),
        };
        self.asked.push(commands.iter().map(words).collect());
        let replies: Vec<String> =
            commands.iter().take(most).map(|command| format!("+{}\r\n", words(command))).collect();
        let header = if is_one { String::new() } else { format!("*{}\r\n", replies.len()) };
        Bytes::from(format!("{header}{}", replies.concat()).into_bytes())
    }

    /// Sends bytes and performs what is asked, one request at a time; what came back.
    fn exchange(&mut self, bytes: &[u8]) -> String {
        self.connection.receive(bytes, at(0));
        loop {
            let asks = self.connection.take_asks();
            assert!(asks.len() <= 1 && asks.iter().all(|ask| ask.ordered), "one at a time, all in order");
            for ask in &asks {
                let reply = self.perform(&ask.operation);
                self.connection.answer(ask.slot, Answer::Reply(reply), at(0));
            }
            if asks.is_empty() {
                let got = shown(self.connection.output());
                self.connection.sent(self.connection.output().len(), at(0));
                return got;
            }
        }
    }
}

#[test]
fn a_pipeline_is_one_request_and_what_had_no_room_is_asked_again_before_all_else() {
    let mut front = Front::new(2);
    assert_eq!(front.exchange(b"SET a 1\r\n"), "+SET a 1");
    assert_eq!(
        front
            .exchange(b"A\r\nSET b 1\r\nGET b\r\nPING\r\nINCR c\r\nINCR d\r\nINCR e\r\n")
            .matches("SYN-3003")
            .count(),
        1
    );
    let expected: Vec<Vec<&str>> = vec![
        vec!["SET a 1"],
        vec!["SET b 1", "GET b", "INCR c", "INCR d", "INCR e"],
        vec!["INCR c", "INCR d", "INCR e"],
        vec!["INCR e"],
    ];
    assert_eq!(front.asked, expected);
}

#[test]
fn replies_of_a_burst_come_in_the_order_of_its_commands_with_those_that_are_known() {
    let mut front = Front::new(8);
    let got = front.exchange(b"SET b 1\r\nPING\r\nGET b\r\nBLPOP l 0\r\nDEL b\r\n");
    let parts: Vec<&str> = got.split('+').collect();
    assert!(got.starts_with("+SET b 1 +PONG +GET b -ERR SYN-3003"), "{got}");
    assert_eq!(parts.last(), Some(&"DEL b"));
}

#[test]
fn an_outcome_that_is_unknown_is_that_of_every_command_of_the_burst() {
    let mut front = Front::new(8);
    front.connection.receive(b"SET a 1\r\nSET b 1\r\nSET c 1\r\n", at(0));
    let asks = front.connection.take_asks();
    let unknown = Answer::Unknown { id: "r1-0".to_owned() };
    front.connection.answer(asks[0].slot, unknown, at(0));
    assert_eq!(shown(front.connection.output()).matches("-UNKNOWN SYN-3501 id=r1-0").count(), 3);
    // A result of more replies than commands is nobody's.
    front.connection.receive(b"SET a 1\r\nSET b 1\r\n", at(0));
    let asks = front.connection.take_asks();
    let reply = Answer::Reply(Bytes::from_static(b"*3\r\n:1\r\n:2\r\n:3\r\n"));
    front.connection.answer(asks[0].slot, reply, at(0));
    assert_eq!(shown(front.connection.output()).matches("SYN-9001").count(), 2);
}

#[test]
fn a_transaction_is_a_request_of_its_own_between_bursts() {
    let mut front = Front::new(8);
    let got = front
        .exchange(b"SET a 1\r\nSET b 1\r\nMULTI\r\nINCR a\r\nPING\r\nINCR b\r\nEXEC\r\nGET a\r\nGET b\r\n");
    assert_eq!(front.asked, [vec!["SET a 1", "SET b 1"], vec!["INCR a", "INCR b"], vec!["GET a", "GET b"]],);
    assert!(got.contains("*3 +INCR a +PONG +INCR b +GET a +GET b"), "{got}");
    let got = front.exchange(b"MULTI\r\nINCR a\r\nBLPOP l 0\r\nEXEC\r\n");
    assert!(got.contains("EXECABORT"), "{got}");
    assert_eq!(front.asked.len(), 3, "nothing of it was asked");
}

#[test]
fn replies_are_resp2_and_a_client_that_wants_more_is_told() {
    let mut front = Front::new(8);
    assert!(front.exchange(b"HELLO 3\r\n").starts_with("-NOPROTO SYN-3003"));
    let mut out = bytes::BytesMut::new();
    let nothing = b"*3\r\n$-1\r\n*-1\r\n:1\r\n";
    assert!(render(nothing, Protocol::Two, &mut out));
    assert_eq!(&out[..], nothing);
}
