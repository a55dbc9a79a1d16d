//! A RESP connection: what a client sends in any pieces, answers in any order, output taken in any amounts.

use std::sync::Arc;

use synod_crypto::Hash;
use synod_gateway::resp::{Answer, Ask, Connection, Limits, Now, Settings, Store, Trust};
use synod_wire::{Bytes, Drawn};

use crate::check::accept;
use crate::decoders::{kv, resp};
use crate::tape::Tape;

fn settings(style: u8) -> Arc<Settings> {
    let limits =
        Limits { pipeline_max: 16, output_bytes_max: 2 << 10, bulk_bytes_max: 4 << 10, ..Limits::default() };
    Arc::new(Settings {
        store: Store::Keys,
        limits,
        password: (style & 1 == 1).then(|| Hash::of(b"secret")),
        trust: if style & 2 == 0 { Trust::Gateway } else { Trust::Verified },
        version: "0".to_owned(),
        port: 1,
    })
}

/// Drives a connection; at the end every operation is answered and everything is sent.
///
/// # Panics
/// When it asks for an operation twice, leaves a reply owed, sends what is no sequence of replies, or takes input
/// beyond its limits.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let mut user = User {
        connection: Connection::new(settings(tape.byte()), 7),
        asks: Vec::new(),
        seen: 0,
        output: Vec::new(),
        clock: 0,
    };
    while !tape.is_over() {
        user.step(&mut tape);
    }
    user.finish();
}

struct User {
    connection: Connection,
    asks: Vec<Ask>,
    seen: usize,
    output: Vec<u8>,
    clock: u64,
}

impl User {
    const fn now(&self) -> Now {
        Now { monotonic_ms: self.clock, wall_us: 1_700_000_000_000_000 }
    }

    fn step(&mut self, tape: &mut Tape<'_>) {
        self.clock += u64::from(tape.byte());
        match tape.below(4) {
            0 => {
                let mut from = Drawn::new(u64::from(tape.word()));
                let stream = resp::commands(&mut from);
                let (_, stream) = stream.split_first().unwrap_or((&0, &[]));
                self.receive(stream, 1 + tape.below(200));
            }
            1 => self.receive(tape.short(), 1_000),
            2 => {
                let at = tape.below(self.asks.len());
                if at < self.asks.len() {
                    let ask = self.asks.remove(at);
                    let reply = answer(&ask, tape);
                    self.connection.answer(ask.slot, reply, self.now());
                }
            }
            _ => self.send(1 + tape.below(300)),
        }
        self.settle();
    }

    fn receive(&mut self, stream: &[u8], piece: usize) {
        for piece in stream.chunks(piece) {
            if !self.connection.wants_input() {
                return;
            }
            self.connection.receive(piece, self.now());
            self.settle();
        }
    }

    fn send(&mut self, most: usize) {
        let output = self.connection.output();
        let count = most.min(output.len());
        self.output.extend_from_slice(&output[..count]);
        self.connection.sent(count, self.now());
    }

    fn settle(&mut self) {
        let asked = self.connection.take_asks();
        for ask in &asked {
            assert!(self.asks.iter().all(|other| other.slot != ask.slot), "a slot is asked for twice");
        }
        self.seen += asked.len();
        self.asks.extend(asked);
        assert!(self.asks.len() <= 16, "more operations than the pipeline holds");
        let held = self.connection.bytes();
        assert!(held < 8 << 20, "{held} bytes held");
        let _late = self.connection.overdue(self.now());
    }

    fn finish(&mut self) {
        for _ in 0..10_000 {
            self.settle();
            if let Some(ask) = self.asks.pop() {
                let null = Answer::Reply(Bytes::from_static(b"_\r\n"));
                self.connection.answer(ask.slot, null, self.now());
            } else if !self.connection.output().is_empty() {
                self.send(usize::MAX);
            } else {
                break;
            }
        }
        assert!(
            self.asks.is_empty() && self.connection.output().is_empty(),
            "a connection does not come to rest"
        );
        if self.seen > 0 {
            accept();
        }
        let mut rest = self.output.as_slice();
        while !rest.is_empty() {
            let behind = whole(rest, 8);
            assert!(
                behind.is_some(),
                "the output is no sequence of replies at {:?}",
                String::from_utf8_lossy(rest)
            );
            rest = behind.unwrap_or_default();
        }
    }
}

fn answer(ask: &Ask, tape: &mut Tape<'_>) -> Answer {
    match tape.below(8) {
        0 => Answer::Busy { retry_ms: 5 },
        1 => Answer::NoQuorum,
        2 => Answer::Unknown { id: String::from_utf8_lossy(tape.short()).into_owned() },
        3 => Answer::Refused { code: 3_002, text: String::from_utf8_lossy(tape.short()).into_owned() },
        4 => Answer::Reply(Bytes::copy_from_slice(tape.short())),
        5 => {
            // What a store answers to that very operation.
            let mut store = synod_kv::Kv::new(synod_kv::Config::default());
            Answer::Reply(kv::once(&mut store, &ask.operation))
        }
        _ => Answer::Reply(Bytes::from(kv::answered(&mut Drawn::new(u64::from(tape.word()))))),
    }
}

/// What is behind the first value of `output`, in either dialect.
fn whole(output: &[u8], depth: u8) -> Option<&[u8]> {
    let end = output.windows(2).position(|pair| pair == b"\r\n")?;
    let (tag, text) = output.get(..end)?.split_first()?;
    let mut rest = output.get(end + 2..)?;
    let number = || core::str::from_utf8(text).ok()?.parse::<i64>().ok();
    let values = match tag {
        b'+' | b'-' | b',' | b'_' => 0,
        b':' => number().map(|_| 0)?,
        b'$' if text == b"-1" => 0,
        b'$' => {
            rest = rest.get(usize::try_from(number()?).ok()?..)?.strip_prefix(b"\r\n")?;
            0
        }
        b'*' if text == b"-1" => 0,
        b'*' | b'~' => number()?,
        b'%' => number()?.checked_mul(2)?,
        _ => return None,
    };
    for _ in 0..values {
        rest = whole(rest, depth.checked_sub(1)?)?;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_gateway::resp::{Protocol, render};

    #[test]
    fn the_reader_of_output_tells_replies_from_parts_of_them() {
        for (reply, is_whole) in [
            (&b"*2\r\n:1\r\n$1\r\nx\r\n"[..], true),
            (b"$2\r\nx\r\n", false),
            (b"*1\r\n", false),
            (b"?\r\n", false),
        ] {
            assert_eq!(whole(reply, 8) == Some(&[][..]), is_whole, "{reply:?}");
        }
        let mut out = bytes::BytesMut::new();
        assert!(render(b"%1\r\n$1\r\nf\r\n,1.5\r\n", Protocol::Three, &mut out));
        assert_eq!(whole(&out, 8), Some(&[][..]));
    }
}
