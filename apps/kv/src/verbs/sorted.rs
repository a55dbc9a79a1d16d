//! ZADD ZREM ZRANGE ZPOPMIN ZSCORE.

use crate::{
    denied::{
        Denied, GT_WITH_LT, LIMIT_ALONE, NO_BYLEX, NOT_A_NUMBER, NOT_FLOAT, NOT_FLOAT_RANGE, NX_WITH_XX,
        SYNTAX, WRONG_TYPE, ZADD_INCR,
    },
    operation::Arguments,
    reply::Answer,
    score::Score,
    store::{Edit, Store},
    value::{Sorted, Value},
    verbs::parse::{bulk_bytes, count, integer, window},
};

/// Most bytes of a score in a reply.
const SCORE_BYTES: u64 = 32;

fn sorted<'a>(store: &'a Store, key: &[u8]) -> Result<Option<&'a Sorted>, Denied> {
    match store.get(key).map(|entry| &entry.value) {
        None => Ok(None),
        Some(Value::Sorted(sorted)) => Ok(Some(sorted)),
        Some(_) => Err(WRONG_TYPE),
    }
}

/// What ZADD may do and what it answers.
#[derive(Clone, Copy, Default)]
struct AddOptions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
    changed: bool,
    increment: bool,
    /// Index of the first score.
    first: usize,
}

impl AddOptions {
    fn read(arguments: &Arguments<'_>) -> Result<Self, Denied> {
        let mut options = Self { first: 1, ..Self::default() };
        for word in arguments.from(1) {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" => options.nx = true,
                b"XX" => options.xx = true,
                b"GT" => options.gt = true,
                b"LT" => options.lt = true,
                b"CH" => options.changed = true,
                b"INCR" => options.increment = true,
                _ => break,
            }
            options.first += 1;
        }
        let rest = arguments.len() - options.first;
        let Self { nx, xx, gt, lt, increment, .. } = options;
        if rest == 0 || rest % 2 == 1 {
            Err(SYNTAX)
        } else if nx && xx {
            Err(NX_WITH_XX)
        } else if nx && (gt || lt) || gt && lt {
            Err(GT_WITH_LT)
        } else if increment && rest > 2 {
            Err(ZADD_INCR)
        } else {
            Ok(options)
        }
    }

    /// The score to write for a member that has `old`, or `None` when the conditions forbid it.
    fn resolve(self, old: Option<Score>, given: Score) -> Result<Option<Score>, Denied> {
        let Some(old) = old else { return Ok((!self.xx).then_some(given)) };
        let new = if self.increment { old.plus(given).ok_or(NOT_A_NUMBER)? } else { given };
        let refused = self.nx || self.gt && new <= old || self.lt && new >= old;
        Ok((!refused).then_some(new))
    }
}

/// What an addition did.
#[derive(Default)]
struct Added {
    new: usize,
    moved: usize,
    /// The score of the last member, if it was written.
    last: Option<Score>,
}

pub(super) fn add(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
    growth: u64,
) -> Result<(), Denied> {
    let options = AddOptions::read(arguments)?;
    let mut scores = Vec::with_capacity((arguments.len() - options.first) / 2);
    for at in (options.first..arguments.len()).step_by(2) {
        scores.push(Score::parse(arguments.at(at)).ok_or(NOT_FLOAT)?);
    }
    let fresh = || Value::Sorted(Sorted::default());
    let added = store.edit(arguments.at(0), growth, Some(fresh), |value| {
        let Value::Sorted(sorted) = value else { return Err(WRONG_TYPE) };
        let mut added = Added::default();
        for (pair, given) in scores.iter().enumerate() {
            let member = arguments.at(options.first + 2 * pair + 1);
            added.last = options.resolve(sorted.score(member), *given)?;
            let Some(new) = added.last else { continue };
            match sorted.set(member, new) {
                None => added.new += 1,
                Some(old) if old != new => added.moved += 1,
                Some(_) => {}
            }
        }
        Ok(if added.new + added.moved > 0 { Edit::Changed(added) } else { Edit::Kept(added) })
    })?;
    let added = added.unwrap_or_default();
    match (options.increment, added.last) {
        (true, Some(score)) => answer.double(score),
        (true, None) => answer.null(),
        (false, _) if options.changed => answer.size(added.new + added.moved),
        (false, _) => answer.size(added.new),
    }
    Ok(())
}

pub(super) fn remove(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    let removed = store.edit(arguments.at(0), 0, None, |value| match value {
        Value::Sorted(sorted) => {
            let removed = arguments.from(1).filter(|member| sorted.remove(member)).count();
            Ok(if removed > 0 { Edit::Changed(removed) } else { Edit::Kept(0) })
        }
        _ => Err(WRONG_TYPE),
    })?;
    answer.size(removed.unwrap_or(0));
    Ok(())
}

pub(super) fn score(store: &Store, arguments: &Arguments<'_>, answer: &mut Answer<'_>) -> Result<(), Denied> {
    match sorted(store, arguments.at(0))?.and_then(|sorted| sorted.score(arguments.at(1))) {
        Some(score) => answer.double(score),
        None => answer.null(),
    }
    Ok(())
}

