//! Building a replica: fresh, or from its log; and the records and bytes of one that runs.
//!
//! A replica comes back with every promise it made (`Safety`), the certificates those promises rest on, the committed
//! chain above its oldest retained block, and the blocks it voted for. Bodies stay in the journal until they are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::broadcast::Position;
use synod_machine::{Condition, Log, Nested, Span, Time, Unrecoverable};
use synod_quorum::NodeSet;

use super::state::{Core, Delivery, Mode};
use crate::block::{BODY_MAX, Header, ITEMS_MAX};
use crate::certificate::Anchor;
use crate::chain::{Blobs, Chain, Link, RECENT_MAX};
use crate::checkpoint::Checkpoints;
use crate::config::{Complaints, Parameters};
use crate::filter::Filter;
use crate::job::Domain;
use crate::leader::Leaders;
use crate::outbox::Outbox;
use crate::pacemaker::{Pacemaker, Reason, Temper};
use crate::pool::{Budget, Pool};
use crate::proof::Commitment;
use crate::proven::Certificates;
use crate::record::{Mark, Safety, Stopped};
use crate::rules::Rules;
use crate::serve::Serving;
use crate::sync::BlockSync;
use crate::tree::{Block, Tree};
use crate::votes::Votes;
use crate::{Config, Kind, Qc, Record, Tc, View};

/// How long the first question of block sync waits for its answer.
const SYNC_PATIENCE: Span = Span::millis(250);

/// What the records of a log add up to.
struct Replay {
    kind: Kind,
    safety: Safety,
    qcs: BTreeMap<(Kind, View, Hash), Arc<Qc>>,
    /// The highest TC read, and the one that the safety record rests on.
    highest_tc: Option<Arc<Tc>>,
    tc: Option<Arc<Tc>>,
    blocks: BTreeMap<Hash, (Arc<Header>, Option<Hash>)>,
    chain: Vec<Link>,
    anchor: Option<Arc<Anchor>>,
    /// The state above the chain that the user was told to fetch.
    told: Option<Arc<Anchor>>,
    listening: bool,
    /// What stopped it.
    stopped: Option<Stopped>,
    /// The record of a rejoin was read, the promise that belongs to it was not.
    rejoining: bool,
}

impl Replay {
    fn new(genesis: &Link, safety: Safety) -> Self {
        Self {
            kind: genesis.header.justify.kind,
            safety,
            qcs: BTreeMap::new(),
            highest_tc: None,
            tc: None,
            blocks: BTreeMap::new(),
            chain: vec![genesis.clone()],
            anchor: None,
            told: None,
            listening: false,
            stopped: None,
            rejoining: false,
        }
    }

    /// A stable checkpoint lies on the chain; one above it is where the user was told to start again.
    fn take_anchor(&mut self, anchor: Arc<Anchor>) {
        let position = anchor.certificate.state().position;
        let above = self.chain.last().is_none_or(|top| top.last < position);
        let place = if above { &mut self.told } else { &mut self.anchor };
        if place.as_ref().is_none_or(|held| held.certificate.state().position < position) {
            *place = Some(anchor);
        }
    }

    fn take(&mut self, record: Record) -> Result<(), Unrecoverable> {
        match record {
            Record::Safety(safety) => self.take_safety(safety),
            Record::Qc(qc) => drop(self.qcs.insert((qc.kind, qc.view, qc.digest), Arc::new(qc))),
            Record::Tc(tc) => {
                if self.highest_tc.as_ref().is_none_or(|held| held.view < tc.view) {
                    self.highest_tc = Some(Arc::new(tc));
                }
            }
            Record::Block { header, body } => {
                let (height, digest) = (header.height, header.digest());
                let named = self.blocks.get(&digest).and_then(|(_, name)| *name);
                self.blocks.insert(digest, (Arc::new(header), body.or(named)));
                if let Some(link) = self.link(height, digest).filter(|link| link.name.is_none()) {
                    link.name = body;
                }
            }
            Record::Commit { digest, last } => self.commit(digest, last)?,
            Record::Checkpoint(anchor) => self.take_anchor(Arc::new(anchor)),
            Record::Listening => (self.listening, self.stopped) = (true, None),
            Record::Stopped(stopped) => self.stopped = Some(stopped),
            Record::Rejoined => self.rejoining = true,
        }
        Ok(())
    }

