//! The application of trial runs: its state is a digest of everything it executed, and it tells the oracles each
//! command it executes.

use std::sync::{Arc, Mutex};

use synod_crypto::{Hash, Hasher, merkle};
use synod_machine::Unrecoverable;
use synod_service::{App, At, Replies, Request};
use synod_wire::Bytes;

use crate::oracle::ExecutedSeen;

/// Pages of state beside the first chunk; each is a chunk of its own, so that snapshots have several.
const PAGES: usize = 3;
/// Bytes of a reply to a command that asks for a long one: above what sessions keep.
const LONG_REPLY: usize = 6_000;
/// The first byte of a command that asks for a long reply.
pub const LONG: u8 = b'L';
/// The question, and the command, that asks for the number of commands executed.
pub const COUNT: &[u8] = b"count";

/// Where applications leave what they executed; the checker takes it after each event.
pub type Executions = Arc<Mutex<Vec<ExecutedSeen>>>;

/// Executes anything: the state is a chain of digests, the reply the newest of them.
#[derive(Clone, Debug)]
pub struct RecordingApp {
    count: u64,
    chain: Hash,
    pages: [Hash; PAGES],
    seen: Executions,
}

impl RecordingApp {
    /// An application that has executed nothing and reports to `seen`.
    #[must_use]
    pub fn new(seen: Executions) -> Self {
        Self { count: 0, chain: Hash::ZERO, pages: [Hash::ZERO; PAGES], seen }
    }

    fn one(&mut self, at: &At, request: &Request<'_>) -> Bytes {
        let body = Hash::of(request.body);
        let mut chain = Hasher::new("synod trial chain");
        chain.add(&self.chain.0).add(&at.position.0.to_le_bytes()).add(&at.time.0.to_le_bytes());
        chain.add(&request.session.to_le_bytes()).add(&request.sequence.to_le_bytes()).add(&body.0);
        self.chain = chain.finish();
        self.count += 1;
        let page = usize::try_from(self.count % PAGES as u64).unwrap_or(0);
        self.pages[page] = self.chain;
        let length = if request.body.first() == Some(&LONG) { LONG_REPLY } else { 16 };
        let reply: Bytes = if request.body == COUNT {
            Bytes::copy_from_slice(&self.count.to_le_bytes())
        } else {
            self.chain.0.iter().copied().cycle().take(length).collect()
        };
        let executed = ExecutedSeen {
            position: at.position.0,
            session: request.session,
            sequence: request.sequence,
            body,
            reply: Hash::of(&reply),
            state: self.chain,
            index: self.count,
        };
        match self.seen.lock() {
            Ok(mut seen) => seen.push(executed),
            Err(_) => unreachable!("a run has one thread"),
        }
        reply
    }
}

impl App for RecordingApp {
    fn execute(&mut self, at: &At, requests: &mut dyn Iterator<Item = Request<'_>>, replies: &mut Replies) {
        for request in requests {
            let reply = self.one(at, &request);
            replies.push(reply);
        }
    }

    fn query(&self, question: &[u8]) -> Option<Bytes> {
        (question == COUNT).then(|| Bytes::copy_from_slice(&self.count.to_le_bytes()))
    }

    fn root(&mut self) -> Hash {
        let leaves = (0..self.chunks()).map(|index| merkle::leaf(&self.chunk(index))).collect();
        merkle::Tree::new(leaves).root()
    }

    fn chunks(&self) -> u32 {
        1 + u32::try_from(PAGES).unwrap_or(0)
    }

    fn chunk(&self, index: u32) -> Bytes {
        match usize::try_from(index).ok().and_then(|index| index.checked_sub(1)) {
            None => Bytes::from([&self.count.to_le_bytes()[..], &self.chain.0].concat()),
            Some(page) => {
                self.pages.get(page).map_or_else(Bytes::new, |page| Bytes::copy_from_slice(&page.0))
            }
        }
    }

    fn restore(&mut self, index: u32, chunk: &[u8]) -> Result<(), Unrecoverable> {
        let refuse = || Unrecoverable(format!("chunk {index} is not of this application"));
        let page = usize::try_from(index).ok().and_then(|index| index.checked_sub(1));
        let Some(page) = page else {
            let (count, chain) = chunk.split_first_chunk::<8>().ok_or_else(refuse)?;
            self.count = u64::from_le_bytes(*count);
            self.chain = Hash(chain.try_into().map_err(|_| refuse())?);
            return Ok(());
        };
        let bytes = chunk.try_into().map_err(|_| refuse())?;
        *self.pages.get_mut(page).ok_or_else(refuse)? = Hash(bytes);
        Ok(())
    }

    fn bytes(&self) -> u64 {
        256
    }
}
