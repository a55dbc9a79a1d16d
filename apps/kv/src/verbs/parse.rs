//! What several commands read from their arguments, and the measure of a reply.

use crate::{
    denied::{Denied, NOT_INTEGER, NOT_POSITIVE},
    number,
    operation::Arguments,
};

/// Reads an argument that must be an integer.
pub(super) fn integer(text: &[u8]) -> Result<i64, Denied> {
    number::parse(text).ok_or(NOT_INTEGER)
}

/// Reads the optional count of a pop; more than fits is as good as all.
pub(super) fn count(arguments: &Arguments<'_>, at: usize, name: &str) -> Result<Option<usize>, Denied> {
    if arguments.len() > at + 1 {
        return Err(Denied::arity(name));
    }
    let Some(text) = arguments.get(at) else { return Ok(None) };
    let count = number::parse(text).filter(|count| *count >= 0).ok_or(NOT_POSITIVE)?;
    Ok(Some(usize::try_from(count).unwrap_or(usize::MAX)))
}

/// Turns the inclusive index range of LRANGE and ZRANGE, negative from the end, into first rank and number.
pub(super) fn window(start: i64, stop: i64, length: usize) -> (usize, usize) {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { length.saturating_add(index) } else { index };
    let (first, last) = (from_end(start).max(0), from_end(stop).min(length - 1));
    if first > last {
        return (0, 0);
    }
    (usize::try_from(first).unwrap_or(0), usize::try_from(last - first + 1).unwrap_or(0))
}

/// The length of a bulk reply, with its frame, from above.
pub(super) fn bulk_bytes(length: usize) -> u64 {
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