    /// Takes the promises over, if the certificates they rest on are here. The newest record may have survived a crash
    /// in its slot alone; then nothing that it promises was ever said, and the one before it stands.
    fn take_safety(&mut self, safety: Safety) {
        let high = safety.high;
        let certified =
            high.view == View::GENESIS || self.qcs.contains_key(&(self.kind, high.view, high.digest));
        let held = self.highest_tc.as_ref().map_or(View::GENESIS, |tc| tc.view);
        if certified && safety.tc <= held {
            self.safety = safety;
            self.tc = self.highest_tc.clone();
            self.listening &= !core::mem::take(&mut self.rejoining);
        }
    }

    /// The committed block of this digest at `height`.
    fn link(&mut self, height: u64, digest: Hash) -> Option<&mut Link> {
        let index = height.checked_sub(self.chain.first()?.header.height)?;
        self.chain.get_mut(usize::try_from(index).ok()?).filter(|link| link.digest == digest)
    }

    /// Links the branch of a committed block to the chain. A block whose ancestors are not in the log starts the chain
    /// anew: it was installed by a checkpoint, or is the oldest one a snapshot kept.
    fn commit(&mut self, digest: Hash, last: Position) -> Result<(), Unrecoverable> {
        let top = self.chain.last().map(|link| (link.digest, link.header.height));
        let Some((top, height)) = top else {
            return Err(Unrecoverable("a chain without a block".to_owned()));
        };
        let mut branch = Vec::new();
        let (mut at, mut position) = (digest, last);
        while at != top {
            let Some((header, name)) = self.blocks.get(&at).cloned() else { break };
            let link = Link { digest: at, header, last: position, body: None, name, commitment: None };
            position = link.before();
            at = link.header.parent;
            branch.push(link);
        }
        let Some(oldest) = branch.last() else {
            return if digest == top {
                Ok(())
            } else {
                Err(Unrecoverable("a commit of an unknown block".to_owned()))
            };
        };
        if at != top {
            if oldest.header.height <= height && height > 0 {
                return Err(Unrecoverable("a commit beside the committed chain".to_owned()));
            }
            self.chain.clear();
        }
        branch.iter().for_each(|link| drop(self.blocks.remove(&link.digest)));
        self.chain.extend(branch.into_iter().rev());
        Ok(())
    }

    /// Commits what the user holds above the last commit record: it was delivered before that record was due, on the
    /// strength of a high QC that is in the log and certifies it or a block above it. What the user does not hold is
    /// left to be committed again.
    fn reach(&mut self, held: Position) -> Result<(), Unrecoverable> {
        let Some((root, last)) = self.chain.last().map(|top| (top.digest, top.last)) else { return Ok(()) };
        let (mut branch, mut at) = (Vec::new(), self.safety.high.digest);
        while at != root {
            let Some((header, _)) = self.blocks.get(&at) else { return Ok(()) };
            branch.push((at, u64::from(header.count)));
            at = header.parent;
        }
        let mut position = last.0;
        while position < held.0 {
            let Some((digest, count)) = branch.pop() else { return Ok(()) };
            position += count;
            self.commit(digest, Position(position))?;
        }
        Ok(())
    }
}

fn link_of_genesis(genesis: &Arc<Header>) -> Link {
    let digest = genesis.digest();
    Link { digest, header: Arc::clone(genesis), last: Position(0), body: None, name: None, commitment: None }
}

fn temper(parameters: &Parameters) -> Temper {
    let paper = parameters.complaints == Complaints::LeaderOnly;
    let (base, max) = (parameters.timeout_base, parameters.timeout_max);
    Temper { base, max, adaptive: !paper, insistent: !paper }
}

