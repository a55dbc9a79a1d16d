//! The application of a run: a chain of digests over what was delivered, durable at every checkpoint.
//!
//! *Why.* Chop Chop is tested here, not its applications. This one has a state that depends on every delivered entry and
//! on their order, so that two servers with equal roots delivered the same.
//!
//! *Bounds.* One digest per height and life; checkpoints of all lives.

use std::collections::BTreeMap;

use synod_chopchop::server::{Apply, ServerInput, ServerOutput};
use synod_crypto::{Hash, Hasher};
use synod_machine::{Bounded, Event, Log, Machine, Never, QueueSpec, Record, Recover, Turn, Unrecoverable};
use synod_wire::wire;

wire! {
    /// The state at a checkpoint.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Kept {
        /// Batches delivered there, genesis included.
        pub height: u64,
        /// The state.
        pub root: Hash,
    }
}

impl Record for Kept {}

/// The state behind a batch.
#[must_use]
pub fn behind(before: &Hash, apply: &Apply) -> Hash {
    let mut hasher = Hasher::new("synod trial keeper");
    hasher.add(&before.0).add(&apply.height.to_le_bytes()).add(&apply.position.0.to_le_bytes());
    for (index, entry) in (0_u32..).zip(apply.batch.columns().entries()) {
        if apply.exceptions.reason(index).is_none() {
            hasher.add(&entry.id.to_le_bytes()).add(&[u8::from(entry.parity)]).add(entry.message);
        }
    }
    hasher.finish()
}

/// The application.
#[derive(Clone, Debug, Default)]
pub struct Keeper {
    states: BTreeMap<u64, Hash>,
    durable: BTreeMap<u64, Hash>,
}

impl Keeper {
    fn at(&self, height: u64) -> Hash {
        self.states.range(..=height).next_back().map_or(Hash::ZERO, |(_, root)| *root)
    }
}

impl Machine for Keeper {
    type Input = ServerOutput;
    type Message = Never;
    type Timer = ();
    type Record = Kept;
    type Job = Never;
    type Output = ServerInput;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        let Event::Input(input) = event else { return };
        match input {
            ServerOutput::Apply(apply) => {
                // After a restart the server begins again behind its last checkpoint.
                drop(self.states.split_off(&apply.height));
                let root = behind(&self.at(apply.height), &apply);
                self.states.insert(apply.height, root);
                if apply.awaited {
                    turn.output(ServerInput::Executed { height: apply.height });
                }
            }
            ServerOutput::Checkpoint { position, height, .. } => {
                let root = self.at(height);
                turn.persist(Kept { height, root });
                self.durable.insert(height, root);
                turn.output(ServerInput::Applied { position, root });
            }
            ServerOutput::Jump { position, height, root } => {
                drop(self.states.split_off(&height));
                self.states.insert(height, root);
                turn.persist(Kept { height, root });
                self.durable.insert(height, root);
                turn.output(ServerInput::Applied { position, root });
            }
            ServerOutput::Store(_) | ServerOutput::FalseWitness { .. } => {}
        }
    }
}

impl Bounded for Keeper {
    fn bytes(&self) -> u64 {
        0
    }
    fn bytes_max(&self) -> u64 {
        0
    }
}

impl Recover for Keeper {
    type Config = ();

    fn queues((): &()) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }

    fn recover((): (), log: Log<'_, Kept>) -> Result<Self, Unrecoverable> {
        let durable: BTreeMap<u64, Hash> = log.records.map(|kept| (kept.height, kept.root)).collect();
        Ok(Self { states: durable.clone(), durable })
    }

    fn snapshot(&self, put: &mut dyn FnMut(Kept)) {
        self.durable.iter().map(|(height, root)| Kept { height: *height, root: *root }).for_each(put);
    }
}
