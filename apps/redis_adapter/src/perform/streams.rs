//! Streams: ids come from agreed time, and trimming is exact.

use synod_wire::Bytes;

use super::dispatch::{option, plain, word};
use crate::adapter::{Adapter, Done, SYNTAX};
use crate::resp::Reply;
use crate::server::Server;
use crate::table::Row;

const ABOUT: Reply = Reply::refused("ERR how much `~` trims depends on how the server stores a stream");

/// Where the id of XADD stands among its words, behind the options.
fn id_at(words: &[Bytes]) -> Result<usize, Reply> {
    let mut at = 2;
    loop {
        match option(&word(words, at)).as_str() {
            "NOMKSTREAM" => at += 1,
            "MAXLEN" | "MINID" => match &word(words, at + 1)[..] {
                b"~" => return Err(ABOUT),
                b"=" => at += 3,
                _ => at += 2,
            },
            "LIMIT" => return Err(ABOUT),
            _ if at < words.len() => return Ok(at),
            _ => return Err(SYNTAX),
        }
    }
}

impl<S: Server> Adapter<S> {
    /// XADD. In the place of `*` stands the agreed time, or the time of the stream's last id where that is later; the
    /// server numbers ids of one time, from nothing but the stream.
    pub(super) fn stream_add(&mut self, row: &Row, words: &[Bytes]) -> Done {
        let at = id_at(words)?;
        if words.get(at).map(|id| &id[..]) != Some(b"*") {
            return self.pass(row, words);
        }
        let last = self.last_id(&word(words, 1)).and_then(|(time, _)| time.parse().ok());
        let time: u64 = last.map_or(self.moment.time, |last: u64| last.max(self.moment.time));
        let mut words = words.to_vec();
        if let Some(id) = words.get_mut(at) {
            *id = Bytes::from(format!("{time}-*").into_bytes());
        }
        self.pass(row, &words)
    }

    pub(super) fn stream_trim(&mut self, row: &Row, words: &[Bytes]) -> Done {
        match option(&word(words, 2)).as_str() {
            "MAXLEN" | "MINID" if &word(words, 3)[..] != b"~" => self.pass(row, words),
            "MAXLEN" | "MINID" => Err(ABOUT),
            _ => Err(SYNTAX),
        }
    }

    /// The last id that a stream gave out, cut at its dash.
    pub(crate) fn last_id(&self, key: &Bytes) -> Option<(String, String)> {
        let asked = plain("XINFO", &[Bytes::from_static(b"STREAM"), key.clone()]);
        let Reply::Array(items) = self.one(&asked) else { return None };
        last_id_of(&items)
    }
}

/// The last id among the fields of XINFO STREAM.
pub(crate) fn last_id_of(items: &[Reply]) -> Option<(String, String)> {
    let is_name = |item: &Reply| item.bulk().is_some_and(|name| &name[..] == b"last-generated-id");
    let at = items.iter().position(is_name)?;
    let text = core::str::from_utf8(items.get(at + 1)?.bulk()?).ok()?;
    text.split_once('-').map(|(time, number)| (time.to_owned(), number.to_owned()))
}