fn budget(parameters: &Parameters, members: u32) -> Budget {
    Budget {
        bytes: parameters.mempool_bytes,
        items: u64::from(parameters.pool_items),
        session_bytes: parameters.session_bytes,
        session_items: u64::from(parameters.session_items),
        members: u64::from(members.saturating_sub(1)),
    }
}

impl Core {
    /// A replica before its first promise.
    fn fresh(config: Config, rules: Rules) -> Self {
        let parameters = config.parameters().clone();
        let roster = config.roster().clone();
        let epoch = roster.epoch();
        let kind = rules.pack.kind();
        let header = Arc::new(Header::genesis(epoch, kind));
        let genesis = header.digest();
        let terms = config.terms();
        let others = roster.others(config.own());
        let temper = temper(&parameters);
        let pacemaker = Pacemaker::new(config.own(), epoch, roster.weights().clone(), terms, temper);
        Self {
            rules,
            domain: Arc::new(Domain { cluster: config.identity().cluster, roster: roster.clone() }),
            leaders: Leaders::new(roster.weights(), terms, parameters.reputation),
            terms,
            genesis,
            mode: Mode::Acting,
            stopped: None,
            safety: Safety::fresh(epoch, genesis, kind),
            high: Arc::new(Qc::empty(epoch, kind, genesis)),
            tc: None,
            decided: None,
            view: View::GENESIS,
            reason: Reason::Start,
            entered_at: Time::ZERO,
            leader: None,
            newviews: BTreeMap::new(),
            complaining: None,
            tree: Tree::new(genesis, Arc::clone(&header)),
            chain: Chain::new(link_of_genesis(&header)),
            blobs: Blobs::default(),
            early: BTreeMap::new(),
            proposals: BTreeMap::new(),
            pending_commit: None,
            ordered: None,
            commit_due: false,
            votes: Votes::default(),
            checking: BTreeSet::new(),
            formed: BTreeMap::new(),
            announce: None,
            certificates: Certificates::new(genesis),
            known: Vec::new(),
            bodies_in_check: BTreeMap::new(),
            far: BTreeMap::new(),
            helped: BTreeMap::new(),
            pool: Pool::new(budget(&parameters, roster.size())),
            filter: Filter::default(),
            linger: crate::batch::Linger::default(),
            linger_due: None,
            unforwarded: Vec::new(),
            forward_again: false,
            empties: 0,
            pacemaker: Nested::new(pacemaker),
            working: false,
            sync: Nested::new(BlockSync::new(others, SYNC_PATIENCE)),
            delivery: Delivery::default(),
            checkpoints: Checkpoints::new(parameters.checkpoint_every),
            serving: Serving::default(),
            proof_waiters: NodeSet::EMPTY,
            quiet: false,
            gap: None,
            out: Outbox::default(),
            restart: Vec::new(),
            config,
        }
    }

    /// Rebuilds a replica from its log.
    ///
    /// # Errors
    /// [`Unrecoverable`] when the log contradicts itself or the user's durable position.
    pub(crate) fn recover(config: Config, rules: Rules, log: Log<'_, Record>) -> Result<Self, Unrecoverable> {
        let damaged = log.condition == Condition::Damaged;
        let mut core = Self::fresh(config, rules);
        let mut replay = Replay::new(core.chain.top(), core.safety.clone());
        for record in log.records {
            let taken = replay.take(record);
            // A damaged log may lack records that later ones rest on: what can be read is used, nothing is promised.
            if !damaged {
                taken?;
            }
        }
        if let Some(stopped) = replay.stopped.filter(|_| !damaged) {
            (core.mode, core.stopped) = (Mode::Halted, Some(stopped));
        } else if damaged || replay.listening {
            core.mode = Mode::Listening { shown: BTreeMap::new() };
        }
        if !damaged {
            replay.reach(core.config.resume())?;
        }
        let told = replay.told.clone();
        core.install(replay);
        core.resume(told)?;
        Ok(core)
    }

