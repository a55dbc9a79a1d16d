//! Who is there, what the liar can say, and how the real replica starts again and comes to the next epoch.

use std::sync::Arc;

use synod_crypto::{Hash, Keys, Signature};
use synod_machine::testing::effects;
use synod_machine::{Condition, Effect, Event, Job as _, Log, Message as _, Recover as _, Time};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_service::memory::{MemoryConfig, MemoryNode};
use synod_sim::{Crypto, Keyring};
use synod_ubft::batch::{Auth, Batch, Op, Request, Slot, View};
use synod_ubft::certificate::{Certificate, Certified, Checkpoint};
use synod_ubft::epoch::Configuration;
use synod_ubft::message::{Message, Standing};
use synod_ubft::replica::{Consensus, Incarnation, Replica, ReplicaConfig, Word};
use synod_ubft::sessions::SessionLimits;
use synod_ubft::stream::Low;
use synod_ubft::{Body, CheckpointBy, Config, Memory, Parameters, Statement, ctb};
use synod_wire::{Bytes, List, Wire as _};

use super::run::{Bug, Instance};
use super::seat::Sent;

/// Replicas.
pub(super) const REPLICAS: u8 = 3;
/// The leader of both epochs, who lies.
pub(super) const LIAR: u8 = 0;
/// The one slot that is left of epoch 0.
pub(super) const LAST: Slot = Slot(31);
/// Where epoch 0 ends.
pub(super) const END: Slot = Slot(32);
/// Time stands still.
pub(super) const NOW: Time = Time(1_000_000_000);
/// Events of one step; a machine that does not come to rest is a bug.
pub(super) const EVENTS_MAX: u32 = 1_000;
const TAIL: u32 = 16;
const VIEW: View = View(0);

/// What the liar proposes: two batches for the last slot of epoch 0, one for the first of epoch 1, and one for the same slot in epoch 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proposal {
    One,
    Other,
    Behind,
    Beyond,
}

impl Proposal {
    pub(super) const fn slot(self) -> Slot {
        match self {
            Self::One | Self::Other => LAST,
            Self::Behind | Self::Beyond => END,
        }
    }

    fn batch(self) -> Batch {
        let name: &[u8] = match self {
            Self::One => b"one",
            Self::Other => b"other",
            Self::Behind => b"behind the end",
            Self::Beyond => b"beyond the end",
        };
        let op = Op::Inline(Bytes::from_static(name).try_into().unwrap_or_default());
        let requests = vec![Request { session: 7, id: 1, op, auth: Auth::Heard }];
        Batch { origin: VIEW, time_ms: 1_000_000, requests: requests.try_into().unwrap_or_default() }
    }

    pub(super) fn digest(self) -> Hash {
        self.batch().digest()
    }

    fn body(self) -> Bytes {
        Body::Prepare { view: VIEW, slot: self.slot(), batch: self.batch() }.encode()
    }
}

/// How replicas call a memory node.
pub(super) fn memory_id(at: u8) -> NodeId {
    NodeId(NodeId::GUESTS.0 + u32::from(at))
}

/// The keys and names that all runs share.
pub(super) struct Cast {
    keyring: Keyring,
    roster: Arc<Roster>,
    memory: u8,
    bug: Bug,
    next: Configuration,
}

impl Cast {
    pub(super) fn new(instance: Instance) -> Self {
        let keyring = Keyring::new(Crypto::Toy, 1);
        let member = |id: u8| Member { key: keyring.public(u64::from(id)), power: 1 };
        let Ok(roster) = Roster::new(Epoch(0), (0..REPLICAS).map(member).collect()) else {
            unreachable!("three replicas with keys of their own");
        };
        let incarnations = if instance.lists_second_life { vec![1, 1, 2] } else { vec![2, 1, 1] };
        let boots = vec![1; usize::from(instance.memory)];
        let next = Configuration {
            epoch: Epoch(1),
            first_view: VIEW,
            incarnations: List::try_from(incarnations).unwrap_or_default(),
            boots: List::try_from(boots).unwrap_or_default(),
        };
        Self { keyring, roster: Arc::new(roster), memory: instance.memory, bug: instance.bug, next }
    }

    pub(super) const fn bug(&self) -> Bug {
        self.bug
    }

