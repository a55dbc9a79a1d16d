//! GET SET GETSET GETDEL MGET MSET APPEND STRLEN INCR DECR INCRBY DECRBY.

use crate::{
    VALUE_BYTES_MAX,
    denied::{DECREMENT_OVERFLOW, Denied, NOT_INTEGER, OVERFLOW, STRING_TOO_LONG, SYNTAX, WRONG_TYPE},
    number,
    operation::Arguments,
    reply::Answer,
    store::{Deadline, Edit, Store},
    tree::Entry,
    value::Value,
    verbs::{
        dispatch::COUNTER_BYTES,
        parse::{bulk_bytes, integer},
    },
};

fn text(value: &Value) -> Result<&Vec<u8>, Denied> {
    match value {
        Value::Text(text) => Ok(text),
        _ => Err(WRONG_TYPE),
    }
}

fn text_mut(value: &mut Value) -> Result<&mut Vec<u8>, Denied> {
    match value {
        Value::Text(text) => Ok(text),
        _ => Err(WRONG_TYPE),
    }
}

fn text_of(entry: Option<&Entry>) -> Result<Option<&[u8]>, Denied> {
    entry.map(|entry| text(&entry.value).map(Vec::as_slice)).transpose()
}

pub(super) fn get(store: &Store, arguments: &Arguments<'_>, answer: &mut Answer<'_>) -> Result<(), Denied> {
    answer.bulk_or_null(text_of(store.get(arguments.at(0)))?);
    Ok(())
}

pub(super) fn mget(store: &Store, arguments: &Arguments<'_>, answer: &mut Answer<'_>) -> Result<(), Denied> {
    answer.array(arguments.len());
    for key in arguments.from(0) {
        let text = text_of(store.get(key)).unwrap_or(None);
        answer.fits(bulk_bytes(text.map_or(0, <[u8]>::len)))?;
        answer.bulk_or_null(text);
    }
    Ok(())
}

pub(super) fn strlen(
    store: &Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    answer.size(text_of(store.get(arguments.at(0)))?.map_or(0, <[u8]>::len));
    Ok(())
}

/// Which keys SET writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Only {
    Any,
    Absent,
    Present,
}

struct SetOptions {
    deadline: Deadline,
    only: Only,
    get: bool,
}

impl SetOptions {
    fn read(arguments: &Arguments<'_>, now: u64) -> Result<Self, Denied> {
        let mut options = Self { deadline: Deadline::Clear, only: Only::Any, get: false };
        let mut timed = false;
        let mut words = arguments.from(2);
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" if options.only != Only::Present => options.only = Only::Absent,
                b"XX" if options.only != Only::Absent => options.only = Only::Present,
                b"GET" => options.get = true,
                b"KEEPTTL" if !timed => (options.deadline, timed) = (Deadline::Keep, true),
                unit @ (b"EX" | b"PX" | b"EXAT" | b"PXAT") if !timed => {
                    let time = words.next().ok_or(SYNTAX)?;
                    options.deadline = Deadline::At(set_deadline(unit, time, now)?);
                    timed = true;
                }
                _ => return Err(SYNTAX),
            }
        }
        Ok(options)
    }
}

/// The deadline in ms of agreed time that an option of SET gives.
fn set_deadline(unit: &[u8], time: &[u8], now: u64) -> Result<u64, Denied> {
    let bad = || Denied::expire_time("set");
    let time = u64::try_from(integer(time)?).ok().filter(|time| *time > 0).ok_or_else(bad)?;
    let ms = if unit.starts_with(b"EX") { time.checked_mul(1_000).ok_or_else(bad)? } else { time };
    let at = if unit.ends_with(b"AT") { ms } else { ms.checked_add(now).ok_or_else(bad)? };
    if i64::try_from(at).is_ok() { Ok(at) } else { Err(bad()) }
}

pub(super) fn set(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    let (key, value) = (arguments.at(0), arguments.at(1));
    if arguments.len() == 2 {
        store.put(key, value, Deadline::Clear);
        answer.simple("OK");
        return Ok(());
    }
    let options = SetOptions::read(arguments, store.time())?;
    let old = store.get(key);
    let write = match options.only {
        Only::Any => true,
        Only::Absent => old.is_none(),
        Only::Present => old.is_some(),
    };
    match (options.get, write) {
        (true, _) => answer.bulk_or_null(text_of(old)?),
        (false, true) => answer.simple("OK"),
        (false, false) => answer.null(),
    }
    if write {
        // A deadline in the past sets nothing and leaves nothing.
        if matches!(options.deadline, Deadline::At(time) if time <= store.time()) {
            store.remove(key);
        } else {
            store.put(key, value, options.deadline);
        }
    }
    Ok(())
}

pub(super) fn getset(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    answer.bulk_or_null(text_of(store.get(arguments.at(0)))?);
    store.put(arguments.at(0), arguments.at(1), Deadline::Clear);
    Ok(())
}

pub(super) fn getdel(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    answer.bulk_or_null(text_of(store.get(arguments.at(0)))?);
    store.remove(arguments.at(0));
    Ok(())
}

pub(super) fn mset(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    if arguments.len() % 2 == 1 {
        return Err(Denied::arity("mset"));
    }
    for pair in 0..arguments.len() / 2 {
        store.put(arguments.at(2 * pair), arguments.at(2 * pair + 1), Deadline::Clear);
    }
    answer.simple("OK");
    Ok(())
}

pub(super) fn append(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
    growth: u64,
) -> Result<(), Denied> {
    let suffix = arguments.at(1);
    let length = store.edit(arguments.at(0), growth, Some(|| Value::Text(Vec::new())), |value| {
        let text = text_mut(value)?;
        if text.len() + suffix.len() > VALUE_BYTES_MAX {
            return Err(STRING_TOO_LONG);
        }
        text.extend_from_slice(suffix);
        Ok(Edit::Changed(text.len()))
    })?;
    answer.size(length.unwrap_or(0));
    Ok(())
}

pub(super) fn add(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
    by: i64,
) -> Result<(), Denied> {
    let sum = store.edit(arguments.at(0), COUNTER_BYTES, Some(|| Value::Text(b"0".to_vec())), |value| {
        let text = text_mut(value)?;
        let sum = number::parse(text).ok_or(NOT_INTEGER)?.checked_add(by).ok_or(OVERFLOW)?;
        text.clear();
        number::write(text, sum);
        Ok(Edit::Changed(sum))
    })?;
    answer.integer(sum.unwrap_or(0));
    Ok(())
}

pub(super) fn subtract(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    let by = integer(arguments.at(1))?.checked_neg().ok_or(DECREMENT_OVERFLOW)?;
    add(store, arguments, answer, by)
}
