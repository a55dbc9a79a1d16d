//! A small server: what the tests ask of it, and sets in an order that differs from server to server.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use synod_redis_adapter::{Server, resp::Reply};
use synod_wire::{Bytes, Drawn};

#[derive(Clone, Debug)]
enum Value {
    Text(Vec<u8>),
    List(Vec<Bytes>),
    Set(BTreeSet<Bytes>),
    Hash(BTreeMap<Bytes, Bytes>),
    Sorted(BTreeMap<Bytes, i64>),
    Stream { entries: BTreeMap<(u64, u64), Vec<Bytes>>, last: (u64, u64) },
}

#[derive(Debug)]
pub(crate) struct Model {
    inner: RefCell<Inner>,
}

#[derive(Debug)]
struct Inner {
    keys: BTreeMap<Bytes, Value>,
    draw: Drawn,
    /// Every command that arrived.
    heard: Vec<String>,
}

const WRONG: Reply = Reply::refused("WRONGTYPE Operation against a key holding the wrong kind of value");

impl Model {
    pub(crate) fn new(seed: u64) -> Self {
        let inner = Inner { keys: BTreeMap::new(), draw: Drawn::new(seed), heard: Vec::new() };
        Self { inner: RefCell::new(inner) }
    }

    /// The commands that arrived since this was asked last.
    pub(crate) fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.inner.borrow_mut().heard)
    }

    /// Loses a key behind the adapter's back.
    pub(crate) fn corrupt(&self, key: &'static str) {
        let text = Value::Text(b"corrupted".to_vec());
        self.inner.borrow_mut().keys.insert(Bytes::from_static(key.as_bytes()), text);
    }
}

impl Server for Model {
    fn ask(&self, commands: &[Vec<Bytes>]) -> Vec<Reply> {
        let mut inner = self.inner.borrow_mut();
        commands
            .iter()
            .map(|words| {
                let line: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
                inner.heard.push(line.join(" "));
                inner.perform(words)
            })
            .collect()
    }
}

fn number(word: &[u8]) -> i64 {
    std::str::from_utf8(word).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn bytes(text: impl ToString) -> Bytes {
    Bytes::from(text.to_string().into_bytes())
}

fn id(word: &[u8], last: (u64, u64)) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(word).ok()?;
    let (time, sequence) = text.split_once('-').unwrap_or((text, "0"));
    let time = time.parse().ok()?;
    let sequence = match sequence {
        "*" if time == last.0 => last.1 + 1,
        "*" => u64::from(time == 0),
        number => number.parse().ok()?,
    };
    Some((time, sequence))
}

impl Inner {
    fn shuffled(&mut self, mut items: Vec<Vec<Bytes>>) -> Reply {
        for at in (1..items.len()).rev() {
            let other = usize::try_from(self.draw.below(at as u64 + 1)).expect("small");
            items.swap(at, other);
        }
        Reply::array(items.into_iter().flatten())
    }

    fn perform(&mut self, words: &[Bytes]) -> Reply {
        let name = String::from_utf8_lossy(&words[0]).to_ascii_uppercase();
        let behind = &words[1..];
        match name.as_str() {
            "FLUSHALL" => {
                self.keys.clear();
                Reply::OK
            }
            "EXISTS" => {
                Reply::Integer(behind.iter().filter(|key| self.keys.contains_key(*key)).count() as i64)
            }
            "DEL" | "UNLINK" => {
                let gone = behind.iter().filter(|key| self.keys.remove(*key).is_some()).count();
                Reply::Integer(gone as i64)
            }
            "TYPE" => Reply::Simple(Bytes::from_static(match self.keys.get(&behind[0]) {
                None => b"none",
                Some(Value::Text(_)) => b"string",
                Some(Value::List(_)) => b"list",
                Some(Value::Set(_)) => b"set",
                Some(Value::Hash(_)) => b"hash",
                Some(Value::Sorted(_)) => b"zset",
                Some(Value::Stream { .. }) => b"stream",
            })),
            "RENAME" => match self.keys.remove(&behind[0]) {
                None => Reply::refused("ERR no such key"),
                Some(value) => {
                    self.keys.insert(behind[1].clone(), value);
                    Reply::OK
                }
            },
            "GET" | "SET" | "SETNX" | "APPEND" | "INCR" | "GETDEL" | "MSET" => self.text(&name, behind),
            "RPUSH" | "LPUSH" | "LRANGE" | "LLEN" | "LPOP" => self.list(&name, behind),
            "SADD" | "SREM" | "SMEMBERS" | "SUNION" | "SUNIONSTORE" => self.set(&name, behind),
            "HSET" | "HDEL" | "HGETALL" | "HKEYS" => self.hash(&name, behind),
            "ZADD" | "ZREM" | "ZRANGE" => self.sorted(&name, behind),
            "XADD" | "XRANGE" | "XINFO" | "XSETID" | "XDEL" => self.stream(&name, behind),
            other => unreachable!("the model does not know {other}"),
        }
    }