    fn install(&mut self, mut replay: Replay) {
        for link in replay.chain.iter_mut().filter(|_| self.rules.pack.is_basic()) {
            let decided = replay.qcs.get(&(Kind::Commit, link.header.view, link.digest));
            link.commitment = decided.map(|qc| Arc::new(Commitment::Direct(Qc::clone(qc))));
        }
        let mut links = replay.chain.into_iter();
        if let Some(first) = links.next() {
            self.tree = Tree::new(first.digest, Arc::clone(&first.header));
            self.chain = Chain::new(first);
        }
        for link in links {
            self.tree = Tree::new(link.digest, Arc::clone(&link.header));
            self.chain.push(link);
        }
        if let Some(anchor) = replay.anchor {
            self.checkpoints.set_stable(anchor);
        }
        for name in self.chain.iter().filter_map(|link| link.name) {
            self.blobs.retain(name);
        }
        let mut blocks: Vec<_> = replay.blocks.into_iter().collect();
        blocks.sort_by_key(|(_, (header, _))| header.height);
        let root = Arc::clone(self.tree.root_header());
        let kind = self.rules.pack.kind();
        let logged: BTreeSet<Hash> = blocks.iter().map(|(digest, _)| *digest).collect();
        let promised = &replay.safety;
        let keep = [promised.high, promised.voted, promised.lock, promised.proposed].map(|mark| mark.digest);
        for (digest, (header, name)) in blocks {
            // A voter writes the block it votes for and not the blocks below: what the log never had may be asked for.
            // A parent that it had and that is not in the tree lies on a fork.
            let parent = header.parent;
            let missing = !logged.contains(&parent) && self.chain.by_digest(&parent).is_none();
            let above = header.height > root.height && header.view > root.view;
            if above && (missing || self.tree.get(&parent).is_some()) {
                let mut block = Block::new(header);
                block.stored = true;
                block.name = name;
                // A certificate above the recovered high QC was logged in a turn whose promises the crash took.
                let view = block.header.view;
                let qc = replay.qcs.get(&(kind, view, digest)).filter(|_| view <= replay.safety.high.view);
                block.qc = qc.cloned();
                if self.tree.insert(digest, block, &keep).is_ok()
                    && let Some(name) = name
                {
                    self.blobs.retain(name);
                    self.restart.push(name);
                }
            }
        }
        self.safety = replay.safety;
        self.tc = replay.tc.filter(|tc| tc.view <= self.safety.tc);
        let high = self.safety.high;
        if let Some(qc) = replay.qcs.get(&(kind, high.view, high.digest)) {
            self.high = Arc::clone(qc);
        } else {
            self.safety.high = Mark { view: self.high.view, digest: self.high.digest };
        }
        let decided = self.safety.decided;
        let decides = |qc: &&Arc<Qc>| qc.kind == Kind::Commit && qc.view == decided;
        self.decided = replay.qcs.values().find(decides).cloned();
        for qc in replay.qcs.values() {
            self.certificates.remember(qc.name());
        }
        if let Some(tc) = &self.tc {
            self.certificates.remember(tc.name());
        }
    }

    /// Delivery goes on behind what the user holds durably. That may be a state above the log's end, if the user had
    /// fetched it when the crash came: the replica lands there when it starts, or peers tell it what lies below.
    fn resume(&mut self, told: Option<Arc<Anchor>>) -> Result<(), Unrecoverable> {
        let resume = self.config.resume();
        self.delivery.applied = resume;
        let (floor, top) = (self.chain.floor(), self.chain.top());
        if resume > top.last {
            let at = told.as_ref().map_or(Position(0), |anchor| anchor.certificate.state().position);
            if resume > at && self.mode == Mode::Acting {
                let why = format!("the user holds position {} and the log ends at {}", resume.0, top.last.0);
                return Err(Unrecoverable(why));
            }
            self.delivery.height = top.header.height;
            self.delivery.position = resume;
            self.checkpoints.set_jumping(told.filter(|_| resume == at));
            return Ok(());
        }
        let whole = self.chain.iter().rev().find(|link| link.last <= resume);
        self.delivery.height = match whole {
            Some(link) => link.header.height,
            None => floor.header.height.saturating_sub(1),
        };
        self.delivery.position = resume;
        Ok(())
    }