pub(super) fn pop_min(
    store: &mut Store,
    arguments: &Arguments<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), Denied> {
    let wanted = count(arguments, 1, "zpopmin")?;
    let key = arguments.at(0);
    let Some(sorted) = sorted(store, key)? else {
        answer.array(0);
        return Ok(());
    };
    let number = wanted.unwrap_or(1).min(sorted.order().len());
    let popped: Vec<_> = sorted.order().range(0, number).cloned().collect();
    answer.fits(popped.iter().map(|(_, member)| bulk_bytes(member.len()) + SCORE_BYTES).sum())?;
    // Without a count the reply is flat in both dialects, with one it is a list of pairs.
    if wanted.is_some() {
        answer.pairs(number);
    } else {
        answer.array(2 * number);
    }
    if number == 0 {
        return Ok(());
    }
    store.edit(key, 0, None, |value| {
        let Value::Sorted(sorted) = value else { return Err(WRONG_TYPE) };
        for (score, member) in &popped {
            sorted.remove(member);
            answer.bulk(member);
            answer.double(*score);
        }
        Ok(Edit::Changed(()))
    })?;
    Ok(())
}

/// How ZRANGE selects.
struct RangeOptions {
    by_score: bool,
    reversed: bool,
    with_scores: bool,
    /// Members to skip, and the most to answer; negative means all.
    limit: Option<(i64, i64)>,
}

impl RangeOptions {
    fn read(arguments: &Arguments<'_>) -> Result<Self, Denied> {
        let mut options = Self { by_score: false, reversed: false, with_scores: false, limit: None };
        let mut words = arguments.from(3);
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"BYSCORE" => options.by_score = true,
                b"BYLEX" => return Err(NO_BYLEX),
                b"REV" => options.reversed = true,
                b"WITHSCORES" => options.with_scores = true,
                b"LIMIT" => {
                    let (offset, number) = (words.next().ok_or(SYNTAX)?, words.next().ok_or(SYNTAX)?);
                    options.limit = Some((integer(offset)?, integer(number)?));
                }
                _ => return Err(SYNTAX),
            }
        }
        if options.limit.is_some() && !options.by_score { Err(LIMIT_ALONE) } else { Ok(options) }
    }
}

/// One end of a score range.
struct Bound {
    score: Score,
    exclusive: bool,
}

impl Bound {
    fn read(text: &[u8]) -> Result<Self, Denied> {
        let (exclusive, number) = match text {
            [b'(', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        Ok(Self { score: Score::parse(number).ok_or(NOT_FLOAT_RANGE)?, exclusive })
    }

    /// How many members lie before the range that begins here.
    fn before(&self, sorted: &Sorted) -> usize {
        self.rank(sorted, self.exclusive)
    }

    /// How many members lie up to the end of the range that ends here.
    fn up_to(&self, sorted: &Sorted) -> usize {
        self.rank(sorted, !self.exclusive)
    }

    /// How many members have a lower score, or an equal one as well.
    fn rank(&self, sorted: &Sorted, with_equal: bool) -> usize {
        let order = sorted.order();
        let tie = if with_equal { core::cmp::Ordering::Less } else { core::cmp::Ordering::Greater };
        match order.find(|(score, _)| score.cmp(&self.score).then(tie)) {
            Ok(place) | Err(place) => order.rank(place),
        }
    }
}

/// First rank and number of the members that a request selects, counted from the end it starts at.
fn select(
    sorted: &Sorted,
    arguments: &Arguments<'_>,
    options: &RangeOptions,
) -> Result<(usize, usize), Denied> {
    let length = sorted.order().len();
    if !options.by_score {
        let (start, stop) = (integer(arguments.at(1))?, integer(arguments.at(2))?);
        return Ok(window(start, stop, length));
    }
    let (low, high) = if options.reversed { (2, 1) } else { (1, 2) };
    let (low, high) = (Bound::read(arguments.at(low))?, Bound::read(arguments.at(high))?);
    let (first, end) = (low.before(sorted), high.up_to(sorted));
    let number = end.saturating_sub(first);
    let first = if options.reversed { length - end } else { first };
    let (offset, most) = options.limit.unwrap_or((0, -1));
    let Ok(offset) = usize::try_from(offset) else { return Ok((0, 0)) };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    Ok((first.saturating_add(offset), number.saturating_sub(offset).min(most)))
}

pub(super) fn range(store: &Store, arguments: &Arguments<'_>, answer: &mut Answer<'_>) -> Result<(), Denied> {
    let options = RangeOptions::read(arguments)?;
    let empty = Sorted::default();
    let sorted = sorted(store, arguments.at(0))?.unwrap_or(&empty);
    let (first, number) = select(sorted, arguments, &options)?;
    if options.with_scores {
        answer.pairs(number);
    } else {
        answer.array(number);
    }
    let mut put = |score: Score, member: &[u8]| {
        answer.fits(bulk_bytes(member.len()) + SCORE_BYTES)?;
        answer.bulk(member);
        if options.with_scores {
            answer.double(score);
        }
        Ok(())
    };
    if options.reversed {
        let Some(last) = sorted.order().len().checked_sub(first + 1) else { return Ok(()) };
        sorted.order().range_down(last, number).try_for_each(|(score, member)| put(*score, member))
    } else {
        sorted.order().range(first, number).try_for_each(|(score, member)| put(*score, member))
    }
}