    pub(super) fn keys(&self, own: u8) -> Keys {
        self.keyring.keys(u64::from(own))
    }

    /// The life that an epoch lists.
    pub(super) fn listed(&self, epoch: Epoch, own: u8) -> u64 {
        let next = self.next.incarnation(NodeId(u32::from(own))).filter(|_| epoch == self.next.epoch);
        next.unwrap_or(1)
    }

    fn config(&self, own: u8) -> Config {
        Config {
            cluster: Hash::of(b"synod model rejoin"),
            epoch: Epoch(0),
            me: NodeId(u32::from(own)),
            roster: Arc::clone(&self.roster),
            first_view: VIEW,
            memory: (0..self.memory).map(|at| Memory { node: memory_id(at), boot: 1 }).collect(),
            parameters: Parameters { tail: TAIL, window: 32, ..Parameters::default() },
        }
    }

    pub(super) fn node(&self) -> MemoryNode {
        let registers = self.config(LIAR).registers();
        let config = MemoryConfig { members: u32::from(REPLICAS), faulty: 1, registers, quota: u32::MAX };
        let log = Log { condition: Condition::Clean, records: &mut core::iter::empty() };
        match MemoryNode::recover(config, log) {
            Ok(node) => node,
            Err(refused) => unreachable!("an empty log is a fresh memory node: {refused}"),
        }
    }

    fn consensus(&self, own: u8, start: Low) -> Consensus {
        match Consensus::new(Arc::new(self.config(own)), start) {
            Ok(consensus) => consensus,
            Err(why) => unreachable!("a sound configuration: {why:?}"),
        }
    }

    /// Consensus of a first life where the model begins: of epoch 0 one slot is left.
    pub(super) fn first(&self, own: u8) -> Consensus {
        self.consensus(own, Low { low: LAST, digest: Self::chain(), end: Some(END) })
    }

    /// What was executed where the model begins.
    pub(super) fn chain() -> Hash {
        Hash::of(b"synod model rejoin: all but one slot of epoch 0")
    }

    /// The state at the end of epoch 0, if this is the batch of its last slot.
    pub(super) fn last(&self, digest: Hash) -> Checkpoint {
        let chain = Hash::of(&[Self::chain().0, digest.0].concat());
        Checkpoint {
            epoch: Epoch(0),
            low: END,
            log_chain: chain,
            exec_chain: chain,
            config: self.next.digest(),
            end: Some(END),
        }
    }

    fn replica(&self, own: u8, life: u64) -> Replica {
        let settings = ReplicaConfig {
            config: self.config(own),
            sessions: SessionLimits::default(),
            archive_bytes_max: 1 << 20,
            fast_path: false,
        };
        let log = Log { condition: Condition::Clean, records: &mut (1..life).map(Incarnation) };
        match Replica::recover(settings, log) {
            Ok(replica) => replica,
            Err(refused) => unreachable!("a sound journal: {refused}"),
        }
    }

    /// What a replica does upon an event, with all that its jobs give: operations of registers count.
    fn run(&self, replica: &mut Replica, own: u8, event: Event<Replica>) -> Sent {
        let (mut events, mut sent, mut steps) = (vec![event], Sent::default(), 0);
        while let Some(event) = events.pop() {
            steps += 1;
            assert!(steps < EVENTS_MAX, "a replica does not come to rest");
            for effect in effects(replica, event, NOW) {
                match effect {
                    Effect::Compute(job) => events.push(Event::Done(job.run(&self.keys(own)))),
                    Effect::Send { message: Message::Word { epoch, word }, to } => {
                        if let (Some(op), synod_machine::To::Node(to)) = (word.register(), to) {
                            sent.operate(epoch, to, *op);
                        }
                    }
                    _ => {}
                }
            }
        }
        sent
    }

    /// A replica is started again: where it takes part in epoch 0, its consensus there.
    pub(super) fn rise(&self, own: u8, life: u64) -> (Option<Consensus>, Sent) {
        if self.bug == Bug::OldEpoch {
            let start = Low { low: Slot(0), digest: Hash::ZERO, end: None };
            return (Some(self.consensus(own, start)), Sent::default());
        }
        let mut replica = self.replica(own, life);
        let sent = self.run(&mut replica, own, Event::Start);
        (replica.consensus().cloned(), sent)
    }

