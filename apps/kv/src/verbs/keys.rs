//! DEL EXISTS TYPE EXPIRE PEXPIRE TTL PTTL PERSIST SCAN DBSIZE.

use crate::{
    SCAN_MAX,
    commands::Verb,
    denied::{BAD_CURSOR, Denied, EXPIRE_GT_LT, EXPIRE_NX, PATTERN_TOO_SLOW, SYNTAX},
    glob,
    limits::MATCH_STEPS_MAX,
    operation::Arguments,
    reply::Answer,
    store::Store,
    verbs::parse::{bulk_bytes, integer},
};

pub(super) fn del(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    answer.size(arguments.from(0).filter(|key| store.remove(key)).count());
    Ok(())
}

pub(super) fn exists(
    store: &Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    answer.size(arguments.from(0).filter(|key| store.get(key).is_some()).count());
    Ok(())
}

pub(super) fn type_name(
    store: &Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    answer.simple(store.get(arguments.at(0)).map_or("none", |entry| entry.value.type_name()));
    Ok(())
}

pub(super) fn ttl(
    store: &Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
    unit_ms: u64,
) -> Result<(), Denied> {
    let left = match store.get(arguments.at(0)).map(|entry| entry.deadline) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline)) => {
            let ms = deadline.saturating_sub(store.time());
            i64::try_from((ms + unit_ms / 2) / unit_ms).unwrap_or(i64::MAX)
        }
    };
    answer.integer(left);
    Ok(())
}

/// When EXPIRE applies, by the deadline the key has.
#[derive(Clone, Copy, Default)]
struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Conditions {
    fn read(arguments: &Arguments<'_>) -> Result<Self, Denied> {
        let mut conditions = Self::default();
        for word in arguments.from(2) {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" => conditions.nx = true,
                b"XX" => conditions.xx = true,
                b"GT" => conditions.gt = true,
                b"LT" => conditions.lt = true,
                _ => return Err(Denied::option(word)),
            }
        }
        let Self { nx, xx, gt, lt } = conditions;
        match (nx && (xx || gt || lt), gt && lt) {
            (true, _) => Err(EXPIRE_NX),
            (_, true) => Err(EXPIRE_GT_LT),
            _ => Ok(conditions),
        }
    }

    /// No deadline counts as one that never comes.
    fn allow(self, old: Option<u64>, new: i64) -> bool {
        let old_or_never = old.map_or(i64::MAX, |old| i64::try_from(old).unwrap_or(i64::MAX));
        !(self.nx && old.is_some()
            || self.xx && old.is_none()
            || self.gt && (old.is_none() || new <= old_or_never)
            || self.lt && old.is_some() && new >= old_or_never)
    }
}

pub(super) fn expire(
    store: &mut Store,
    verb: Verb,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    let conditions = Conditions::read(arguments)?;
    let bad = || Denied::expire_time(verb.command().name);
    let unit_ms = if verb == Verb::Expire { 1_000 } else { 1 };
    let now = i64::try_from(store.time()).map_err(|_| bad())?;
    let deadline = integer(arguments.at(1))?.checked_mul(unit_ms).and_then(|ms| ms.checked_add(now));
    let deadline = deadline.ok_or_else(bad)?;
    let key = arguments.at(0);
    let set = match store.get(key) {
        Some(entry) if conditions.allow(entry.deadline, deadline) => {
            if deadline <= now {
                store.remove(key)
            } else {
                store.set_deadline(key, u64::try_from(deadline).ok())
            }
        }
        _ => false,
    };
    answer.integer(i64::from(set));
    Ok(())
}

pub(super) fn persist(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    let key = arguments.at(0);
    let timed = store.get(key).is_some_and(|entry| entry.deadline.is_some());
    answer.integer(i64::from(timed && store.set_deadline(key, None)));
    Ok(())
}

pub(super) fn dbsize(store: &Store, answer: &mut Answer<'_>) -> Result<(), Denied> {
    answer.size(store.keys().len());
    Ok(())
}

/// Bits of a key's place that a cursor leaves out. 48 bits remain: enough that a page stays small, and within
/// the integers that clients keep exactly in a double.
const CURSOR_SHIFT: u32 = 16;
/// The largest cursor.
const CURSOR_MAX: u64 = u64::MAX >> CURSOR_SHIFT;

struct ScanOptions<'a> {
    pattern: Option<&'a [u8]>,
    type_name: Option<Vec<u8>>,
    count: usize,
}

impl<'a> ScanOptions<'a> {
    fn read(arguments: &Arguments<'a>) -> Result<Self, Denied> {
        let mut options = Self { pattern: None, type_name: None, count: 10 };
        let mut words = arguments.from(1);
        while let Some(word) = words.next() {
            let value = words.next().ok_or(SYNTAX)?;
            match word.to_ascii_uppercase().as_slice() {
                b"MATCH" => options.pattern = Some(value),
                b"TYPE" => options.type_name = Some(value.to_ascii_lowercase()),
                b"COUNT" => {
                    let count = integer(value)?;
                    if count < 1 {
                        return Err(SYNTAX);
                    }
                    options.count = usize::try_from(count).unwrap_or(SCAN_MAX).min(SCAN_MAX);
                }
                _ => return Err(SYNTAX),
            }
        }
        Ok(options)
    }
}

/// SCAN goes through the keys in the order of their hash, for a cursor is a number to every Redis client: the
/// first 48 bits of the hash of the next key. Keys with equal bits are never parted, so a key that is there from
/// the first to the last call is returned, whatever is added or removed meanwhile, and any replica or gateway
/// can go on with any cursor. Keys within a page stand in byte order.
pub(super) fn scan(store: &Store, arguments: &Arguments<'_>, answer: &mut Answer<'_>) -> Result<(), Denied> {
    let cursor: Option<u64> = core::str::from_utf8(arguments.at(0)).ok().and_then(|text| text.parse().ok());
    let cursor = cursor.filter(|cursor| *cursor <= CURSOR_MAX).ok_or(BAD_CURSOR)?;
    let options = ScanOptions::read(arguments)?;
    let (mut seen, mut last, mut next) = (0, cursor, 0);
    let (mut left, mut slow) = (MATCH_STEPS_MAX, false);
    let mut page = Vec::new();
    store.tree().walk(cursor << CURSOR_SHIFT, &mut |place, entry| {
        let here = place >> CURSOR_SHIFT;
        let parted = seen > 0 && here != last;
        if seen >= options.count && parted {
            next = here;
            return false;
        }
        let fits_type =
            options.type_name.as_ref().is_none_or(|name| entry.value.type_name().as_bytes() == name);
        let fits = match options.pattern.filter(|_| fits_type) {
            Some(pattern) => glob::matches(pattern, &entry.key, &mut left),
            None => Some(fits_type),
        };
        match fits {
            Some(true) => page.push(entry.key.as_ref()),
            Some(false) => {}
            // The page ends before the key that is too much for what is left of the steps.
            None if parted => next = here,
            None => slow = true,
        }
        (seen, last) = (seen + 1, here);
        fits.is_some()
    });
    if slow {
        return Err(PATTERN_TOO_SLOW);
    }
    page.sort_unstable();
    answer.array(2);
    answer.bulk(next.to_string().as_bytes());
    answer.array(page.len());
    for key in page {
        answer.fits(bulk_bytes(key.len()))?;
        answer.bulk(key);
    }
    Ok(())
}
