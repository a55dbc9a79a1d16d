//! What a request carries: one command of the text protocol, with its data.
//!
//! *Bounds.* [`KEY_MAX`] and [`VALUE_MAX`] bytes, [`KEYS_MAX`] keys of one read; what passes them is refused with the words
//! of the server. `noreply` is refused: the proxy in front drops what nobody waits for.

use synod_wire::Bytes;

/// Longest key, in bytes.
pub const KEY_MAX: usize = 250;
/// Longest value, in bytes: with its key and the server's own account it fits an item of 1 MiB.
pub const VALUE_MAX: usize = 1_000_000;
/// Most keys of one read.
pub const KEYS_MAX: usize = 100;
/// Longest command line, in bytes.
const LINE_MAX: usize = 2 + KEYS_MAX * (KEY_MAX + 1) + 64;

/// How a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    /// Only where the value still has this id.
    Cas(u64),
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// `get`, `gets`, `gat`, `gats`.
    Read {
        keys: Vec<Bytes>,
        with_ids: bool,
        until: Option<i64>,
    },
    /// `set` and its kin.
    Store {
        way: Way,
        key: Bytes,
        flags: u32,
        until: i64,
        data: Bytes,
    },
    Delete(Bytes),
    /// `incr`, `decr`.
    Count {
        key: Bytes,
        up: bool,
        by: u64,
    },
    Touch {
        key: Bytes,
        until: i64,
    },
    /// At once, or after so many seconds.
    Flush(i64),
    Version,
}

/// The words of a refusal.
pub(crate) type Refused = &'static str;

const ERROR: Refused = "ERROR\r\n";
const FORMAT: Refused = "CLIENT_ERROR bad command line format\r\n";
const CHUNK: Refused = "CLIENT_ERROR bad data chunk\r\n";
const LARGE: Refused = "SERVER_ERROR object too large for cache\r\n";
const DELTA: Refused = "CLIENT_ERROR invalid numeric delta argument\r\n";
const EXPTIME: Refused = "CLIENT_ERROR invalid exptime argument\r\n";
const NOREPLY: Refused = "CLIENT_ERROR a replicated command is always answered\r\n";
const STATE: Refused = "CLIENT_ERROR not a command of replicated state\r\n";

/// Whether bytes are one command that is carried out.
///
/// # Errors
/// The words of the refusal, with their line end.
pub fn check(bytes: &[u8]) -> Result<(), &'static str> {
    Command::parse(bytes).map(drop)
}

impl Command {
    /// Reads one command.
    ///
    /// # Errors
    /// The words of the refusal.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Refused> {
        let end = bytes.windows(2).take(LINE_MAX).position(|end| end == b"\r\n").ok_or(ERROR)?;
        let (line, rest) = bytes.split_at(end);
        let data = rest.get(2..).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
        let (name, words) = words.split_first().ok_or(ERROR)?;
        if words.last() == Some(&&b"noreply"[..]) {
            return Err(NOREPLY);
        }
        let stores = |way| Self::store(way, words, data);
        let command = match *name {
            b"set" => return stores(Way::Set),
            b"add" => return stores(Way::Add),
            b"replace" => return stores(Way::Replace),
            b"append" => return stores(Way::Append),
            b"prepend" => return stores(Way::Prepend),
            b"cas" => {
                let [key, flags, until, length, id] = words else { return Err(ERROR) };
                let id = number(id).ok_or(FORMAT)?;
                return Self::store(Way::Cas(id), &[key, flags, until, length], data);
            }
            b"get" | b"gets" => Self::read(words, *name == b"gets", None)?,
            b"gat" | b"gats" => {
                let (until, keys) = words.split_first().ok_or(ERROR)?;
                Self::read(keys, *name == b"gats", Some(seconds(until)?))?
            }
            b"delete" => match words {
                [name] | [name, b"0"] => Self::Delete(key(name)?),
                _ => return Err("CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"),
            },
            b"incr" | b"decr" => {
                let [of, by] = words else { return Err(ERROR) };
                Self::Count { key: key(of)?, up: *name == b"incr", by: number(by).ok_or(DELTA)? }
            }
            b"touch" => {
                let [name, until] = words else { return Err(ERROR) };
                Self::Touch { key: key(name)?, until: seconds(until)? }
            }
            b"flush_all" => match words {
                [] => Self::Flush(0),
                [delay] => Self::Flush(seconds(delay)?.max(0)),
                _ => return Err(ERROR),
            },
            b"version" if words.is_empty() => Self::Version,
            b"stats" | b"verbosity" | b"cache_memlimit" | b"slabs" | b"lru" | b"lru_crawler" | b"watch"
            | b"shutdown" | b"mg" | b"ms" | b"md" | b"ma" | b"mn" | b"me" | b"misbehave" | b"debug" => {
                return Err(STATE);
            }
            _ => return Err(ERROR),
        };
        if data.is_empty() { Ok(command) } else { Err(ERROR) }
    }

    fn read(names: &[&[u8]], with_ids: bool, until: Option<i64>) -> Result<Self, Refused> {
        if names.is_empty() || names.len() > KEYS_MAX {
            return Err(ERROR);
        }
        let keys = names.iter().map(|name| key(name)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::Read { keys, with_ids, until })
    }

    fn store(way: Way, words: &[&[u8]], data: &[u8]) -> Result<Self, Refused> {
        let [name, flags, until, length] = words else { return Err(ERROR) };
        let (flags, length) = (number(flags).ok_or(FORMAT)?, number(length).ok_or(FORMAT)?);
        let flags = u32::try_from(flags).map_err(|_| FORMAT)?;
        let length = usize::try_from(length).map_err(|_| LARGE)?;
        if length > VALUE_MAX {
            return Err(LARGE);
        }
        let (value, end) = data.split_at_checked(length).ok_or(CHUNK)?;
        if end != b"\r\n" {
            return Err(CHUNK);
        }
        let (key, until) = (key(name)?, seconds(until)?);
        Ok(Self::Store { way, key, flags, until, data: Bytes::copy_from_slice(value) })
    }
}

