//! Commands that read or set a clock. Deadlines are the adapter's, in agreed time: the server never sees one, and keys whose
//! time has come are removed by name before the next slot's commands.

use synod_wire::Bytes;

use super::dispatch::{option, plain, word};
use crate::adapter::{Adapter, Done, NOT_A_NUMBER, SYNTAX, number, paid};
use crate::resp::Reply;
use crate::server::Server;
use crate::table::Row;

const INVALID: Reply = Reply::refused("ERR invalid expire time");

/// What becomes of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deadline {
    Keep,
    Clear,
    At(u64),
}

/// How a command states a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unit {
    ms: i64,
    is_absolute: bool,
}

const fn unit(name: &str) -> Option<Unit> {
    Some(match name.as_bytes() {
        b"EX" | b"EXPIRE" | b"SETEX" => Unit { ms: 1_000, is_absolute: false },
        b"PX" | b"PEXPIRE" | b"PSETEX" => Unit { ms: 1, is_absolute: false },
        b"EXAT" | b"EXPIREAT" => Unit { ms: 1_000, is_absolute: true },
        b"PXAT" | b"PEXPIREAT" => Unit { ms: 1, is_absolute: true },
        _ => return None,
    })
}

impl<S: Server> Adapter<S> {
    /// The time that a word states, in ms; below zero it is over long ago.
    fn stated(&self, unit: Unit, stated: &[u8]) -> Result<i64, Reply> {
        let now = i64::try_from(self.moment.time).unwrap_or(i64::MAX);
        let from = if unit.is_absolute { 0 } else { now };
        let stated = number(stated).ok_or(NOT_A_NUMBER)?;
        stated.checked_mul(unit.ms).and_then(|ms| from.checked_add(ms)).ok_or(INVALID)
    }

    /// As [`Self::stated`], where a time that is no time at all is refused.
    fn ahead(&self, unit: Unit, stated: &[u8]) -> Result<u64, Reply> {
        if number(stated).is_some_and(|stated| stated <= 0) {
            return Err(INVALID);
        }
        self.stated(unit, stated).and_then(|ms| u64::try_from(ms).map_err(|_| INVALID))
    }

    /// Sets what becomes of a deadline; a key whose time is over goes.
    fn decide(&mut self, key: &Bytes, deadline: Deadline) {
        match deadline {
            Deadline::Keep => {}
            Deadline::Clear => self.keys.ends(key, None),
            Deadline::At(at) if at <= self.moment.time => self.delete(key),
            Deadline::At(at) => self.keys.ends(key, Some(at)),
        }
    }

    pub(super) fn set(&mut self, words: &[Bytes]) -> Done {
        let (key, value) = (word(words, 1), word(words, 2));
        let (mut passed, mut deadline) = (Vec::new(), Deadline::Clear);
        let (mut condition, mut gets, mut timed) = (None, false, false);
        let mut rest = words.get(3..).unwrap_or_default();
        while let [name, behind @ ..] = rest {
            let name = option(name);
            rest = behind;
            match (name.as_str(), unit(&name)) {
                ("NX" | "XX", _) if condition.is_none() => condition = Some(name.clone()),
                ("GET", _) if !gets => gets = true,
                ("KEEPTTL", _) if !timed => (deadline, timed) = (Deadline::Keep, true),
                (_, Some(unit)) if !timed => {
                    let [stated, behind @ ..] = rest else { return Err(SYNTAX) };
                    (deadline, timed, rest) = (Deadline::At(self.ahead(unit, stated)?), true, behind);
                }
                _ => return Err(SYNTAX),
            }
        }
        passed.extend([key.clone(), value]);
        passed.extend(condition.iter().map(|name| Bytes::from(name.clone().into_bytes())));
        passed.extend(gets.then_some(Bytes::from_static(b"GET")));
        let cost = paid(words);
        self.has_room(cost)?;
        let reply = self.send(&plain("SET", &passed), std::slice::from_ref(&key));
        let wrote = match (&reply, gets, condition.as_deref()) {
            (Reply::Error(_), _, _) => false,
            (Reply::Null, true, Some("NX")) | (_, true, None) => true,
            (reply, true, Some("XX")) => *reply != Reply::Null,
            (_, true, _) => false,
            (reply, false, _) => *reply != Reply::Null,
        };
        if wrote {
            self.keys.charge(&key, cost);
            self.decide(&key, deadline);
        }
        Ok(reply)
    }

