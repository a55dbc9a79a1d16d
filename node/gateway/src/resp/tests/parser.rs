//! The parser under every cut and under noise.

use super::{Numbers, multibulk};
use crate::resp::{Limits, Parser, Refused};

/// Commands that a parser gives for bytes that arrive in these pieces, and how it ended.
fn parse<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<Vec<u8>>>, Option<Refused>) {
    let mut parser = Parser::new(Limits::default());
    let mut commands = Vec::new();
    for piece in pieces {
        parser.feed(piece);
        loop {
            match parser.next(true) {
                Ok(Some(arguments)) => commands.push(arguments.from(0).map(<[u8]>::to_vec).collect()),
                Ok(None) => break,
                Err(refused) => return (commands, Some(refused)),
            }
        }
    }
    (commands, None)
}

fn whole(bytes: &[u8]) -> (Vec<Vec<Vec<u8>>>, Option<Refused>) {
    parse([bytes].into_iter())
}

fn pipeline() -> Vec<u8> {
    let mut bytes = multibulk(&[b"SET", b"k", b"a\r\nb"]);
    bytes.extend_from_slice(b"PING\r\n");
    bytes.extend_from_slice(&multibulk(&[b"GET", b""]));
    bytes.extend_from_slice(b"*0\r\n\r\n  \n");
    bytes.extend_from_slice(b"set \"a \\x41\\n\\\"\" 'it\\'s'\tplain\\n\n");
    bytes.extend_from_slice(&multibulk(&[b"DEL", b"x", b"y", b"z"]));
    bytes
}

#[test]
fn multibulk_and_inline_commands_follow_each_other() {
    let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
    let (commands, refused) = whole(&pipeline());
    assert_eq!(refused, None);
    assert_eq!(
        commands,
        [
            words(&[b"SET", b"k", b"a\r\nb"]),
            words(&[b"PING"]),
            words(&[b"GET", b""]),
            words(&[b"set", b"a A\n\"", b"it's", b"plain\\n"]),
            words(&[b"DEL", b"x", b"y", b"z"]),
        ]
    );
}

#[test]
fn every_split_gives_the_same_commands() {
    let bytes = pipeline();
    let expected = whole(&bytes);
    for first in 0..=bytes.len() {
        assert_eq!(parse([&bytes[..first], &bytes[first..]].into_iter()), expected, "split at {first}");
        for second in (first..=bytes.len()).step_by(5) {
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert_eq!(parse(pieces.into_iter()), expected, "split at {first} and {second}");
        }
    }
    assert_eq!(parse(bytes.chunks(1)), expected);
}

#[test]
fn broken_input_is_refused_at_every_split() {
    for (bytes, text) in [
        (&b"*x\r\n"[..], "invalid multibulk length"),
        (b"*-1\r\n", "invalid multibulk length"),
        (b"*01\r\n", "invalid multibulk length"),
        (b"*1\n", "invalid multibulk length"),
        (b"*1025\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*111111111111111111111111111", "invalid multibulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$524289\r\n", "invalid bulk length"),
        (b"*1\r\n$ 1\r\n", "invalid bulk length"),
        (b"*1\r\n*1\r\n$1\r\na\r\n", "expected '$'"),
        (b"*1\r\n:1\r\n", "expected '$'"),
        (b"*1\r\n$1\r\nabc", "expected CRLF"),
        (b"*2\r\n$524288\r\n", "nothing"),
        (b"echo 'a\r\n", "unbalanced quotes"),
        (b"echo \"a\r\n", "unbalanced quotes"),
        (b"echo \"a\"b\r\n", "unbalanced quotes"),
    ] {
        for split in 0..=bytes.len() {
            let (commands, refused) = parse([&bytes[..split], &bytes[split..]].into_iter());
            assert!(commands.is_empty());
            match refused {
                Some(Refused(given)) => {
                    assert!(given.starts_with("ERR SYN-3002 Protocol error: "), "{given}");
                    assert!(given.contains(text), "{given} for {bytes:?}");
                }
                None => assert_eq!(text, "nothing", "{bytes:?} must be refused"),
            }
        }
    }
}

#[test]
fn noise_never_stops_the_parser_and_memory_follows_the_input() {
    let mut numbers = Numbers(1);
    let alphabet = b"*$:\r\n\r\n0123456789 abc'\"\\x\0\xff-+PINGSET";
    let (mut refused, mut commands) = (0, 0);
    for round in 0..3_000 {
        let mut parser = Parser::new(Limits::default());
        let mut fed = 0;
        'input: for _ in 0..1 + numbers.below(20) {
            let piece: Vec<u8> = (0..numbers.below(60))
                .map(|_| {
                    let from_alphabet =
                        alphabet[usize::try_from(numbers.below(alphabet.len() as u64)).unwrap_or(0)];
                    if round % 4 == 0 { numbers.byte() } else { from_alphabet }
                })
                .collect();
            fed += piece.len();
            parser.feed(&piece);
            loop {
                match parser.next(true) {
                    Ok(Some(arguments)) => {
                        commands += 1;
                        assert!(arguments.len() >= 1 && arguments.get(arguments.len()).is_none());
                        assert!(arguments.from(0).map(<[u8]>::len).sum::<usize>() <= fed);
                    }
                    Ok(None) => break,
                    Err(_) => {
                        refused += 1;
                        break 'input;
                    }
                }
                assert!(parser.bytes() <= 8 * fed + (64 << 10));
            }
        }
    }
    assert!(refused > 100 && commands > 1_000, "{refused} refused, {commands} commands");
}

#[test]
fn announced_lengths_reserve_nothing() {
    let mut parser = Parser::new(Limits::default());
    parser.feed(b"*1024\r\n$512000\r\nabc");
    assert!(matches!(parser.next(true), Ok(None)));
    assert!(parser.bytes() < 64 << 10, "{} bytes for 20", parser.bytes());
}
