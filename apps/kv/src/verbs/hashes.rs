//! HSET HGET HDEL HGETALL HINCRBY.

use crate::{
    denied::{Denied, FIELD_NOT_INTEGER, OVERFLOW, WRONG_TYPE},
    number,
    operation::Arguments,
    reply::Answer,
    store::{Edit, Store},
    value::{Fields, Value},
    verbs::parse::{bulk_bytes, integer},
};

fn fields<'a>(store: &'a Store, key: &[u8]) -> Result<Option<&'a Fields>, Denied> {
    match store.get(key).map(|entry| &entry.value) {
        None => Ok(None),
        Some(Value::Fields(fields)) => Ok(Some(fields)),
        Some(_) => Err(WRONG_TYPE),
    }
}

fn fresh() -> Value {
    Value::Fields(Fields::default())
}

pub(super) fn set(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
    growth: u64,
) -> Result<(), Denied> {
    if arguments.len().is_multiple_of(2) {
        return Err(Denied::arity("hset"));
    }
    let added = store.edit(arguments.at(0), growth, Some(fresh), |value| match value {
        Value::Fields(fields) => {
            let pairs = (1..arguments.len()).step_by(2);
            let added = pairs.filter(|at| fields.set(arguments.at(*at), arguments.at(at + 1))).count();
            Ok(Edit::Changed(added))
        }
        _ => Err(WRONG_TYPE),
    })?;
    answer.size(added.unwrap_or(0));
    Ok(())
}

pub(super) fn get(store: &Store, arguments: &Arguments<'_>, answer: &mut Answer<'_>) -> Result<(), Denied> {
    let value = fields(store, arguments.at(0))?.and_then(|fields| fields.get(arguments.at(1)));
    answer.bulk_or_null(value.map(AsRef::as_ref));
    Ok(())
}

pub(super) fn del(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    let removed = store.edit(arguments.at(0), 0, None, |value| match value {
        Value::Fields(fields) => {
            let removed = arguments.from(1).filter(|field| fields.remove(field)).count();
            Ok(if removed > 0 { Edit::Changed(removed) } else { Edit::Kept(0) })
        }
        _ => Err(WRONG_TYPE),
    })?;
    answer.size(removed.unwrap_or(0));
    Ok(())
}

pub(super) fn all(store: &Store, arguments: &Arguments<'_>, answer: &mut Answer<'_>) -> Result<(), Denied> {
    let Some(fields) = fields(store, arguments.at(0))? else {
        answer.map(0);
        return Ok(());
    };
    answer.map(fields.fields().len());
    for (field, value) in fields.fields().iter() {
        answer.fits(bulk_bytes(field.len()) + bulk_bytes(value.len()))?;
        answer.bulk(field);
        answer.bulk(value);
    }
    Ok(())
}

pub(super) fn add(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
    growth: u64,
) -> Result<(), Denied> {
    let by = integer(arguments.at(2))?;
    let field = arguments.at(1);
    let sum = store.edit(arguments.at(0), growth, Some(fresh), |value| match value {
        Value::Fields(fields) => {
            let old = match fields.get(field) {
                Some(text) => number::parse(text).ok_or(FIELD_NOT_INTEGER)?,
                None => 0,
            };
            let sum = old.checked_add(by).ok_or(OVERFLOW)?;
            let mut text = Vec::new();
            number::write(&mut text, sum);
            fields.set(field, &text);
            Ok(Edit::Changed(sum))
        }
        _ => Err(WRONG_TYPE),
    })?;
    answer.integer(sum.unwrap_or(0));
    Ok(())
}