    pub(super) fn set_ex(&mut self, row: &Row, words: &[Bytes]) -> Done {
        let (key, value) = (word(words, 1), word(words, 3));
        let unit = unit(row.name).ok_or(SYNTAX)?;
        let at = self.ahead(unit, &word(words, 2))?;
        let cost = paid(words);
        self.has_room(cost)?;
        let reply = self.send(&plain("SET", &[key.clone(), value]), std::slice::from_ref(&key));
        self.keys.charge(&key, cost);
        self.decide(&key, Deadline::At(at));
        Ok(reply)
    }

    pub(super) fn get_ex(&mut self, words: &[Bytes]) -> Done {
        let key = word(words, 1);
        let deadline = match words.get(2..).unwrap_or_default() {
            [] => Deadline::Keep,
            [name] if option(name) == "PERSIST" => Deadline::Clear,
            [name, stated] => {
                let unit = unit(&option(name)).filter(|_| option(name) != "EXPIRE").ok_or(SYNTAX)?;
                Deadline::At(self.ahead(unit, stated)?)
            }
            _ => return Err(SYNTAX),
        };
        let reply = self.one(&plain("GET", std::slice::from_ref(&key)));
        if matches!(reply, Reply::Bulk(_)) {
            self.decide(&key, deadline);
        }
        Ok(reply)
    }

    pub(super) fn expire_key(&mut self, row: &Row, words: &[Bytes]) -> Done {
        let key = word(words, 1);
        let at = self.stated(unit(row.name).ok_or(SYNTAX)?, &word(words, 2))?;
        let at = u64::try_from(at).unwrap_or(0);
        let condition = words.get(3).map(|word| option(word));
        let Some(kept) = self.keys.get(&key) else { return Ok(Reply::Integer(0)) };
        let holds = match (condition.as_deref(), kept.deadline) {
            (None, _) | (Some("NX" | "LT"), None) | (Some("XX"), Some(_)) => true,
            (Some("GT"), Some(former)) => at > former,
            (Some("LT"), Some(former)) => at < former,
            (Some("NX"), Some(_)) | (Some("XX" | "GT"), None) => false,
            _ => return Err(SYNTAX),
        };
        if holds {
            self.decide(&key, Deadline::At(at));
        }
        Ok(Reply::Integer(holds.into()))
    }

    pub(super) fn persist(&mut self, key: &Bytes) -> Reply {
        let had = self.keys.get(key).is_some_and(|kept| kept.deadline.is_some());
        self.keys.ends(key, None);
        Reply::Integer(had.into())
    }

    pub(super) fn ttl(&self, row: &Row, key: &Bytes) -> Reply {
        let Some(kept) = self.keys.get(key) else { return Reply::Integer(-2) };
        let Some(deadline) = kept.deadline else { return Reply::Integer(-1) };
        let left = deadline.saturating_sub(self.moment.time);
        let shown = match row.name {
            "TTL" => (left + 500) / 1_000,
            "PTTL" => left,
            "EXPIRETIME" => (deadline + 500) / 1_000,
            _ => deadline,
        };
        Reply::Integer(i64::try_from(shown).unwrap_or(i64::MAX))
    }

    pub(super) fn time(&self) -> Reply {
        let (seconds, ms) = (self.moment.time / 1_000, self.moment.time % 1_000);
        Reply::array([seconds, ms * 1_000].map(|number| Bytes::from(number.to_string().into_bytes())))
    }

    pub(super) fn rename(&mut self, words: &[Bytes]) -> Done {
        let (from, to) = (word(words, 1), word(words, 2));
        let kept = self.keys.get(&from).unwrap_or_default();
        let reply = self.send(words, &[from.clone(), to.clone()]);
        let moved = reply == Reply::OK || reply == Reply::Integer(1);
        if moved && from != to {
            self.keys.ends(&to, kept.deadline);
            self.recount(&to);
        }
        Ok(reply)
    }

    pub(super) fn copy(&mut self, words: &[Bytes]) -> Done {
        let (from, to) = (word(words, 1), word(words, 2));
        if words.get(3).is_some_and(|name| option(name) != "REPLACE") {
            return Err(SYNTAX);
        }
        let kept = self.keys.get(&from).unwrap_or_default();
        self.has_room(kept.charged)?;
        let reply = self.send(words, &[from.clone(), to.clone()]);
        if reply == Reply::Integer(1) {
            self.keys.ends(&to, kept.deadline);
            self.recount(&to);
        }
        Ok(reply)
    }
}
