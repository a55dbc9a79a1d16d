//! The commands. Reads take the store as it is; writes may change it; both answer or are refused as a whole.
//!
//! A refused command has changed nothing: every writer checks its arguments before its first change.

mod hashes;
mod keys;
mod lists;
mod sets;
mod sorted;
mod strings;

use synod_crypto::Hash;

use crate::{
    KEY_BYTES_MAX,
    commands::{Access, Verb},
    denied::{Denied, FULL, KEY_TOO_LONG, NOT_INTEGER, NOT_POSITIVE},
    number,
    operation::Arguments,
    reply::Answer,
    store::{ELEMENT_OVERHEAD, ENTRY_OVERHEAD, Store},
    tree::ENTRY_FIXED_BYTES,
    value::{End, LENGTH_BYTES},
};

/// Bytes of encoding that one argument can add beside its own length: its length field and a score.
const ARGUMENT_OVERHEAD: u64 = LENGTH_BYTES + 8;
/// Bytes that a counter can add: an integer as text, with its length.
const COUNTER_BYTES: u64 = LENGTH_BYTES + 20;

/// The most bytes by which a command can lengthen the encoding of an entry.
fn growth(verb: Verb, arguments: &Arguments<'_>) -> u64 {
    match verb.command().access {
        Access::Grow => arguments.bytes() + arguments.len() as u64 * ARGUMENT_OVERHEAD + COUNTER_BYTES,
        Access::Read | Access::Write => 0,
    }
}

/// The most bytes by which a command of that growth can lengthen the store's account of its memory.
fn footprint(verb: Verb, arguments: &Arguments<'_>, growth: u64) -> u64 {
    let keys = verb.command().key_positions(arguments.len()).count() as u64;
    let elements = arguments.len() as u64;
    growth + keys * (ENTRY_OVERHEAD + ENTRY_FIXED_BYTES) + elements * ELEMENT_OVERHEAD
}

/// What a writing command may use.
pub(crate) struct Writing<'a> {
    pub(crate) store: &'a mut Store,
    /// Hash of the ordering entry: the only source of choices.
    pub(crate) draw: &'a Hash,
    /// Most bytes that the store may hold.
    pub(crate) bytes_max: u64,
}

/// Checks what every command must satisfy before it looks at the store.
fn admit(verb: Verb, arguments: &Arguments<'_>) -> Result<(), Denied> {
    let command = verb.command();
    if !command.fits(arguments.len()) {
        return Err(Denied::arity(command.name));
    }
    let too_long = |at: usize| arguments.at(at).len() > KEY_BYTES_MAX;
    if command.key_positions(arguments.len()).any(too_long) { Err(KEY_TOO_LONG) } else { Ok(()) }
}

/// Executes a reading command.
///
/// # Errors
/// The refusal to answer.
pub(crate) fn read(
    verb: Verb,
    store: &Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    admit(verb, arguments)?;
    match verb {
        Verb::Get => strings::get(store, arguments, answer),
        Verb::MGet => strings::mget(store, arguments, answer),
        Verb::StrLen => strings::strlen(store, arguments, answer),
        Verb::Exists => keys::exists(store, arguments, answer),
        Verb::Type => keys::type_name(store, arguments, answer),
        Verb::Ttl => keys::ttl(store, arguments, answer, 1_000),
        Verb::PTtl => keys::ttl(store, arguments, answer, 1),
        Verb::Scan => keys::scan(store, arguments, answer),
        Verb::DbSize => keys::dbsize(store, answer),
        Verb::LRange => lists::range(store, arguments, answer),
        Verb::LLen => lists::length(store, arguments, answer),
        Verb::SIsMember => sets::is_member(store, arguments, answer),
        Verb::SMembers => sets::members(store, arguments, answer),
        Verb::SCard => sets::cardinality(store, arguments, answer),
        Verb::HGet => hashes::get(store, arguments, answer),
        Verb::HGetAll => hashes::all(store, arguments, answer),
        Verb::ZRange => sorted::range(store, arguments, answer),
        Verb::ZScore => sorted::score(store, arguments, answer),
        _ => unreachable!("the table calls no other command a read"),
    }
}

