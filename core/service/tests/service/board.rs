//! The application of these tests: named numbers and texts, and the list of what was executed, so that a command
//! executed twice is in the state for ever.

use std::collections::BTreeMap;

use synod_crypto::{Hash, merkle};
use synod_machine::Unrecoverable;
use synod_service::{App, At, CHUNK_MAX, Replies, Request};
use synod_wire::{Bytes, Limits, Reader, Wire, Writer};

/// `put K V`, `get K`, `inc K`, `big N`; anything else is answered `?`.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Board {
    pub(crate) values: BTreeMap<String, String>,
    /// (session, sequence) of every command, in order of execution.
    pub(crate) executed: Vec<(u64, u64)>,
    /// What chunks said so far, during a restore.
    raw: Vec<u8>,
    /// Makes the replies of a lying executor wrong without touching its state.
    pub(crate) lies: bool,
}

impl core::fmt::Debug for Board {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{} values, {} executed, {:?}",
            self.values.len(),
            self.executed.len(),
            Hash::of(&self.encoded())
        )
    }
}

impl Board {
    fn encoded(&self) -> Bytes {
        let mut out = Writer::default();
        out.count(self.values.len());
        for (key, value) in &self.values {
            key.write(&mut out);
            value.write(&mut out);
        }
        out.count(self.executed.len());
        self.executed.iter().for_each(|one| one.write(&mut out));
        out.freeze()
    }

    fn decode(&mut self) -> Option<()> {
        let raw = Bytes::copy_from_slice(&self.raw);
        let mut input = Reader::new(&raw, &Limits { frame_max: u32::MAX }).ok()?;
        let (mut values, mut executed) = (BTreeMap::new(), Vec::new());
        for _ in 0..input.varint().ok()? {
            values.insert(String::read(&mut input).ok()?, String::read(&mut input).ok()?);
        }
        for _ in 0..input.varint().ok()? {
            executed.push(<(u64, u64)>::read(&mut input).ok()?);
        }
        input.finish().ok()?;
        (self.values, self.executed) = (values, executed);
        self.raw.clear();
        Some(())
    }

    fn one(&mut self, body: &[u8]) -> String {
        let text = String::from_utf8_lossy(body).into_owned();
        let words: Vec<&str> = text.splitn(3, ' ').collect();
        match words[..] {
            ["put", key, value] => {
                self.values.insert(key.to_owned(), value.to_owned());
                "ok".to_owned()
            }
            ["get", key] => self.values.get(key).cloned().unwrap_or_default(),
            ["inc", key] => {
                let before = self.values.get(key).and_then(|value| value.parse().ok()).unwrap_or(0_u64);
                self.values.insert(key.to_owned(), (before + 1).to_string());
                (before + 1).to_string()
            }
            ["big", count] => "x".repeat(count.parse().unwrap_or(0)),
            _ => "?".to_owned(),
        }
    }
}

impl App for Board {
    fn execute(&mut self, _: &At, requests: &mut dyn Iterator<Item = Request<'_>>, replies: &mut Replies) {
        for request in requests {
            self.executed.push((request.session, request.sequence));
            let mut reply = self.one(request.body);
            if self.lies {
                reply.push_str(" and a lie");
            }
            replies.push(Bytes::from(reply));
        }
    }

    fn query(&self, question: &[u8]) -> Option<Bytes> {
        let key = core::str::from_utf8(question).ok()?.strip_prefix("get ")?;
        let value = self.values.get(key).cloned().unwrap_or_default();
        Some(Bytes::from(if self.lies { "lie".to_owned() } else { value }))
    }

    fn root(&mut self) -> Hash {
        let leaves = (0..self.chunks()).map(|index| merkle::leaf(&self.chunk(index))).collect();
        merkle::Tree::new(leaves).root()
    }

    fn chunks(&self) -> u32 {
        u32::try_from(self.encoded().len().div_ceil(CHUNK_MAX)).expect("small")
    }

    fn chunk(&self, index: u32) -> Bytes {
        let from = usize::try_from(index).expect("small") * CHUNK_MAX;
        let all = self.encoded();
        all.slice(from.min(all.len())..(from + CHUNK_MAX).min(all.len()))
    }

    fn restore(&mut self, index: u32, chunk: &[u8]) -> Result<(), Unrecoverable> {
        if index == 0 {
            self.raw.clear();
        }
        self.raw.extend_from_slice(chunk);
        // Only the last chunk completes the encoding.
        self.decode().unwrap_or_default();
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.encoded().len() as u64
    }
}
