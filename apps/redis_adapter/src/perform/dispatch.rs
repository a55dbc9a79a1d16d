//! From a command's row to what carries it out.

use synod_wire::Bytes;

use crate::adapter::{Adapter, Done, SYNTAX};
use crate::glob;
use crate::resp::Reply;
use crate::server::Server;
use crate::table::{Own, Row};

/// The words of a command behind its name, one by one.
pub(crate) fn word(words: &[Bytes], at: usize) -> Bytes {
    words.get(at).cloned().unwrap_or_default()
}

/// A word in capitals, as options are read.
pub(crate) fn option(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_ascii_uppercase()
}

/// A command of words that are known.
pub(crate) fn plain(name: &'static str, words: &[Bytes]) -> Vec<Bytes> {
    [Bytes::from_static(name.as_bytes())].into_iter().chain(words.iter().cloned()).collect()
}

impl<S: Server> Adapter<S> {
    /// Carries out a command of the adapter's own.
    pub(crate) fn own(&mut self, own: Own, row: &Row, words: &[Bytes]) -> Done {
        match own {
            Own::Ping if words.len() == 1 => Ok(Reply::Simple(Bytes::from_static(b"PONG"))),
            Own::Ping | Own::Echo => Ok(Reply::Bulk(word(words, 1))),
            Own::DbSize => Ok(Reply::Integer(i64::try_from(self.keys.len()).unwrap_or(i64::MAX))),
            Own::FlushAll => self.flush(),
            Own::Keys => self.keys_like(&word(words, 1)),
            Own::Scan | Own::ScanSet | Own::ScanHash | Own::ScanSorted => self.scan(own, words),
            Own::HashAll | Own::HashValues => self.hash(own, &word(words, 1)),
            Own::SortList => self.sort(row, words),
            Own::PopRandom => self.pop_random(words),
            Own::RandomMember | Own::RandomField | Own::RandomScored => self.random(own, words),
            Own::RandomKey => Ok(self.random_key()),
            Own::Set => self.set(words),
            Own::SetEx => self.set_ex(row, words),
            Own::GetEx => self.get_ex(words),
            Own::Expire => self.expire_key(row, words),
            Own::Persist => Ok(self.persist(&word(words, 1))),
            Own::Ttl => Ok(self.ttl(row, &word(words, 1))),
            Own::Time => Ok(self.time()),
            Own::Rename => self.rename(words),
            Own::Copy => self.copy(words),
            Own::StreamAdd => self.stream_add(row, words),
            Own::StreamTrim => self.stream_trim(row, words),
        }
    }

    fn flush(&mut self) -> Done {
        let reply = self.one(&plain("FLUSHALL", &[]));
        self.keys = Default::default();
        Ok(reply)
    }

    fn keys_like(&self, pattern: &[u8]) -> Done {
        let keys = self.keys.iter().map(|(key, _)| key).filter(|key| glob::fits(pattern, key));
        Ok(Reply::array(keys.cloned()))
    }

    /// The fields of a hash with their values, by field.
    fn hash(&self, own: Own, key: &Bytes) -> Done {
        let pairs = self.pairs("HGETALL", key)?;
        Ok(Reply::array(pairs.into_iter().flat_map(|(field, value)| {
            [Some(field).filter(|_| own == Own::HashAll), Some(value)].into_iter().flatten()
        })))
    }

    /// Elements that come in pairs, by the first of each.
    pub(crate) fn pairs(&self, name: &'static str, key: &Bytes) -> Result<Vec<(Bytes, Bytes)>, Reply> {
        let flat = self.elements(&plain(name, std::slice::from_ref(key)))?;
        let (pieces, _) = flat.as_chunks::<2>();
        let mut pairs: Vec<_> =
            pieces.iter().map(|[first, second]| (first.clone(), second.clone())).collect();
        pairs.sort();
        Ok(pairs)
    }

    /// The strings of an array; what else the server answers is the answer.
    pub(crate) fn elements(&self, words: &[Bytes]) -> Result<Vec<Bytes>, Reply> {
        let reply = self.one(words);
        if matches!(reply, Reply::Array(_)) { reply.strings().ok_or(SYNTAX) } else { Err(reply) }
    }

    /// SORT by the elements themselves, whose ties the server breaks by bytes; of what has no order, by bytes.
    fn sort(&self, _row: &Row, words: &[Bytes]) -> Done {
        let mut unordered = false;
        let mut rest = words.get(2..).unwrap_or_default();
        loop {
            rest = match rest {
                [] => break,
                [way, behind @ ..] if matches!(option(way).as_str(), "ASC" | "DESC" | "ALPHA") => behind,
                [limit, _, _, behind @ ..] if option(limit) == "LIMIT" => behind,
                [by, pattern, behind @ ..] if option(by) == "BY" && option(pattern) == "NOSORT" => {
                    unordered = true;
                    behind
                }
                _ => {
                    return Err(Reply::refused(
                        "ERR SORT by other keys is not allowed for a replicated server",
                    ));
                }
            };
        }
        let is_set =
            || self.one(&plain("TYPE", &[word(words, 1)])) == Reply::Simple(Bytes::from_static(b"set"));
        if !unordered || !is_set() {
            return Ok(self.one(words));
        }
        if words.iter().skip(2).any(|word| option(word) == "LIMIT") {
            return Err(Reply::refused(
                "ERR a part of what has no order is not allowed for a replicated server",
            ));
        }
        let mut elements = self.elements(&plain("SMEMBERS", &[word(words, 1)]))?;
        elements.sort();
        Ok(Reply::array(elements))
    }
}