    /// Records equivalent to the whole log: the retained chain, the stable checkpoint, the blocks above, the
    /// certificates that the promises name, the promises.
    pub(crate) fn snapshot(&self, put: &mut dyn FnMut(Record)) {
        let kept = self.chain.iter().filter(|link| link.header.view > View::GENESIS);
        for link in kept {
            put(Record::Block { header: Header::clone(&link.header), body: link.name });
            if link.digest == self.chain.floor().digest {
                put(Record::Commit { digest: link.digest, last: link.last });
            }
            // The chain itself proves the blocks of the other packs.
            if let Some(commitment) = link.commitment.as_ref().filter(|_| self.rules.pack.is_basic()) {
                put(Record::Qc(Qc::clone(commitment.qc())));
            }
        }
        let top = self.chain.top();
        if top.header.view > View::GENESIS {
            put(Record::Commit { digest: top.digest, last: top.last });
        }
        let told = self.checkpoints.jumping();
        for anchor in self.checkpoints.stable().into_iter().chain(told) {
            put(Record::Checkpoint(Anchor::clone(&anchor)));
        }
        let mut above: Vec<&Block> =
            self.tree.iter().map(|(_, block)| block).filter(|block| block.stored).collect();
        above.sort_by_key(|block| block.header.height);
        for block in above.into_iter().filter(|block| block.header.height > top.header.height) {
            put(Record::Block { header: Header::clone(&block.header), body: block.name });
        }
        if self.high.view > View::GENESIS {
            put(Record::Qc(Qc::clone(&self.high)));
        }
        if let Some(decided) = &self.decided {
            put(Record::Qc(Qc::clone(decided)));
        }
        if let Some(tc) = &self.tc {
            put(Record::Tc(Tc::clone(tc)));
        }
        if matches!(self.mode, Mode::Listening { .. }) {
            put(Record::Listening);
        }
        if let Some(stopped) = self.stopped {
            put(Record::Stopped(stopped));
        }
        put(Record::Safety(self.safety.clone()));
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        let early: u64 = self.early.values().map(|body| body.memory()).sum();
        let small = 256 * (self.proposals.len() + self.checking.len() + self.newviews.len()) as u64
            + 128
                * (self.delivery.tickets.len() + self.delivery.loading.len() + self.delivery.unreadable.len())
                    as u64
            + 64 * (self.delivery.barriers.len()
                + self.delivery.proving.len()
                + self.delivery.unapplied.len()) as u64
            + self.unforwarded.iter().map(|item| item.cost() as u64).sum::<u64>();
        self.tree.bytes()
            + self.chain.bytes()
            + self.blobs.bytes()
            + early
            + self.votes.bytes()
            + self.certificates.bytes()
            + 256 * self.known.len() as u64
            + self.pool.memory()
            + self.pacemaker.get().bytes()
            + self.sync.get().bytes()
            + self.checkpoints.bytes()
            + self.serving.bytes()
            + small
    }

    /// The formula of the configuration (specification 8.1): bodies of the tree and of the recent chain, headers of the
    /// retained chain, the pool, and per member votes, complaints, certificates and one early body.
    pub(crate) fn bytes_max(&self) -> u64 {
        let p = self.config.parameters();
        let n = u64::from(self.config.roster().size());
        let items = if p.block_items == 0 { ITEMS_MAX as u64 } else { u64::from(p.block_items) };
        let body = u64::from(p.block_bytes).min(BODY_MAX as u64) + 128 * items;
        let header = 1_024 + 512 * n;
        let window = p.view_window + 256;
        let tree = window * (body + 2 * header);
        let recent = (RECENT_MAX as u64 + p.executor_lag_max + 64) * body;
        let chain = (self.chain_max() + 1) * (header + 256);
        let pool = 2 * p.mempool_bytes + u64::from(p.pool_items) * 1_024;
        let per_member = n * (body + 64 * header + (64 << 10));
        let serving = 16 * BODY_MAX as u64;
        tree + recent + chain + pool + per_member + serving + (16 << 20)
    }
}
