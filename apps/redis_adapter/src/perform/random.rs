//! Commands that choose: elements in canonical order, chosen by a function of the slot and the command's place in it.

use synod_crypto::Hasher;
use synod_wire::Bytes;

use super::dispatch::{option, plain, word};
use crate::adapter::{Adapter, Done, NOT_A_NUMBER, SYNTAX, number};
use crate::resp::Reply;
use crate::server::Server;
use crate::table::Own;

/// Most elements that one command chooses.
const CHOSEN_MAX: u64 = 1 << 16;

impl<S: Server> Adapter<S> {
    /// The choice `which` of this command: a number below `end`, or 0.
    fn choice(&self, which: u64, end: u64) -> u64 {
        let mut hasher = Hasher::new("synod redis choice");
        hasher.add(&self.moment.draw.0).add(&self.moment.position.to_le_bytes());
        hasher.add(&self.moment.index.to_le_bytes()).add(&which.to_le_bytes());
        hasher.finish().short().checked_rem(end).unwrap_or(0)
    }

    /// Chooses `count` of `elements`, each at most once.
    fn some<T>(&self, mut elements: Vec<T>, count: u64) -> Vec<T> {
        let wanted = usize::try_from(count).unwrap_or(usize::MAX).min(elements.len());
        for at in 0..wanted {
            let left = (elements.len() - at) as u64;
            let chosen = usize::try_from(self.choice(at as u64, left)).unwrap_or(0);
            elements.swap(at, at + chosen);
        }
        elements.truncate(wanted);
        elements
    }

    /// Chooses `count` times among all `elements`.
    fn again<T: Clone>(&self, elements: &[T], count: u64) -> Vec<T> {
        let end = elements.len() as u64;
        let chosen = (0..count).filter_map(|which| usize::try_from(self.choice(which, end)).ok());
        chosen.filter_map(|at| elements.get(at).cloned()).collect()
    }

    /// SPOP: what is chosen is removed by name.
    pub(super) fn pop_random(&mut self, words: &[Bytes]) -> Done {
        let count = match words.get(2) {
            None => None,
            Some(word) => {
                let count = number(word).and_then(|count| u64::try_from(count).ok());
                Some(count.ok_or(Reply::refused("ERR value is out of range, must be positive"))?)
            }
        };
        let key = word(words, 1);
        let mut members = self.elements(&plain("SMEMBERS", std::slice::from_ref(&key)))?;
        members.sort();
        let chosen = self.some(members, count.unwrap_or(1).min(CHOSEN_MAX));
        for some in chosen.chunks(512) {
            let named: Vec<Bytes> = [key.clone()].into_iter().chain(some.iter().cloned()).collect();
            self.send(&plain("SREM", &named), std::slice::from_ref(&key));
        }
        self.keys.is_above(&key);
        Ok(match count {
            Some(_) => Reply::array(chosen),
            None => chosen.into_iter().next().map_or(Reply::Null, Reply::Bulk),
        })
    }

    /// SRANDMEMBER, HRANDFIELD, ZRANDMEMBER.
    pub(super) fn random(&self, own: Own, words: &[Bytes]) -> Done {
        let key = word(words, 1);
        let with = match words.get(3).map(|word| option(word)) {
            None => false,
            Some(wanted) if own == Own::RandomField && wanted == "WITHVALUES" => true,
            Some(wanted) if own == Own::RandomScored && wanted == "WITHSCORES" => true,
            Some(_) => return Err(SYNTAX),
        };
        let count = words.get(2).map(|word| number(word).ok_or(NOT_A_NUMBER)).transpose()?;
        let elements: Vec<(Bytes, Bytes)> = match own {
            Own::RandomField => self.pairs("HGETALL", &key)?,
            Own::RandomScored => {
                let range = [b"0", &b"-1"[..], b"WITHSCORES"].map(Bytes::from_static);
                let all: Vec<Bytes> = [key].into_iter().chain(range).collect();
                let flat = self.elements(&plain("ZRANGE", &all))?;
                let (pieces, _) = flat.as_chunks::<2>();
                pieces.iter().map(|[member, score]| (member.clone(), score.clone())).collect()
            }
            _ => {
                let mut members = self.elements(&plain("SMEMBERS", std::slice::from_ref(&key)))?;
                members.sort();
                members.into_iter().map(|member| (member, Bytes::new())).collect()
            }
        };
        let Some(count) = count else {
            let one = self.some(elements, 1).into_iter().next();
            return Ok(one.map_or(Reply::Null, |(element, _)| Reply::Bulk(element)));
        };
        let most = count.unsigned_abs().min(CHOSEN_MAX);
        let chosen = if count < 0 { self.again(&elements, most) } else { self.some(elements, most) };
        Ok(Reply::array(chosen.into_iter().flat_map(|(element, beside)| {
            [Some(element), Some(beside).filter(|_| with)].into_iter().flatten()
        })))
    }

    /// RANDOMKEY: the next key behind a place in the order of SCAN.
    pub(super) fn random_key(&self) -> Reply {
        let from = self.choice(0, u64::MAX) >> 1;
        let found = self.keys.from(from).next().or_else(|| self.keys.from(0).next());
        found.map_or(Reply::Null, |(_, key)| Reply::Bulk(key.clone()))
    }
}
