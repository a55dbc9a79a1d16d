//! The same application for ordering layers that order requests.

use std::collections::BTreeSet;

use synod_crypto::{Hash, merkle};
use synod_wire::Bytes;

use super::state::freeze;
use super::{Batch, LaneApp, OPERATION_BYTES, State, UNREADABLE};
use crate::app::{App, At, Replies, Request};
use synod_machine::Unrecoverable;

/// A [`LaneApp`] as an [`App`]: the requests of one entry, of eight bytes each, are a batch, whose clients are the
/// numbers of their sessions. Where a session stands a second time in an entry, a further batch begins. A session beyond
/// the directory is a client without account. Replies are codes of one byte.
#[derive(Debug)]
pub struct Lanes<P: LaneApp> {
    state: State<P>,
    lanes: u8,
    directory: u32,
    leaves: Vec<Hash>,
}

impl<P: LaneApp> Lanes<P> {
    /// The application under a directory of `directory` clients, in `lanes` lanes, which never change a result.
    #[must_use]
    pub fn new(app: P, lanes: u8, directory: u32) -> Self {
        Self { state: State::new(app, lanes, directory), lanes, directory, leaves: Vec::new() }
    }

    /// The state.
    #[must_use]
    pub const fn state(&self) -> &State<P> {
        &self.state
    }

    /// Executes requests of distinct clients; codes in the order of the requests.
    fn batch(&mut self, at: &At, requests: &[(u32, u64)]) -> Vec<u8> {
        let mut order: Vec<(u32, usize)> =
            requests.iter().enumerate().map(|(place, (id, _))| (*id, place)).collect();
        order.sort_unstable();
        let asked = |(_, place): &(u32, usize)| requests.get(*place).map_or(0, |(_, asked)| *asked);
        let operations = order.iter().flat_map(|entry| asked(entry).to_le_bytes()).collect::<Vec<u8>>();
        let batch = Batch {
            height: 0,
            at: *at,
            directory: self.directory,
            ids: order.iter().map(|(id, _)| *id).collect(),
            operations: operations.into(),
            skipped: Vec::new(),
        };
        let mut codes = vec![UNREADABLE; requests.len()];
        for ((_, place), code) in order.iter().zip(self.state.execute(&batch)) {
            if let Some(answer) = codes.get_mut(*place) {
                *answer = code;
            }
        }
        codes
    }
}

impl<P: LaneApp> App for Lanes<P> {
    fn execute(&mut self, at: &At, requests: &mut dyn Iterator<Item = Request<'_>>, replies: &mut Replies) {
        let mut seen = BTreeSet::new();
        let mut group = Vec::new();
        let mut answer = |codes: Vec<u8>| {
            codes.into_iter().for_each(|code| replies.push(Bytes::copy_from_slice(&[code])));
        };
        for request in requests {
            let client = u32::try_from(request.session).ok();
            let operation = <[u8; OPERATION_BYTES]>::try_from(request.body).map(u64::from_le_bytes).ok();
            let (Some(client), Some(operation)) = (client, operation) else {
                answer(self.batch(at, &core::mem::take(&mut group)));
                seen.clear();
                answer(vec![UNREADABLE]);
                continue;
            };
            if !seen.insert(client) {
                answer(self.batch(at, &core::mem::take(&mut group)));
                seen = BTreeSet::from([client]);
            }
            group.push((client, operation));
        }
        answer(self.batch(at, &group));
    }

    fn query(&self, question: &[u8]) -> Option<Bytes> {
        self.state.query(question)
    }

    fn root(&mut self) -> Hash {
        let chunks = self.state.chunks() as usize;
        let layout = self.state.layout().clone();
        let mut shards = self.state.take();
        self.leaves.resize(chunks, Hash::ZERO);
        for (index, chunk) in freeze::<P>(&layout, &mut shards) {
            if let Some(leaf) = self.leaves.get_mut(index as usize) {
                *leaf = merkle::leaf(&chunk);
            }
        }
        self.state.put(shards);
        if let Some(leaf) = self.leaves.first_mut() {
            *leaf = merkle::leaf(&self.state.header());
        }
        merkle::Tree::new(self.leaves.clone()).root()
    }

    fn chunks(&self) -> u32 {
        self.state.chunks()
    }

    fn chunk(&self, index: u32) -> Bytes {
        self.state.chunk(index)
    }

    fn restore(&mut self, index: u32, chunk: &[u8]) -> Result<(), Unrecoverable> {
        let refused = || Unrecoverable(format!("chunk {index} is none of this application"));
        if index == 0 {
            let app = self.state.app().clone();
            self.state = State::of_header(app, self.lanes, chunk).ok_or_else(refused)?;
            self.leaves = vec![Hash::ZERO];
            return Ok(());
        }
        if !self.state.adopt(index, chunk) {
            return Err(refused());
        }
        let at = index as usize;
        if self.leaves.len() <= at {
            self.leaves.resize(at + 1, Hash::ZERO);
        }
        if let Some(leaf) = self.leaves.get_mut(at) {
            *leaf = merkle::leaf(chunk);
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.state.bytes() + 32 * self.leaves.len() as u64
    }

    fn invariants(&self) {
        self.state.invariants();
    }
}