/// Executes a command that may write.
///
/// # Errors
/// The refusal; nothing has changed then.
pub(crate) fn write(
    verb: Verb,
    writing: &mut Writing<'_>,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    if verb.command().is_read() {
        return read(verb, writing.store, arguments, answer);
    }
    admit(verb, arguments)?;
    let growth = growth(verb, arguments);
    if growth > 0 && writing.store.bytes() + footprint(verb, arguments, growth) > writing.bytes_max {
        return Err(FULL);
    }
    let store = &mut *writing.store;
    match verb {
        Verb::Set => strings::set(store, arguments, answer),
        Verb::GetSet => strings::getset(store, arguments, answer),
        Verb::GetDel => strings::getdel(store, arguments, answer),
        Verb::MSet => strings::mset(store, arguments, answer),
        Verb::Append => strings::append(store, arguments, answer, growth),
        Verb::Incr => strings::add(store, arguments, answer, 1),
        Verb::Decr => strings::add(store, arguments, answer, -1),
        Verb::IncrBy => strings::add(store, arguments, answer, integer(arguments.at(1))?),
        Verb::DecrBy => strings::subtract(store, arguments, answer),
        Verb::Del => keys::del(store, arguments, answer),
        Verb::Expire => keys::expire(store, verb, arguments, answer),
        Verb::PExpire => keys::expire(store, verb, arguments, answer),
        Verb::Persist => keys::persist(store, arguments, answer),
        Verb::LPush => lists::push(store, arguments, answer, lists::Push::left(growth)),
        Verb::RPush => lists::push(store, arguments, answer, lists::Push::right(growth)),
        Verb::LPop => lists::pop(store, arguments, answer, End::Left),
        Verb::RPop => lists::pop(store, arguments, answer, End::Right),
        Verb::SAdd => sets::add(store, arguments, answer, growth),
        Verb::SRem => sets::remove(store, arguments, answer),
        Verb::SPop => sets::pop(store, writing.draw, arguments, answer),
        Verb::HSet => hashes::set(store, arguments, answer, growth),
        Verb::HDel => hashes::del(store, arguments, answer),
        Verb::HIncrBy => hashes::add(store, arguments, answer, growth),
        Verb::ZAdd => sorted::add(store, arguments, answer, growth),
        Verb::ZRem => sorted::remove(store, arguments, answer),
        Verb::ZPopMin => sorted::pop_min(store, arguments, answer),
        _ => unreachable!("the table calls every other command a read"),
    }
}

/// Reads an argument that must be an integer.
fn integer(text: &[u8]) -> Result<i64, Denied> {
    number::parse(text).ok_or(NOT_INTEGER)
}

/// Reads the optional count of a pop; more than fits is as good as all.
fn count(arguments: &Arguments<'_>, at: usize, name: &str) -> Result<Option<usize>, Denied> {
    if arguments.len() > at + 1 {
        return Err(Denied::arity(name));
    }
    let Some(text) = arguments.get(at) else { return Ok(None) };
    let count = number::parse(text).filter(|count| *count >= 0).ok_or(NOT_POSITIVE)?;
    Ok(Some(usize::try_from(count).unwrap_or(usize::MAX)))
}

/// Turns the inclusive index range of LRANGE and ZRANGE, negative from the end, into first rank and number.
fn window(start: i64, stop: i64, length: usize) -> (usize, usize) {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { length.saturating_add(index) } else { index };
    let (first, last) = (from_end(start).max(0), from_end(stop).min(length - 1));
    if first > last {
        return (0, 0);
    }
    (usize::try_from(first).unwrap_or(0), usize::try_from(last - first + 1).unwrap_or(0))
}

/// The length of a bulk reply, with its frame, from above.
fn bulk_bytes(length: usize) -> u64 {
    length as u64 + 16
}

#[cfg(test)]
mod tests {
    use super::window;

    #[test]
    fn index_ranges_are_clipped_on_both_sides() {
        for (start, stop, expected) in [
            (0, -1, (0, 5)),
            (0, 99, (0, 5)),
            (-100, 100, (0, 5)),
            (1, 3, (1, 3)),
            (-2, -1, (3, 2)),
            (3, 1, (0, 0)),
            (5, 9, (0, 0)),
            (-1, -3, (0, 0)),
            (i64::MIN, i64::MAX, (0, 5)),
        ] {
            assert_eq!(window(start, stop, 5), expected, "{start} {stop}");
        }
        assert_eq!(window(0, -1, 0), (0, 0));
    }
}
