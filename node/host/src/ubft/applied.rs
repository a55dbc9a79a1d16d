//! An application behind a replica of uBFT: a slot is executed where it is told of, at once.
//!
//! *Why here.* A replica tells one slot at a time and goes on when it has the results, so a machine between the two would only add a hop.
//! *Bounds.* One application, the results of one slot, and copies of the state: the first one, and as many as the replica has taken and not
//! dropped.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use synod_crypto::{Hash, merkle};
use synod_machine::Unrecoverable;
use synod_machine::broadcast::Position;
use synod_net::Handle;
use synod_service::{App, At, Replies, Request};
use synod_ubft::batch::Slot;
use synod_ubft::replica::{Input, Output};
use synod_wire::Bytes;

use super::settings::RESULT_MAX;

struct State<P> {
    app: P,
    /// Slots below were executed.
    executed: u64,
    replies: Replies,
    /// Chunks of the state before the first slot.
    initial: Vec<Bytes>,
    /// Chunks of later states, by the first slot that they do not have.
    kept: BTreeMap<Slot, Vec<Bytes>>,
}

impl<P: App> State<P> {
    /// The chunks of the present state.
    fn chunks(app: &mut P) -> Vec<Bytes> {
        app.root();
        (0..app.chunks()).map(|index| app.chunk(index)).collect()
    }

    /// Takes over a chunk of the state before `low`; true when that was the last.
    fn install(
        &mut self,
        low: Slot,
        (index, count): (u32, u32),
        chunk: &[u8],
    ) -> Result<bool, Unrecoverable> {
        if count == 0 {
            for (index, chunk) in (0..).zip(&self.initial) {
                self.app.restore(index, chunk)?;
            }
        } else {
            self.app.restore(index, chunk)?;
        }
        let is_last = index.saturating_add(1) >= count;
        if is_last {
            self.executed = low.0;
        }
        Ok(is_last)
    }
}

/// See the module.
pub struct Applied<P> {
    state: Mutex<State<P>>,
    /// What a request is answered with whose result is too long to be kept.
    too_long: Bytes,
}

/// How far an application is, whatever it is.
pub(crate) trait Standing: Send + Sync {
    /// The first slot that was not executed, and the digest of the state before it; `None` where nothing can be said of it any more.
    fn standing(&self) -> Option<(u64, Hash)>;

    /// The node runs: who waits for it is told whom to give inputs.
    fn begin(&self, _handle: &Handle) {}

    /// The node has ended.
    fn end(&self) {}
}

impl<P: App> Applied<P> {
    /// An application before the first slot. `too_long` stands for results above 16 KiB.
    #[must_use]
    pub fn new(mut app: P, too_long: Bytes) -> Self {
        let initial = State::chunks(&mut app);
        let state = State { app, executed: 0, replies: Replies::default(), initial, kept: BTreeMap::new() };
        Self { state: Mutex::new(state), too_long }
    }

    fn state(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a replica is to hear of what it told, if anything.
    ///
    /// # Errors
    /// A certified snapshot is none of this application.
    pub fn answer(&self, output: Output) -> Result<Option<Input>, Unrecoverable> {
        Ok(match output {
            Output::Execute { slot, time, draw, requests } => {
                let at = At { position: Position(slot.0), time, draw };
                let mut state = self.state();
                let State { app, executed, replies, .. } = &mut *state;
                let mut asked = requests.iter().map(|requested| Request {
                    session: requested.session,
                    sequence: requested.id,
                    body: &requested.op,
                });
                app.execute(&at, &mut asked, replies);
                *executed = slot.0.saturating_add(1);
                let replies = replies.drain().map(|reply| self.bounded(reply)).collect();
                Some(Input::Executed { slot, replies })
            }
            Output::Query { guest, id, question } => {
                let value = self.state().app.query(&question).map(|value| self.bounded(value));
                Some(Input::Answered { guest, id, value })
            }
            Output::TakeSnapshot { low } => {
                let mut state = self.state();
                let chunks = State::chunks(&mut state.app);
                let leaves = chunks.iter().map(|chunk| merkle::leaf(chunk)).collect();
                state.kept.insert(low, chunks);
                Some(Input::Taken { low, leaves })
            }
            Output::DropSnapshot { low } => {
                self.state().kept.remove(&low);
                None
            }
            Output::NeedChunk { peer, low, index } => {
                let state = self.state();
                let bytes = state.kept.get(&low).and_then(|chunks| chunks.get(index as usize)).cloned();
                Some(Input::Chunk { peer, low, index, bytes })
            }
            Output::Install { low, index, count, chunk } => {
                let is_last = self.state().install(low, (index, count), &chunk)?;
                is_last.then_some(Input::Installed { low })
            }
            Output::Diverged { .. }
            | Output::Irreparable { .. }
            | Output::Ready(_)
            | Output::Stranded { .. }
            | Output::Broken(_) => None,
        })
    }

    fn bounded(&self, reply: Bytes) -> Bytes {
        if reply.len() > RESULT_MAX { self.too_long.clone() } else { reply }
    }
}

impl<P: App> Standing for Applied<P> {
    fn standing(&self) -> Option<(u64, Hash)> {
        let mut state = self.state();
        Some((state.executed, state.app.root()))
    }
}

#[cfg(test)]
mod tests {
    use synod_kv::{Kv, Verb, operation};
    use synod_machine::Wall;
    use synod_quorum::NodeId;
    use synod_ubft::replica::Requested;

