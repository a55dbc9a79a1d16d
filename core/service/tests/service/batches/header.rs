//! What a peer says of the size of a state costs nothing before the certified root proves it.

use core::ops::Range;

use synod_crypto::Hash;
use synod_crypto::merkle::{self, Tree};
use synod_machine::broadcast::Position;
use synod_machine::{Bounded, Condition, Effect, Event, Log, Machine, Recover, Rng, Time, To, Turn, Wall};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_service::batches::BatchTimer;
use synod_service::lanes::{Cell, Cells, Home, LaneApp, LaneTurn, State};
use synod_service::{
    BatchConfig, BatchExecutor, BatchInput, BatchLimits, BatchOutput, ClientMessage, FetchState, Part,
    StateChunk,
};
use synod_wire::{Blob, Bytes, List};

use super::world::keys;

/// A cell that takes as much memory as its encoding, so that no machine has room for those of all keys.
#[derive(Clone, Copy, Debug)]
struct Page([u8; 65_536]);

impl Default for Page {
    fn default() -> Self {
        Self([0; 65_536])
    }
}

impl Cell for Page {
    const BYTES: usize = 65_536;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn get(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

/// A page for each client, which begins with its number.
#[derive(Clone, Copy, Debug)]
struct Pages;

impl LaneApp for Pages {
    const STEPS: usize = 1;
    const CELLS: &'static [usize] = &[Page::BYTES];
    const HOME: Home = Home::Sender;
    type Shard = Cells<Page>;
    type Mail = ();

    fn lens(&self, directory: u32) -> Vec<u64> {
        vec![u64::from(directory)]
    }

    fn open(&self, shard: &mut Cells<Page>, _: usize, keys: Range<u64>) {
        for key in keys {
            let place = shard.place(key);
            shard.get_mut(place).expect("a new key is here").0[..8].copy_from_slice(&key.to_le_bytes());
        }
    }

    fn step(&self, _: usize, _: &mut LaneTurn<'_, Self>) {}

    fn query(&self, _: &State<Self>, _: &[u8]) -> Option<Bytes> {
        None
    }
}

type Behind = BatchExecutor<Pages>;

const POSITION: Position = Position(7);

/// Member 3 of four, which is told to take a state.
struct One {
    machine: Behind,
    rng: Rng,
    /// Who was asked for what.
    asked: Vec<(NodeId, FetchState)>,
    faults: Vec<(NodeId, &'static str)>,
    outputs: Vec<BatchOutput>,
}

impl One {
    fn new() -> Self {
        let member = |n| Member { key: keys(n).public(), power: 1 };
        let roster = Roster::new(Epoch(0), (0..4).map(member).collect()).expect("distinct keys");
        let (state, limits) = (State::new(Pages, 2, 0), BatchLimits::default());
        let config = BatchConfig { state, own: NodeId(3), roster, limits };
        let log = Log { condition: Condition::Clean, records: &mut core::iter::empty() };
        let machine = Behind::recover(config, log).expect("no records");
        let rng = Rng::new(1, NodeId(3), 0);
        Self { machine, rng, asked: Vec::new(), faults: Vec::new(), outputs: Vec::new() }
    }

    fn step(&mut self, event: Event<Behind>) {
        let mut effects = Vec::new();
        self.machine.step(event, &mut Turn::new(Time(1), Wall(0), &mut self.rng, &mut effects));
        self.machine.invariants();
        assert!(self.machine.bytes() <= self.machine.bytes_max(), "memory is above its formula");
        for effect in effects {
            match effect {
                Effect::Send { to: To::Node(to), message: ClientMessage::FetchState(fetch) } => {
                    self.asked.push((to, fetch));
                }
                Effect::Blame { peer, fault } => self.faults.push((peer, fault.name)),
                Effect::Output(output) => self.outputs.push(output),
                _ => {}
            }
        }
    }

    fn told(&mut self, from: NodeId, index: u32, bytes: Bytes, path: Vec<Hash>) {
        let bytes = Blob::try_from(bytes).expect("a chunk");
        let path = List::try_from(path).expect("a path");
        let chunk = StateChunk { position: POSITION, part: Part::App(index), bytes, path };
        self.step(Event::Message { from, message: ClientMessage::StateChunk(chunk) });
    }
}

#[test]
fn a_header_takes_no_memory_before_the_root_proves_it() {
    let state = State::new(Pages, 1, 2);
    let chunks: Vec<Bytes> = (0..state.chunks()).map(|index| state.chunk(index)).collect();
    let tree = Tree::new(chunks.iter().map(|chunk| merkle::leaf(chunk)).collect());
    let root = tree.root();
    let mut one = One::new();
    one.step(Event::Input(BatchInput::Jump { position: POSITION, height: 4, root }));
    let header = Part::App(0);
    assert_eq!(one.asked, [(NodeId(0), FetchState { position: POSITION, part: header })]);
    // 256 TiB, the most chunks that a state may have, and more than it may have.
    for keys in [1_u64 << 32, 249_999, 250_000] {
        let claimed = Bytes::copy_from_slice(&keys.to_le_bytes());
        for from in [NodeId::GUESTS, NodeId(NodeId::GUESTS.0 + 5), NodeId(2), NodeId(0)] {
            one.told(from, 0, claimed.clone(), Vec::new());
            one.told(from, 0, claimed.clone(), tree.path(0).expect("the first"));
        }
        assert!(one.machine.bytes() < 1 << 16, "nothing was made of it");
    }
    let of = |one: &One, named: &str| {
        let mut peers: Vec<NodeId> =
            one.faults.iter().filter(|fault| fault.1 == named).map(|fault| fault.0).collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    };
    assert_eq!(of(&one, "wrong_state_chunk"), [NodeId(0), NodeId(2)]);
    assert_eq!(of(&one, "out_of_role"), [NodeId::GUESTS, NodeId(NodeId::GUESTS.0 + 5)]);

    // The third is asked next; it is late, and its answer is as good as any.
    assert_eq!(one.asked.last().map(|(to, _)| *to), Some(NodeId(1)));
    one.step(Event::Timer(BatchTimer::Fetch));
    assert_ne!(one.asked.last().map(|(to, _)| *to), Some(NodeId(1)));
    one.asked.clear();
    for (index, chunk) in (0..).zip(&chunks) {
        let path = tree.path(index).expect("a chunk of the state");
        one.told(NodeId(1), index, chunk.clone(), path);
    }
    assert_eq!(one.asked.len(), 2, "the chunks behind the header");
    // Two lied and the third was late: everybody was asked in vain once.
    assert_eq!(one.outputs, [BatchOutput::Stuck, BatchOutput::Applied { position: POSITION, root }]);
    assert_eq!(one.machine.state().root(), root);
}
