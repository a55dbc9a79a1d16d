//! The SCAN family: a cursor is a place in an order by hash, so what is there throughout is told once, whatever else is
//! written meanwhile.

use synod_wire::Bytes;

use super::dispatch::{option, plain, word};
use crate::adapter::{Adapter, Done, NOT_A_NUMBER, SYNTAX, number};
use crate::glob;
use crate::keyspace::rank;
use crate::resp::Reply;
use crate::server::Server;
use crate::table::Own;

/// Elements that one call looks at unless it says otherwise, and at most.
const COUNT: u64 = 10;
const COUNT_MAX: u64 = 1_000;

/// What one call asks.
struct Asked {
    cursor: u64,
    count: usize,
    pattern: Option<Bytes>,
    kind: Option<Bytes>,
}

fn asked(words: &[Bytes]) -> Result<Asked, Reply> {
    let cursor = words.first().and_then(|word| core::str::from_utf8(word).ok()?.parse().ok());
    let cursor = cursor.ok_or(Reply::refused("ERR invalid cursor"))?;
    let mut asked = Asked { cursor, count: usize::try_from(COUNT).unwrap_or(1), pattern: None, kind: None };
    let (pairs, odd) = words.get(1..).unwrap_or_default().as_chunks::<2>();
    if !odd.is_empty() {
        return Err(SYNTAX);
    }
    for [name, value] in pairs {
        match option(name).as_str() {
            "COUNT" => {
                let count = number(value).ok_or(NOT_A_NUMBER)?;
                let count = u64::try_from(count).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
                asked.count = usize::try_from(count.min(COUNT_MAX)).unwrap_or(1);
            }
            "MATCH" => asked.pattern = Some(value.clone()),
            "TYPE" => asked.kind = Some(Bytes::from(option(value).to_ascii_lowercase().into_bytes())),
            _ => return Err(SYNTAX),
        }
    }
    Ok(asked)
}

/// A page of elements that stand in the order of their ranks, and the cursor behind it.
fn page<T>(from: impl Iterator<Item = (u64, T)>, count: usize) -> (u64, Vec<T>) {
    let mut page = Vec::new();
    let mut last = 0;
    for (rank, element) in from {
        // Elements of one rank stand on one page: the cursor could not stand between them.
        if page.len() >= count && rank != last {
            return (rank, page);
        }
        last = rank;
        page.push(element);
    }
    (0, page)
}

fn told(cursor: u64, elements: impl IntoIterator<Item = Bytes>) -> Reply {
    Reply::Array(vec![Reply::Bulk(Bytes::from(cursor.to_string().into_bytes())), Reply::array(elements)])
}

impl<S: Server> Adapter<S> {
    pub(super) fn scan(&self, own: Own, words: &[Bytes]) -> Done {
        let behind = if own == Own::Scan { 1 } else { 2 };
        let asked = asked(words.get(behind..).unwrap_or_default())?;
        let fits = |element: &[u8]| asked.pattern.as_ref().is_none_or(|pattern| glob::fits(pattern, element));
        if own == Own::Scan {
            let keys = self.keys.from(asked.cursor).map(|(rank, key)| (*rank, key.clone()));
            let (cursor, keys) = page(keys, asked.count);
            let of_kind = |key: &Bytes| {
                asked.kind.as_ref().is_none_or(|kind| {
                    self.one(&plain("TYPE", std::slice::from_ref(key))) == Reply::Simple(kind.clone())
                })
            };
            return Ok(told(cursor, keys.into_iter().filter(|key| fits(key) && of_kind(key))));
        }
        if asked.kind.is_some() {
            return Err(SYNTAX);
        }
        let mut elements = self.ranked(own, &word(words, 1))?;
        elements.retain(|(rank, _)| *rank >= asked.cursor);
        let (cursor, page) = page(elements.into_iter(), asked.count);
        let page = page.into_iter().filter(|(element, _)| fits(element));
        Ok(told(cursor, page.flat_map(|(element, beside)| [Some(element), beside].into_iter().flatten())))
    }

    /// The elements of a set, hash or sorted set by their ranks, each with its value or score.
    #[expect(clippy::type_complexity, reason = "a rank, an element, and what stands beside it")]
    fn ranked(&self, own: Own, key: &Bytes) -> Result<Vec<(u64, (Bytes, Option<Bytes>))>, Reply> {
        let mut elements: Vec<(u64, (Bytes, Option<Bytes>))> = if own == Own::ScanSet {
            let members = self.elements(&plain("SMEMBERS", std::slice::from_ref(key)))?;
            members.into_iter().map(|member| (rank(&member), (member, None))).collect()
        } else {
            let words = if own == Own::ScanHash {
                plain("HGETALL", std::slice::from_ref(key))
            } else {
                let range = [b"0", &b"-1"[..], b"WITHSCORES"].map(Bytes::from_static);
                plain("ZRANGE", &[key.clone()].into_iter().chain(range).collect::<Vec<_>>())
            };
            let flat = self.elements(&words)?;
            let (pieces, _) = flat.as_chunks::<2>();
            pieces
                .iter()
                .map(|[first, second]| (rank(first), (first.clone(), Some(second.clone()))))
                .collect()
        };
        elements.sort();
        Ok(elements)
    }
}
