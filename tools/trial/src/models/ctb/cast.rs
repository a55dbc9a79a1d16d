//! Who is there, and what the broadcaster can say.

use std::sync::Arc;

use synod_crypto::{Hash, Keys};
use synod_machine::{Condition, Log, Recover as _};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_service::memory::{MemoryConfig, MemoryNode};
use synod_sim::{Crypto, Keyring};
use synod_ubft::batch::View;
use synod_ubft::ctb::{Message, Told, TwoMessages};
use synod_ubft::{Config, Memory, Parameters, Statement};
use synod_wire::Bytes;

/// Replicas.
const REPLICAS: u32 = 3;
/// The one who broadcasts, and lies.
pub(super) const LIAR: NodeId = NodeId(0);
/// The least that a configuration takes.
const TAIL: u32 = 16;
/// Two numbers of one place of the tail, and one of another.
pub(super) const NUMBERS: [u64; 3] = [16, 32, 1];
/// The same where promises are merged: only what is next in its stream is promised, first number 1.
const FROM_FIRST: [u64; 3] = [1, 17, 2];
/// Things that the liar can say of one number: two words of two messages to two receivers.
pub(super) const SAYINGS: u8 = 8;
/// The two messages.
const MESSAGES: [&[u8]; 2] = [b"one", b"other"];

/// How replicas call a memory node.
pub(super) fn memory_id(at: u8) -> NodeId {
    NodeId(NodeId::GUESTS.0 + u32::from(at))
}

/// The keys and names that all runs share.
pub(super) struct Cast {
    keyring: Keyring,
    roster: Arc<Roster>,
    memory: u8,
    is_merged: bool,
}

impl Cast {
    pub(super) fn new(memory: u8, is_merged: bool) -> Self {
        let keyring = Keyring::new(Crypto::Toy, 1);
        let member = |id| Member { key: keyring.public(u64::from(id)), power: 1 };
        let Ok(roster) = Roster::new(Epoch(0), (0..REPLICAS).map(member).collect()) else {
            unreachable!("three replicas with keys of their own");
        };
        Self { keyring, roster: Arc::new(roster), memory, is_merged }
    }

    pub(super) fn keys(&self, replica: NodeId) -> Keys {
        self.keyring.keys(u64::from(replica.0))
    }

    pub(super) fn config(&self, me: NodeId) -> Config {
        Config {
            cluster: Hash::of(b"synod model ctb"),
            epoch: Epoch(0),
            me,
            roster: Arc::clone(&self.roster),
            first_view: View(0),
            memory: (0..self.memory).map(|at| Memory { node: memory_id(at), boot: 1 }).collect(),
            parameters: Parameters { tail: TAIL, merge_promises: self.is_merged, ..Parameters::default() },
        }
    }

    pub(super) fn node() -> MemoryNode {
        let registers = (REPLICAS - 1) * TAIL;
        let config = MemoryConfig { members: REPLICAS, faulty: 1, registers, quota: u32::MAX };
        let log = Log { condition: Condition::Clean, records: &mut core::iter::empty() };
        match MemoryNode::recover(config, log) {
            Ok(node) => node,
            Err(refused) => unreachable!("an empty log is a fresh memory node: {refused}"),
        }
    }

    /// Which receiver hears a saying.
    pub(super) const fn hearer(saying: u8) -> NodeId {
        NodeId(1 + (saying & 1) as u32)
    }

    /// Which of the two messages a saying is of.
    pub(super) const fn is_other(saying: u8) -> bool {
        saying >> 2 & 1 == 1
    }

    /// A saying: LOCK or SIGNED of a number and a message.
    pub(super) fn say(&self, saying: u8) -> Message {
        let numbers = if self.is_merged { FROM_FIRST } else { NUMBERS };
        let k = numbers.get(usize::from(saying / SAYINGS)).copied().unwrap_or(1);
        let body = Bytes::from_static(MESSAGES[usize::from(Self::is_other(saying))]);
        if saying >> 1 & 1 == 0 {
            return Message::Lock { k, body: body.try_into().unwrap_or_default() };
        }
        let (config, digest) = (self.config(LIAR), Hash::of(&body));
        let statement = Statement::Broadcast { signer: 0, k, digest };
        let signature = Box::new(self.keys(LIAR).sign(config.scope(), LIAR, statement).signature);
        Message::Signed { broadcaster: 0, k, digest, signature, body: body.try_into().ok() }
    }

    /// What a receiver says that it locked, once more and without a promise, when it cannot leave its view (4.18).
    pub(super) fn locked(k: u64, message: u8) -> Message {
        let body = Bytes::from_static(MESSAGES[usize::from(message != 0)]);
        let told = Told::Raw(body.try_into().unwrap_or_default());
        Message::Locked { broadcaster: 0, k, told, promise: false }
    }

    /// Which of the two messages a body is.
    pub(super) fn message(body: &[u8]) -> Option<u8> {
        MESSAGES.iter().position(|message| *message == body).and_then(|at| u8::try_from(at).ok())
    }

    /// Whether two signatures prove that the broadcaster lied.
    pub(super) fn is_proof(&self, proof: &TwoMessages) -> bool {
        let config = self.config(NodeId(1));
        let is_good = |statement, signature| {
            config
                .claim(statement, signature)
                .is_some_and(|claim| claim.verify(&self.keys(NodeId(1))).is_ok())
        };
        let (Statement::Broadcast { k, digest, .. }, Statement::Broadcast { k: of, digest: other, .. }) =
            (proof.one, proof.other)
        else {
            return false;
        };
        k == of && digest != other && is_good(proof.one, proof.first) && is_good(proof.other, proof.second)
    }
}