    fn text(&mut self, name: &str, words: &[Bytes]) -> Reply {
        let found = self.keys.get(&words[0]).cloned();
        let former = match &found {
            None => None,
            Some(Value::Text(text)) => Some(text.clone()),
            Some(_) if matches!(name, "SET" | "SETNX" | "MSET") => Some(Vec::new()),
            Some(_) => return WRONG,
        };
        let told = |text: &Option<Vec<u8>>| text.clone().map_or(Reply::Null, |text| Reply::Bulk(text.into()));
        let mut put = |text: Vec<u8>| self.keys.insert(words[0].clone(), Value::Text(text));
        match name {
            "GET" => told(&former),
            "GETDEL" => {
                self.keys.remove(&words[0]);
                told(&former)
            }
            "APPEND" => {
                let text = [former.unwrap_or_default(), words[1].to_vec()].concat();
                let length = text.len();
                put(text);
                Reply::Integer(length as i64)
            }
            "INCR" => {
                let next = former.map_or(0, |text| number(&text)) + 1;
                put(next.to_string().into_bytes());
                Reply::Integer(next)
            }
            "SETNX" if former.is_some() => Reply::Integer(0),
            "SETNX" => {
                put(words[1].to_vec());
                Reply::Integer(1)
            }
            "MSET" => {
                for pair in words.chunks(2) {
                    self.keys.insert(pair[0].clone(), Value::Text(pair[1].to_vec()));
                }
                Reply::OK
            }
            _ => {
                let has = |option: &str| words[2..].iter().any(|word| word == option);
                let wrote = !(has("NX") && former.is_some() || has("XX") && former.is_none());
                if wrote {
                    put(words[1].to_vec());
                }
                match (has("GET"), wrote) {
                    (true, _) => told(&former),
                    (false, true) => Reply::OK,
                    (false, false) => Reply::Null,
                }
            }
        }
    }

    fn list(&mut self, name: &str, words: &[Bytes]) -> Reply {
        let key = &words[0];
        if !matches!(self.keys.get(key), None | Some(Value::List(_))) {
            return WRONG;
        }
        let is_read = matches!(name, "LRANGE" | "LLEN" | "LPOP");
        if is_read && !self.keys.contains_key(key) {
            return match name {
                "LPOP" => Reply::Null,
                "LLEN" => Reply::Integer(0),
                _ => Reply::Array(Vec::new()),
            };
        }
        let entry = self.keys.entry(key.clone()).or_insert_with(|| Value::List(Vec::new()));
        let Value::List(items) = entry else { return WRONG };
        match name {
            "LRANGE" => Reply::array(items.clone()),
            "LLEN" => Reply::Integer(items.len() as i64),
            "LPOP" => {
                let first = items.remove(0);
                if items.is_empty() {
                    self.keys.remove(key);
                }
                Reply::Bulk(first)
            }
            "RPUSH" => {
                items.extend(words[1..].iter().cloned());
                Reply::Integer(items.len() as i64)
            }
            _ => {
                words[1..].iter().for_each(|word| items.insert(0, word.clone()));
                Reply::Integer(items.len() as i64)
            }
        }
    }

    fn members(&self, key: &Bytes) -> Option<BTreeSet<Bytes>> {
        match self.keys.get(key) {
            None => Some(BTreeSet::new()),
            Some(Value::Set(members)) => Some(members.clone()),
            Some(_) => None,
        }
    }

    fn set(&mut self, name: &str, words: &[Bytes]) -> Reply {
        let read = if name == "SUNIONSTORE" {
            &words[1..]
        } else if name == "SUNION" {
            words
        } else {
            &words[..1]
        };
        let Some(sets) = read.iter().map(|key| self.members(key)).collect::<Option<Vec<_>>>() else {
            return WRONG;
        };
        let mut members: BTreeSet<Bytes> = sets.into_iter().flatten().collect();
        let before = members.len();
        match name {
            "SMEMBERS" | "SUNION" => {
                return self.shuffled(members.into_iter().map(|member| vec![member]).collect());
            }
            "SADD" => members.extend(words[1..].iter().cloned()),
            "SREM" => members.retain(|member| !words[1..].contains(member)),
            _ => {}
        }
        let count = if name == "SUNIONSTORE" { before } else { before.abs_diff(members.len()) };
        if members.is_empty() {
            self.keys.remove(&words[0]);
        } else {
            self.keys.insert(words[0].clone(), Value::Set(members));
        }
        Reply::Integer(count as i64)
    }

