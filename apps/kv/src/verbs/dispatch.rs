//! From a verb to its function: arity, keys and memory are checked here, once for all commands.

use synod_crypto::Hash;

use crate::{
    KEY_BYTES_MAX,
    commands::{Access, Verb},
    denied::{Denied, FULL, KEY_TOO_LONG},
    operation::Arguments,
    reply::Answer,
    store::{ELEMENT_OVERHEAD, ENTRY_OVERHEAD, Store},
    tree::ENTRY_FIXED_BYTES,
    value::{End, LENGTH_BYTES},
    verbs::{hashes, keys, lists, parse::integer, sets, sorted, strings},
};

/// Bytes of encoding that one argument can add beside its own length: its length field and a score.
const ARGUMENT_OVERHEAD: u64 = LENGTH_BYTES + 8;
/// Bytes that a counter can add: an integer as text, with its length.
pub(super) const COUNTER_BYTES: u64 = LENGTH_BYTES + 20;

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
