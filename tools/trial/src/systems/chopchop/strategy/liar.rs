//! A server that lies in what it signs and in what it hands out (B9, B15, B16).

use synod_chopchop::config::Cluster;
use synod_chopchop::dedup::Reason;
use synod_chopchop::message::{ExceptionList, ServerMessage, Shard, StoreMessage};
use synod_chopchop::statement::{BlsSignatureBytes, Delivered};
use synod_chopchop::vocabulary::Message;
use synod_crypto::{Hash, Keys, Statement};
use synod_machine::Never;
use synod_sim::{Act, Deed, Family, Strategy};
use synod_wire::{Blob, Bytes};

use super::super::sight;
use super::sealed;

/// The lying server.
pub(super) struct Liar {
    cluster: Cluster,
    family: Family,
}

impl Liar {
    pub(super) const fn new(cluster: Cluster, family: Family) -> Self {
        Self { cluster, family }
    }

    fn sign(&self, keys: &Keys, statement: &impl Statement) -> Option<BlsSignatureBytes> {
        let share = keys.sign_bls(&self.cluster.scope(), statement)?;
        Some(BlsSignatureBytes(share.to_bytes()))
    }

    fn server(&self, message: ServerMessage, keys: &Keys, act: &mut Act<'_>) -> Option<ServerMessage> {
        Some(match message {
            ServerMessage::Delivered(mut verdict) => {
                let said: &mut Delivered = &mut verdict.statement;
                match act.draws.below(4) {
                    0 => said.height += 1,
                    1 => said.digest = Hash::of(b"another"),
                    2 => said.exceptions_root = Hash::of(b"some"),
                    _ => {
                        said.exc_count = 1;
                        verdict.exceptions = ExceptionList::Pairs(vec![(0, Reason::Stale)]);
                    }
                }
                verdict.signature = self.sign(keys, &verdict.statement)?;
                ServerMessage::Delivered(verdict)
            }
            ServerMessage::Height(mut signed) => {
                signed.statement.height += 1 + act.draws.below(100);
                signed.signature = self.sign(keys, &signed.statement)?;
                ServerMessage::Height(signed)
            }
            ServerMessage::State(mut signed) => {
                signed.statement.next_k += act.draws.below(3);
                signed.statement.tag ^= act.draws.below(3);
                signed.signature = self.sign(keys, &signed.statement)?;
                ServerMessage::State(signed)
            }
            ServerMessage::Mark(mut mark) => {
                mark.height += act.draws.below(20);
                ServerMessage::Mark(mark)
            }
            ServerMessage::Cards(mut cards) => {
                cards.members.reverse();
                cards.length += u32::try_from(act.draws.below(2)).unwrap_or(0);
                ServerMessage::Cards(cards)
            }
            _ => return None,
        })
    }

    fn store(message: StoreMessage, act: &mut Act<'_>) -> Option<StoreMessage> {
        Some(match message {
            StoreMessage::Shard(shard) => match act.draws.below(2) {
                0 => StoreMessage::Shard(Shard { digest: Hash::of(b"another"), ..shard }),
                _ => {
                    let mut other = shard;
                    other.signature.0[5] ^= 1;
                    StoreMessage::Shard(other)
                }
            },
            StoreMessage::Piece(mut piece) => {
                let mut bytes = piece.bytes.bytes().to_vec();
                if let Some(byte) = bytes.last_mut() {
                    *byte ^= 0x40;
                }
                piece.bytes = Blob::try_from(Bytes::from(bytes)).ok()?;
                match act.draws.below(3) {
                    0 => StoreMessage::Gone { digest: piece.digest, stable: act.draws.below(1_000) },
                    _ => StoreMessage::Piece(piece),
                }
            }
            _ => return None,
        })
    }

    fn other(&self, body: &Bytes, act: &mut Act<'_>) -> Option<Bytes> {
        let all = act.keys;
        let keys = all.get(&act.node)?;
        let message: Message<Never> = match sight::opened(body)? {
            Message::Server(message) => Message::Server(self.server(message, keys, act)?),
            Message::Store(message) => Message::Store(Self::store(message, act)?),
            Message::Client(_) | Message::Ordering(_) => return None,
        };
        Some(sealed(&message))
    }
}

impl Strategy for Liar {
    fn name(&self) -> &'static str {
        self.family.name()
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        act.split_sends();
        let mut deeds = core::mem::take(act.deeds);
        let mut changed = false;
        for deed in &mut deeds {
            if let Deed::Send { body, .. } = deed
                && act.draws.chance(400_000)
                && let Some(other) = self.other(body, act)
            {
                *body = other;
                changed = true;
            }
        }
        *act.deeds = deeds;
        changed
    }
}