    fn hash(&mut self, name: &str, words: &[Bytes]) -> Reply {
        let mut fields = match self.keys.get(&words[0]) {
            None => BTreeMap::new(),
            Some(Value::Hash(fields)) => fields.clone(),
            Some(_) => return WRONG,
        };
        let before = fields.len();
        match name {
            "HGETALL" => {
                return self.shuffled(fields.into_iter().map(|(field, value)| vec![field, value]).collect());
            }
            "HKEYS" => return self.shuffled(fields.into_keys().map(|field| vec![field]).collect()),
            "HSET" => fields.extend(words[1..].chunks(2).map(|pair| (pair[0].clone(), pair[1].clone()))),
            _ => fields.retain(|field, _| !words[1..].contains(field)),
        }
        let count = before.abs_diff(fields.len());
        if fields.is_empty() {
            self.keys.remove(&words[0]);
        } else {
            self.keys.insert(words[0].clone(), Value::Hash(fields));
        }
        Reply::Integer(count as i64)
    }

    fn sorted(&mut self, name: &str, words: &[Bytes]) -> Reply {
        let mut scores = match self.keys.get(&words[0]) {
            None => BTreeMap::new(),
            Some(Value::Sorted(scores)) => scores.clone(),
            Some(_) => return WRONG,
        };
        let before = scores.len();
        match name {
            "ZRANGE" => {
                let mut all: Vec<_> = scores.into_iter().map(|(member, score)| (score, member)).collect();
                all.sort();
                return Reply::array(all.into_iter().flat_map(|(score, member)| [member, bytes(score)]));
            }
            "ZADD" => scores.extend(words[1..].chunks(2).map(|pair| (pair[1].clone(), number(&pair[0])))),
            _ => scores.retain(|member, _| !words[1..].contains(member)),
        }
        let count = before.abs_diff(scores.len());
        if scores.is_empty() {
            self.keys.remove(&words[0]);
        } else {
            self.keys.insert(words[0].clone(), Value::Sorted(scores));
        }
        Reply::Integer(count as i64)
    }

    fn stream(&mut self, name: &str, words: &[Bytes]) -> Reply {
        let key = if name == "XINFO" { &words[1] } else { &words[0] };
        let (mut entries, mut last) = match self.keys.get(key) {
            None if name == "XADD" => (BTreeMap::new(), (0, 0)),
            None if name == "XINFO" => return Reply::refused("ERR no such key"),
            None => return Reply::Array(Vec::new()),
            Some(Value::Stream { entries, last }) => (entries.clone(), *last),
            Some(_) => return WRONG,
        };
        let shown = |(time, sequence): (u64, u64)| Reply::Bulk(bytes(format!("{time}-{sequence}")));
        let reply = match name {
            "XRANGE" => {
                let entry = |(id, fields): (&(u64, u64), &Vec<Bytes>)| {
                    Reply::Array(vec![shown(*id), Reply::array(fields.clone())])
                };
                return Reply::Array(entries.iter().map(entry).collect());
            }
            "XINFO" => {
                let fields = [Reply::Bulk(bytes("length")), Reply::Integer(entries.len() as i64)];
                let named = [Reply::Bulk(bytes("last-generated-id")), shown(last)];
                return Reply::Array(fields.into_iter().chain(named).collect());
            }
            "XSETID" => {
                let Some(new) = id(&words[1], last) else { return Reply::refused("ERR Invalid stream ID") };
                last = new;
                Reply::OK
            }
            "XDEL" => {
                let before = entries.len();
                entries.retain(|entry, _| !words[1..].iter().any(|word| id(word, last) == Some(*entry)));
                Reply::Integer((before - entries.len()) as i64)
            }
            _ => {
                let at = if words[1] == "MAXLEN" { 3 } else { 1 };
                let Some(new) = id(&words[at], last).filter(|new| *new > last) else {
                    return Reply::refused(
                        "ERR The ID specified in XADD is equal or smaller than the target",
                    );
                };
                last = new;
                if at == 1 {
                    entries.insert(new, words[at + 1..].to_vec());
                }
                shown(new)
            }
        };
        self.keys.insert(key.clone(), Value::Stream { entries, last });
        reply
    }
}