fn key(name: &[u8]) -> Result<Bytes, Refused> {
    let is_plain = name.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    if is_plain && name.len() <= KEY_MAX { Ok(Bytes::copy_from_slice(name)) } else { Err(FORMAT) }
}

fn number(word: &[u8]) -> Option<u64> {
    let digits = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    if digits { core::str::from_utf8(word).ok()?.parse().ok() } else { None }
}

fn seconds(word: &[u8]) -> Result<i64, Refused> {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    let value = number(digits).and_then(|value| i64::try_from(value).ok()).ok_or(EXPTIME)?;
    Ok(if digits.len() < word.len() { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_read_and_nothing_behind_it() {
        let b = |text: &'static str| Bytes::from_static(text.as_bytes());
        for (text, command) in [
            ("get a b\r\n", Command::Read { keys: vec![b("a"), b("b")], with_ids: false, until: None }),
            ("gats -1 a\r\n", Command::Read { keys: vec![b("a")], with_ids: true, until: Some(-1) }),
            (
                "cas k 5 60 2 77\r\nhi\r\n",
                Command::Store { way: Way::Cas(77), key: b("k"), flags: 5, until: 60, data: b("hi") },
            ),
            ("incr k 3\r\n", Command::Count { key: b("k"), up: true, by: 3 }),
            ("decr k 3\r\n", Command::Count { key: b("k"), up: false, by: 3 }),
            ("delete k 0\r\n", Command::Delete(b("k"))),
            ("touch k 9\r\n", Command::Touch { key: b("k"), until: 9 }),
            ("flush_all\r\n", Command::Flush(0)),
            ("version\r\n", Command::Version),
        ] {
            assert_eq!(Command::parse(text.as_bytes()), Ok(command), "{text}");
            assert!(Command::parse(format!("{text}x").as_bytes()).is_err(), "{text}");
            assert!(Command::parse(&text.as_bytes()[..text.len() - 1]).is_err(), "{text}");
        }
    }

    #[test]
    fn limits_hold_at_the_cap_and_break_behind_it() {
        let key =
            |length: usize| Command::parse(format!("get {}\r\n", "k".repeat(length)).as_bytes()).is_ok();
        assert!(key(KEY_MAX - 1) && key(KEY_MAX) && !key(KEY_MAX + 1));
        let keys = |count: usize| Command::parse(format!("get{}\r\n", " k".repeat(count)).as_bytes()).is_ok();
        assert!(keys(KEYS_MAX - 1) && keys(KEYS_MAX) && !keys(KEYS_MAX + 1) && !keys(0));
        let value = |length: usize| {
            let text = format!("set k 0 0 {length}\r\n{}\r\n", "v".repeat(length));
            Command::parse(text.as_bytes()).map(drop)
        };
        assert_eq!((value(VALUE_MAX), value(VALUE_MAX + 1)), (Ok(()), Err(LARGE)));
    }

    #[test]
    fn what_does_not_touch_state_or_expects_no_reply_is_refused() {
        for text in ["stats\r\n", "verbosity 1\r\n", "mg k v\r\n", "shutdown\r\n", "slabs reassign 1 2\r\n"] {
            assert_eq!(Command::parse(text.as_bytes()), Err(STATE), "{text}");
        }
        assert_eq!(Command::parse(b"set k 0 0 1 noreply\r\nx\r\n"), Err(NOREPLY));
        for text in
            ["", "\r\n", "what\r\n", "get\r\n", "set k 0 0\r\n", "incr k\r\n", "get a\nb\r\n", "get \x7f\r\n"]
        {
            assert!(Command::parse(text.as_bytes()).is_err(), "{text:?}");
        }
        assert_eq!(Command::parse(b"set k 4294967296 0 1\r\nx\r\n"), Err(FORMAT));
        assert_eq!(Command::parse(b"set k 0 0 2\r\nxyz\r\n"), Err(CHUNK));
        assert_eq!(Command::parse(b"set k 0 x 1\r\nx\r\n"), Err(EXPTIME));
        assert_eq!(Command::parse(b"incr k -1\r\n"), Err(DELTA));
    }
}
