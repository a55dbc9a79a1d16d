//! A small application over lanes: clients pay one another from wide purses, so that few clients fill many chunks.

use core::ops::Range;

use synod_crypto::Hash;
use synod_service::lanes::{Batch, Cell, Cells, Home, LaneApp, LaneTurn, State};
use synod_service::{At, Position, Wall};
use synod_wire::Bytes;

/// Purses of a chunk.
pub(crate) const CHUNK: u32 = 4;
/// What a purse holds at first.
pub(crate) const GRANT: u64 = 100;

/// Money, in a cell of 16 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Purse(pub(crate) u64);

impl Cell for Purse {
    const BYTES: usize = 16_384;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
        out.resize(out.len() + Self::BYTES - 8, 0);
    }

    fn get(bytes: &[u8]) -> Option<Self> {
        let (first, rest) = bytes.split_first_chunk::<8>()?;
        rest.iter().all(|byte| *byte == 0).then_some(Self(u64::from_le_bytes(*first)))
    }
}

/// Low 32 bits of an operation name the recipient, high ones are the amount. Code 0 is paid, 1 refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purses;

impl LaneApp for Purses {
    const STEPS: usize = 2;
    const CELLS: &'static [usize] = &[Purse::BYTES];
    const HOME: Home = Home::Sender;
    type Shard = Cells<Purse>;
    type Mail = (u64, u64);

    fn lens(&self, directory: u32) -> Vec<u64> {
        vec![u64::from(directory)]
    }

    fn open(&self, shard: &mut Cells<Purse>, _: usize, keys: Range<u64>) {
        for key in keys {
            let place = shard.place(key);
            *shard.get_mut(place).expect("a new key is here") = Purse(GRANT);
        }
    }

    fn step(&self, step: usize, turn: &mut LaneTurn<'_, Self>) {
        let purses = turn.layout().space(0);
        if step == 1 {
            for (to, amount) in turn.mail().flat_map(|(piece, _)| piece).copied() {
                let place = turn.shard.place(to);
                turn.shard.get_mut(place).expect("its lane holds the recipient").0 += amount;
            }
            return;
        }
        for entry in turn.entries() {
            let (to, amount) = (entry.operation & 0xffff_ffff, entry.operation >> 32);
            let place = turn.shard.place(u64::from(entry.id));
            let held = turn.shard.get(place).map_or(0, |purse| purse.0);
            let pays = to < purses.len && amount > 0 && amount <= held;
            if pays {
                turn.shard.get_mut(place).expect("the sender is here").0 -= amount;
                turn.post(purses.lane(to), (to, amount));
            }
            turn.answer(entry.index, u8::from(!pays));
        }
    }

    fn query(&self, state: &State<Self>, question: &[u8]) -> Option<Bytes> {
        let id = u64::from(u32::from_le_bytes(question.try_into().ok()?));
        let shard = state.shard(0, id)?;
        shard.get(shard.place(id)).map(|purse| Bytes::copy_from_slice(&purse.0.to_le_bytes()))
    }

    fn invariants(&self, state: &State<Self>) {
        let sum: u64 = state.shards().iter().flat_map(Cells::all).map(|purse| purse.0).sum();
        assert_eq!(sum, GRANT * state.layout().space(0).len, "money is neither made nor lost");
    }
}

pub(crate) fn at(position: u64) -> At {
    At { position: Position(position), time: Wall(0), draw: Hash::of(&position.to_le_bytes()) }
}

/// The batch of `height`, ordered at three times its height.
pub(crate) fn batch(height: u64, directory: u32, asked: &[(u32, u32, u32)]) -> Batch {
    let operation = |(_, to, amount): &(u32, u32, u32)| u64::from(*to) | u64::from(*amount) << 32;
    let operations = asked.iter().flat_map(|one| operation(one).to_le_bytes()).collect::<Vec<u8>>();
    let ids = asked.iter().map(|(id, ..)| *id).collect();
    Batch { height, at: at(3 * height), directory, ids, operations: operations.into(), skipped: vec![] }
}
