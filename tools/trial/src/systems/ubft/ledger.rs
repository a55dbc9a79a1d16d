//! The application of a run: it keeps every operation, and answers with how many there are. A replica's connector executes it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use synod_crypto::merkle;
use synod_quorum::NodeId;
use synod_ubft::batch::Slot;
use synod_ubft::replica::{Input, Output, Requested};
use synod_wire::Bytes;

/// The question that is answered by the count alone.
pub const COUNT: &[u8] = b"count";
/// Bytes of a chunk, about: several make a state.
const CHUNK: usize = 400;

/// An operation that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whose.
    pub session: u64,
    /// Its number within the session.
    pub id: u64,
    /// What was asked.
    pub op: Bytes,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    rows: Vec<Row>,
    kept: BTreeMap<Slot, Vec<Bytes>>,
}

/// The applications of all replicas, in their present lives.
pub type Ledgers = Rc<RefCell<BTreeMap<NodeId, Ledger>>>;

/// The result of an operation that is the `count`th.
#[must_use]
pub fn result(count: u64, op: &[u8]) -> Bytes {
    Bytes::from([&count.to_le_bytes()[..], op].concat())
}

/// The count in a result or an answer, and the rest.
#[must_use]
pub fn counted(result: &[u8]) -> Option<(u64, &[u8])> {
    let (count, rest) = result.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*count), rest))
}

impl Ledger {
    /// What was executed, in order.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn execute(&mut self, requests: Vec<Requested>) -> Vec<Bytes> {
        let mut replies = Vec::with_capacity(requests.len());
        for Requested { session, id, op } in requests {
            self.rows.push(Row { session, id, op: op.clone() });
            replies.push(result(self.rows.len() as u64, &op));
        }
        replies
    }

    fn chunks(&self) -> Vec<Bytes> {
        let mut chunks = vec![Vec::new()];
        for Row { session, id, op } in &self.rows {
            let length = u32::try_from(op.len()).unwrap_or(u32::MAX).to_le_bytes();
            if chunks.last().is_some_and(|chunk| chunk.len() > CHUNK) {
                chunks.push(Vec::new());
            }
            if let Some(chunk) = chunks.last_mut() {
                chunk.extend([&session.to_le_bytes()[..], &id.to_le_bytes(), &length, op].concat());
            }
        }
        chunks.into_iter().map(Bytes::from).collect()
    }

    /// Takes over a chunk; the first clears the state.
    fn restore(&mut self, index: u32, chunk: &[u8]) {
        if index == 0 {
            self.rows.clear();
        }
        let mut rest = chunk;
        while let Some((head, after)) = rest.split_first_chunk::<20>() {
            let number = |at: usize| {
                let bytes = head.get(at..at + 8).and_then(|bytes| bytes.first_chunk::<8>());
                bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
            };
            let length = head.last_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            let Some((op, after)) = after.split_at_checked(length as usize) else { return };
            self.rows.push(Row { session: number(0), id: number(8), op: Bytes::copy_from_slice(op) });
            rest = after;
        }
    }

    /// What a replica is to hear of what it told, if anything.
    pub fn answer(&mut self, output: Output) -> Option<Input> {
        match output {
            Output::Execute { slot, requests, .. } => {
                Some(Input::Executed { slot, replies: self.execute(requests) })
            }
            Output::Query { guest, id, question } => {
                let count = Bytes::copy_from_slice(&(self.rows.len() as u64).to_le_bytes());
                Some(Input::Answered { guest, id, value: (question.as_ref() == COUNT).then_some(count) })
            }
            Output::TakeSnapshot { low } => {
                let chunks = self.chunks();
                let leaves = chunks.iter().map(|chunk| merkle::leaf(chunk)).collect();
                self.kept.insert(low, chunks);
                Some(Input::Taken { low, leaves })
            }
            Output::DropSnapshot { low } => {
                self.kept.remove(&low);
                None
            }
            Output::NeedChunk { peer, low, index } => {
                let chunks = self.kept.get(&low);
                let bytes = chunks.and_then(|chunks| chunks.get(index as usize)).cloned();
                Some(Input::Chunk { peer, low, index, bytes })
            }
            Output::Install { low, index, count, chunk } => {
                self.restore(index, &chunk);
                (index.saturating_add(1) >= count).then_some(Input::Installed { low })
            }
            Output::Diverged { .. }
            | Output::Irreparable { .. }
            | Output::Ready(_)
            | Output::Stranded { .. }
            | Output::Broken(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use synod_machine::Wall;

    use super::*;

    fn execute(ledger: &mut Ledger, slot: u64, ops: &[&'static [u8]]) -> Vec<Bytes> {
        let requested =
            |(id, op): (u64, &&'static [u8])| Requested { session: 200, id, op: Bytes::from_static(op) };
        let requests = (1..).zip(ops).map(requested).collect();
        let draw = synod_crypto::Hash::ZERO;
        match ledger.answer(Output::Execute { slot: Slot(slot), time: Wall(1), draw, requests }) {
            Some(Input::Executed { replies, .. }) => replies,
            other => unreachable!("a slot is executed: {other:?}"),
        }
    }

    #[test]
    fn what_one_took_another_installs_and_both_count_alike() {
        let (mut one, mut two) = (Ledger::default(), Ledger::default());
        let long: &'static [u8] = &[7; 500];
        execute(&mut one, 0, &[b"a", long, b"b"]);
        execute(&mut two, 0, &[b"something else"]);
        let Some(Input::Taken { leaves, .. }) = one.answer(Output::TakeSnapshot { low: Slot(1) }) else {
            panic!("a snapshot is taken")
        };
        assert!(leaves.len() > 1);
        let count = u32::try_from(leaves.len()).expect("few");
        for index in 0..count {
            let need = Output::NeedChunk { peer: NodeId(1), low: Slot(1), index };
            let Some(Input::Chunk { bytes: Some(chunk), .. }) = one.answer(need) else {
                panic!("it is kept")
            };
            let told = two.answer(Output::Install { low: Slot(1), index, count, chunk });
            assert_eq!(told.is_some(), index + 1 == count);
        }
        assert_eq!(one.rows(), two.rows());
        assert_eq!(execute(&mut one, 1, &[b"c"]), execute(&mut two, 1, &[b"c"]));
        assert_eq!(counted(&result(4, b"c")), Some((4, &b"c"[..])));
    }
}
