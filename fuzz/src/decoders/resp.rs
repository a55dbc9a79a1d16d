//! RESP: the incremental parser, and the rendering of replies.

use bytes::BytesMut;
use synod_gateway::resp::{Limits, Parser, Protocol, Refused, render};
use synod_wire::Drawn;

use super::kv::answered;
use super::{one_of, some_bytes};
use crate::check::{accept, bounded};
use crate::{Kind, Tape, Target};

/// The targets of this module.
pub(crate) const TARGETS: &[Target] = &[
    Target::new("resp-parser", Kind::Decoder, parser, commands),
    Target::new("resp-render", Kind::Decoder, rendered, answered),
];

/// Small enough that inputs reach them.
fn limits() -> Limits {
    Limits {
        arguments_max: 64,
        bulk_bytes_max: 4 << 10,
        request_bytes_max: 8 << 10,
        inline_bytes_max: 1 << 10,
        unauthenticated_bulk_bytes_max: 64,
        ..Limits::default()
    }
}

type Parsed = (Vec<Vec<Vec<u8>>>, Option<Refused>);

/// All commands of a stream given in pieces.
fn parsed<'a>(pieces: impl Iterator<Item = &'a [u8]>, authenticated: bool) -> Parsed {
    let mut parser = Parser::new(limits());
    let mut commands = Vec::new();
    for piece in pieces {
        parser.feed(piece);
        loop {
            match parser.next(authenticated) {
                Ok(Some(arguments)) => {
                    assert_eq!(arguments.len(), arguments.from(0).len());
                    assert!(
                        arguments.get(arguments.len()).is_none()
                            && arguments.at(0) == arguments.get(0).unwrap_or(b"?")
                    );
                    commands.push(arguments.from(0).map(<[u8]>::to_vec).collect());
                }
                Ok(None) => break,
                Err(refused) => return (commands, Some(refused)),
            }
        }
    }
    (commands, None)
}

/// Parses a stream. The first byte says how it arrives and whether the client is known.
///
/// # Panics
/// When the commands depend on the pieces, or do not come back from their own encoding, or break a limit.
pub fn parser(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let style = tape.byte();
    let stream = bytes.get(1..).unwrap_or_default();
    let authenticated = style & 1 == 1;
    let piece = [1, 2, 3, 5, 7, 16, 100, 1_000][usize::from(style >> 1 & 7)];
    // The commands are copied out for the comparison: twice the stream, and a vector per argument.
    let found = bounded(bytes.len() * 16, || parsed(stream.chunks(piece), authenticated));
    assert_eq!(found, parsed(core::iter::once(stream), authenticated), "commands depend on how they arrived");
    let limits = limits();
    for command in &found.0 {
        accept();
        assert!(!command.is_empty() && command.len() <= limits.arguments_max);
        if !authenticated && command.len() > limits.unauthenticated_arguments_max {
            continue;
        }
        let again = multibulk(command);
        let fits = command.iter().all(|element| element.len() <= limits.unauthenticated_bulk_bytes_max);
        if fits && again.len() <= limits.request_bytes_max {
            let back = parsed(core::iter::once(again.as_slice()), authenticated);
            assert_eq!(back, (vec![command.clone()], None), "roundtrip: a command does not come back");
        }
    }
}

fn multibulk(command: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", command.len()).into_bytes();
    for element in command {
        out.extend(format!("${}\r\n", element.len()).into_bytes());
        out.extend_from_slice(element);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Names and words of commands.
const WORDS: &[&[u8]] = &[
    b"PING",
    b"GET",
    b"set",
    b"MULTI",
    b"EXEC",
    b"DISCARD",
    b"WATCH",
    b"UNWATCH",
    b"HELLO",
    b"AUTH",
    b"SELECT",
    b"CLIENT",
    b"COMMAND",
    b"CONFIG",
    b"INFO",
    b"TIME",
    b"QUIT",
    b"RESET",
    b"ECHO",
    b"INCR",
    b"MGET",
    b"MSET",
    b"DEL",
    b"2",
    b"3",
    b"0",
    b"a",
    b"b",
    b"",
    b"SETNAME",
    b"ID",
    b"NO-EVICT",
    b"GETNAME",
    b"DOCS",
    b"COUNT",
    b"secret",
    b"default",
];

/// Inline commands as people type them, some wrongly.
const LINES: &[&[u8]] = &[
    b"PING\r\n",
    b"SET a \"x\\x00 y\"\n",
    b"SET a 'it\\'s'\r\n",
    b"  \r\n",
    b"\r\n",
    b"GET \"a\n",
    b"SET a \"b\"c\r\n",
    b"QUIT\n",
];

/// A stream of commands behind a byte that says how it arrives.
pub(crate) fn commands(from: &mut Drawn) -> Vec<u8> {
    let mut out = vec![from.next().to_le_bytes()[0]];
    for _ in 0..=from.below(5) {
        if from.below(5) == 0 {
            out.extend_from_slice(one_of(from, LINES));
            continue;
        }
        let command: Vec<Vec<u8>> = (0..=from.below(4))
            .map(|_| if from.below(6) == 0 { some_bytes(from, 100) } else { one_of(from, WORDS).to_vec() })
            .collect();
        out.extend(multibulk(&command));
    }
    out
}

/// Renders what may be a reply in both dialects.
///
/// # Panics
/// When bytes that are no reply leave something in the output, or a reply becomes nothing.
pub fn rendered(bytes: &[u8]) {
    for protocol in [Protocol::Two, Protocol::Three] {
        let mut out = BytesMut::from(&b"before"[..]);
        let whole = bounded(bytes.len() * 2, || render(bytes, protocol, &mut out));
        if whole {
            accept();
        }
        assert_eq!(whole, out.len() > 6, "output of what is no reply");
        assert!(out.starts_with(b"before") && (!whole || out.ends_with(b"\r\n")));
    }
}
