//! LPUSH RPUSH LPOP RPOP LRANGE LLEN.

use bytes::Bytes;

use crate::{
    denied::{Denied, WRONG_TYPE},
    operation::Arguments,
    reply::Answer,
    store::{Edit, Store},
    value::{End, List, Value},
    verbs::parse::{bulk_bytes, count, integer, window},
};

/// How LPUSH and RPUSH differ.
#[derive(Clone, Copy)]
pub(super) struct Push {
    end: End,
    growth: u64,
}

impl Push {
    pub(super) fn left(growth: u64) -> Self {
        Self { end: End::Left, growth }
    }

    pub(super) fn right(growth: u64) -> Self {
        Self { end: End::Right, growth }
    }
}

fn list<'a>(store: &'a Store, key: &[u8]) -> Result<Option<&'a List>, Denied> {
    match store.get(key).map(|entry| &entry.value) {
        None => Ok(None),
        Some(Value::List(list)) => Ok(Some(list)),
        Some(_) => Err(WRONG_TYPE),
    }
}

pub(super) fn push(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
    push: Push,
) -> Result<(), Denied> {
    let fresh = || Value::List(List::default());
    let length = store.edit(arguments.at(0), push.growth, Some(fresh), |value| match value {
        Value::List(list) => {
            arguments.from(1).for_each(|item| list.push(push.end, item));
            Ok(Edit::Changed(list.items().len()))
        }
        _ => Err(WRONG_TYPE),
    })?;
    answer.size(length.unwrap_or(0));
    Ok(())
}

pub(super) fn pop(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
    end: End,
) -> Result<(), Denied> {
    let name = if end == End::Left { "lpop" } else { "rpop" };
    let wanted = count(arguments, 1, name)?;
    let key = arguments.at(0);
    let Some(list) = list(store, key)? else {
        if wanted.is_some() {
            answer.null_array();
        } else {
            answer.null();
        }
        return Ok(());
    };
    let number = wanted.unwrap_or(1).min(list.items().len());
    let room =
        |items: &mut dyn Iterator<Item = &Bytes>| items.take(number).map(|i| bulk_bytes(i.len())).sum();
    answer.fits(match end {
        End::Left => room(&mut list.items().iter()),
        End::Right => room(&mut list.items().iter().rev()),
    })?;
    if wanted.is_some() {
        answer.array(number);
    }
    if number == 0 {
        return Ok(());
    }
    store.edit(key, 0, None, |value| {
        let Value::List(list) = value else { return Err(WRONG_TYPE) };
        for _ in 0..number {
            answer.bulk_or_null(list.pop(end).as_deref());
        }
        Ok(Edit::Changed(()))
    })?;
    Ok(())
}

pub(super) fn range(store: &Store, arguments: &Arguments<'_>, answer: &mut Answer<'_>) -> Result<(), Denied> {
    let (start, stop) = (integer(arguments.at(1))?, integer(arguments.at(2))?);
    let Some(list) = list(store, arguments.at(0))? else {
        answer.array(0);
        return Ok(());
    };
    let (first, number) = window(start, stop, list.items().len());
    answer.array(number);
    for item in list.items().range(first..first + number) {
        answer.fits(bulk_bytes(item.len()))?;
        answer.bulk(item);
    }
    Ok(())
}

pub(super) fn length(
    store: &Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    answer.size(list(store, arguments.at(0))?.map_or(0, |list| list.items().len()));
    Ok(())
}