    /// A replica is shown what ends epoch 0, and comes to epoch 1: if that lists its life, with its consensus there.
    pub(super) fn enter(
        &self,
        own: u8,
        life: u64,
        start: &CheckpointBy,
    ) -> Option<(Option<Consensus>, Sent)> {
        let mut replica = self.replica(own, life);
        self.run(&mut replica, own, Event::Start);
        let standing = Standing {
            configuration: self.next.clone(),
            start: Some(start.clone()),
            newest: None,
            snapshot: None,
        };
        let message = Message::Standing(Box::new(standing));
        let from = NodeId(u32::from(LIAR));
        let sent = self.run(&mut replica, own, Event::Message { from, message });
        let is_there = replica.configuration().epoch == self.next.epoch;
        is_there.then(|| (replica.consensus().cloned(), sent))
    }

    fn sign(&self, epoch: Epoch, statement: Statement) -> Signature {
        let config = self.config(LIAR).at(epoch);
        let scope = config.map_or_else(|| self.config(LIAR).scope(), |config| config.scope());
        self.keys(LIAR).sign(scope, NodeId(u32::from(LIAR)), statement).signature
    }

    fn signed(&self, epoch: Epoch, k: u64, body: Bytes) -> Word {
        let digest = Hash::of(&body);
        let statement = Statement::Broadcast { signer: LIAR, k, digest };
        let signature = Box::new(self.sign(epoch, statement));
        let body = body.try_into().ok();
        Word::Ctb {
            broadcaster: LIAR,
            word: ctb::Message::Signed { broadcaster: LIAR, k, digest, signature, body },
        }
    }

    /// LOCK or SIGNED of a proposal.
    pub(super) fn propose(&self, proposal: Proposal, is_signed: bool) -> (Epoch, Word) {
        let (epoch, k) = match proposal {
            Proposal::One | Proposal::Other => (Epoch(0), 1),
            Proposal::Behind => (Epoch(1), 1),
            Proposal::Beyond => (Epoch(0), 2),
        };
        let body = proposal.body();
        if is_signed {
            return (epoch, self.signed(epoch, k, body));
        }
        let word = ctb::Message::Lock { k, body: body.try_into().unwrap_or_default() };
        (epoch, Word::Ctb { broadcaster: LIAR, word })
    }

    /// The liar's shares about what a follower certified: of the certificate, of the promises, and in epoch 0 of its end.
    pub(super) fn back(&self, epoch: Epoch, slot: Slot, digest: Hash) -> Vec<Word> {
        let statement = Statement::Certify { signer: LIAR, view: VIEW, slot, digest };
        let signature = Box::new(self.sign(epoch, statement));
        let mut words = vec![
            Word::Certify { view: VIEW, slot, digest, signature },
            Word::WillCommit { view: VIEW, slot, tag: digest.short() },
        ];
        if epoch == Epoch(0) {
            let checkpoint = self.last(digest);
            let signature = Box::new(self.sign(epoch, Statement::Checkpoint { signer: LIAR, checkpoint }));
            words.push(Word::CertifyCheckpoint { checkpoint: Box::new(checkpoint), signature });
        }
        words
    }

    /// The certificate that the liar and a follower make, as the liar's number 2.
    pub(super) fn commit(&self, epoch: Epoch, subject: Certified, (own, share): (u8, Signature)) -> Word {
        let Certified { view, slot, digest } = subject;
        let mine = self.sign(epoch, Statement::Certify { signer: LIAR, view, slot, digest });
        let signed = List::try_from(vec![(LIAR, mine), (own, share)]).unwrap_or_default();
        self.signed(epoch, 2, Body::Commit(Certificate { subject, signed }).encode())
    }

    /// The certificate of the end of epoch 0 that the liar and a follower make.
    pub(super) fn over(&self, subject: Checkpoint, (own, share): (u8, Signature)) -> CheckpointBy {
        let mine = self.sign(Epoch(0), Statement::Checkpoint { signer: LIAR, checkpoint: subject });
        let signed = List::try_from(vec![(LIAR, mine), (own, share)]).unwrap_or_default();
        Certificate { subject, signed }
    }
}