    use super::*;

    fn words(words: &[&[u8]]) -> Bytes {
        let mut body = Vec::new();
        let verb = Verb::find(words[0]).expect("a verb of the store");
        operation::write_command(verb, words[1..].iter().copied(), &mut body);
        body.into()
    }

    fn slot(number: u64, ops: &[Bytes]) -> Output {
        let request = |(id, op): (u64, &Bytes)| Requested { session: 200, id, op: op.clone() };
        let requests = (1..).zip(ops).map(request).collect();
        Output::Execute { slot: Slot(number), time: Wall(1), draw: Hash::ZERO, requests }
    }

    fn replies(applied: &Applied<Kv>, output: Output) -> Vec<Bytes> {
        match applied.answer(output) {
            Ok(Some(Input::Executed { replies, .. })) => replies,
            other => unreachable!("a slot is executed: {other:?}"),
        }
    }

    fn executed(applied: &Applied<Kv>) -> u64 {
        applied.standing().expect("it is known").0
    }

    fn kv() -> Applied<Kv> {
        Applied::new(Kv::new(synod_kv::Config::default()), Bytes::from_static(b"-too long\r\n"))
    }

    #[test]
    fn equal_slots_give_equal_results_and_states_and_others_do_not() {
        let (one, two, three) = (kv(), kv(), kv());
        let ops = [words(&[b"SET", b"a", b"1"]), words(&[b"APPEND", b"a", b"2"])];
        assert_eq!(executed(&one), 0);
        assert_eq!(replies(&one, slot(4, &ops)), replies(&two, slot(4, &ops)));
        replies(&three, slot(4, &ops[..1]));
        assert_eq!(one.standing(), two.standing());
        assert_eq!((executed(&one), executed(&three)), (5, 5));
        assert_ne!(one.standing(), three.standing());
    }

    #[test]
    fn a_result_that_no_session_keeps_is_an_error_of_the_application() {
        let applied = kv();
        let long = vec![b'x'; RESULT_MAX];
        let told = replies(&applied, slot(0, &[words(&[b"SET", b"a", &long]), words(&[b"GET", b"a"])]));
        assert_eq!(told, [Bytes::from_static(b"+OK\r\n"), Bytes::from_static(b"-too long\r\n")]);
        let query = Output::Query { guest: NodeId::GUESTS, id: 3, question: words(&[b"GET", b"a"]) };
        let value = Some(Bytes::from_static(b"-too long\r\n"));
        assert_eq!(applied.answer(query), Ok(Some(Input::Answered { guest: NodeId::GUESTS, id: 3, value })));
        assert_eq!(applied.answer(Output::Ready(true)), Ok(None));
    }

    #[test]
    fn what_one_took_another_installs_and_both_go_on_alike() {
        let (one, two) = (kv(), kv());
        replies(&one, slot(0, &[words(&[b"SET", b"a", b"1"])]));
        replies(&two, slot(0, &[words(&[b"SET", b"b", b"another"])]));
        let low = Slot(1);
        let Ok(Some(Input::Taken { leaves, .. })) = one.answer(Output::TakeSnapshot { low }) else {
            panic!("a snapshot is taken")
        };
        let taken = one.standing();
        replies(&one, slot(1, &[words(&[b"SET", b"a", b"2"])]));
        let count = u32::try_from(leaves.len()).expect("few");
        for (index, leaf) in (0..).zip(&leaves) {
            let need = Output::NeedChunk { peer: NodeId(1), low, index };
            let Ok(Some(Input::Chunk { bytes: Some(chunk), .. })) = one.answer(need) else {
                panic!("chunk {index} is there")
            };
            assert_eq!(merkle::leaf(&chunk), *leaf, "what is served is what was taken");
            let told = two.answer(Output::Install { low, index, count, chunk });
            assert_eq!(told, Ok((index + 1 == count).then_some(Input::Installed { low })));
        }
        assert_eq!(two.standing(), taken);
        replies(&two, slot(1, &[words(&[b"SET", b"a", b"2"])]));
        assert_eq!(two.standing(), one.standing());
        assert_eq!(one.answer(Output::DropSnapshot { low }), Ok(None));
        let gone = Input::Chunk { peer: NodeId(1), low, index: 0, bytes: None };
        assert_eq!(one.answer(Output::NeedChunk { peer: NodeId(1), low, index: 0 }), Ok(Some(gone)));
    }

    #[test]
    fn a_state_may_be_the_one_before_the_first_slot_and_a_chunk_of_nobody_is_refused() {
        let (one, fresh) = (kv(), kv());
        replies(&one, slot(0, &[words(&[b"SET", b"a", b"1"])]));
        let install = |count, chunk| Output::Install { low: Slot(0), index: 0, count, chunk };
        assert_eq!(one.answer(install(0, Bytes::new())), Ok(Some(Input::Installed { low: Slot(0) })));
        assert_eq!(one.standing(), fresh.standing());
        assert!(one.answer(install(1, Bytes::from_static(b"no chunk"))).is_err());
    }
}
