//! SADD SREM SPOP SISMEMBER SMEMBERS SCARD.

use bytes::Bytes;
use synod_crypto::{Hash, Hasher};

use crate::{
    denied::{Denied, WRONG_TYPE},
    operation::Arguments,
    reply::Answer,
    store::{Edit, Store},
    value::{Set, Value},
    verbs::parse::{bulk_bytes, count},
};

fn set<'a>(store: &'a Store, key: &[u8]) -> Result<Option<&'a Set>, Denied> {
    match store.get(key).map(|entry| &entry.value) {
        None => Ok(None),
        Some(Value::Set(set)) => Ok(Some(set)),
        Some(_) => Err(WRONG_TYPE),
    }
}

pub(super) fn add(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
    growth: u64,
) -> Result<(), Denied> {
    let fresh = || Value::Set(Set::default());
    let added = store.edit(arguments.at(0), growth, Some(fresh), |value| match value {
        Value::Set(set) => {
            let added = arguments.from(1).filter(|member| set.add(member)).count();
            Ok(if added > 0 { Edit::Changed(added) } else { Edit::Kept(0) })
        }
        _ => Err(WRONG_TYPE),
    })?;
    answer.size(added.unwrap_or(0));
    Ok(())
}

pub(super) fn remove(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    let removed = store.edit(arguments.at(0), 0, None, |value| match value {
        Value::Set(set) => {
            let removed = arguments.from(1).filter(|member| set.remove(member)).count();
            Ok(if removed > 0 { Edit::Changed(removed) } else { Edit::Kept(0) })
        }
        _ => Err(WRONG_TYPE),
    })?;
    answer.size(removed.unwrap_or(0));
    Ok(())
}

/// The rank that is popped as number `pop` of one command, from a set of `length` members.
fn choice(draw: &Hash, key: &[u8], pop: u64, length: usize) -> usize {
    let mut hasher = Hasher::new("synod kv spop");
    hasher.add(&draw.0).add(key);
    if pop > 0 {
        hasher.add(&pop.to_le_bytes());
    }
    let rank = hasher.finish().short() % (length as u64).max(1);
    usize::try_from(rank).unwrap_or(0)
}

pub(super) fn pop(
    store: &mut Store,
    draw: &Hash,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    let wanted = count(arguments, 1, "spop")?;
    let key = arguments.at(0);
    let Some(set) = set(store, key)? else {
        if wanted.is_some() {
            answer.set(0);
        } else {
            answer.null();
        }
        return Ok(());
    };
    let length = set.members().len();
    let number = wanted.unwrap_or(1).min(length);
    let flat = wanted.is_none();
    let popped = store.edit(key, 0, None, |value| {
        let Value::Set(set) = value else { return Err(WRONG_TYPE) };
        let mut popped: Vec<Bytes> = Vec::new();
        let mut size = 0;
        for pop in 0..number {
            let rank = if number == length { 0 } else { choice(draw, key, pop as u64, length - pop) };
            popped.extend(set.remove_nth(rank));
            size += popped.last().map_or(0, |member| bulk_bytes(member.len()));
            // Which members go is only known while they go, so a reply that does not fit puts them back.
            if let Err(denied) = answer.fits(size) {
                for member in &popped {
                    set.add(member);
                }
                return Err(denied);
            }
        }
        popped.sort_unstable();
        Ok(if number > 0 { Edit::Changed(popped) } else { Edit::Kept(popped) })
    })?;
    if !flat {
        answer.set(number);
    }
    popped.iter().flatten().for_each(|member| answer.bulk(member));
    Ok(())
}

pub(super) fn is_member(
    store: &Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    let found = set(store, arguments.at(0))?.is_some_and(|set| set.contains(arguments.at(1)));
    answer.integer(i64::from(found));
    Ok(())
}

pub(super) fn members(
    store: &Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    let Some(set) = set(store, arguments.at(0))? else {
        answer.set(0);
        return Ok(());
    };
    answer.set(set.members().len());
    for member in set.members().iter() {
        answer.fits(bulk_bytes(member.len()))?;
        answer.bulk(member);
    }
    Ok(())
}

pub(super) fn cardinality(
    store: &Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    answer.size(set(store, arguments.at(0))?.map_or(0, |set| set.members().len()));
    Ok(())
}
