//! Snapshots (specification, 4.12, second step): the state behind a checkpoint is kept as chunks, f + 1 replicas sign its root, and whoever
//! is behind the archives is given it.
//!
//! *When.* Behind `snapshot_slots` slots, or once half of the archive was used, at a checkpoint; both follow from the order, so correct
//! replicas take the same. The application's chunks stay with the user, who is asked for them. The archive keeps what follows the newest
//! certified snapshot, and more as long as it has room; where it has none, and a snapshot waits for its signatures, nothing is executed.
//!
//! *Bounds.* [`SNAPSHOTS_MAX`] snapshots; of each replica a share for as many.

use std::collections::BTreeMap;

use synod_crypto::merkle::{self, Tree};
use synod_crypto::{Claim, Hash, Signature, Verified};
use synod_machine::Turn;
use synod_quorum::NodeId;
use synod_wire::{Bytes, List, Wire as _};

use super::state::Replica;
use super::vocabulary::{Job, Output};
use crate::batch::Slot;
use crate::certificate::{Certificate, Snapshotted, Subject as _};
use crate::config::NUMBER_END;
use crate::fault::Fault;
use crate::message::Message;
use crate::snapshot::{Held, Part, Snapshot, SnapshotBy, chunks};
use crate::statement::Statement;
use crate::trace::Rule;

/// Snapshots that are kept: the newest certified one, those that are not certified yet, and older ones for whoever is half way.
pub(super) const SNAPSHOTS_MAX: usize = 4;

/// A snapshot that this replica took.
#[derive(Debug)]
pub(super) struct Kept {
    snapshot: Snapshot,
    own: Vec<Bytes>,
    own_tree: Tree,
    /// None until the user gave the leaves.
    app_tree: Option<Tree>,
    share: Option<Signature>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    kept: BTreeMap<Slot, Kept>,
    /// Shares by slot and signer.
    shares: BTreeMap<(Slot, NodeId), (Snapshotted, Signature)>,
    certified: Option<SnapshotBy>,
    /// The slot of the last one, certified or not, and bytes of batches since.
    last: Slot,
    since_bytes: u64,
}

impl Snapshots {
    pub(super) const fn certified(&self) -> Option<&SnapshotBy> {
        self.certified.as_ref()
    }

    /// The slot of the newest certified snapshot.
    pub(super) fn low(&self) -> Slot {
        self.certified.as_ref().map_or(Slot(0), |certificate| certificate.subject.low)
    }

    /// A batch was executed.
    pub(super) const fn count(&mut self, bytes: u64) {
        self.since_bytes = self.since_bytes.saturating_add(bytes);
    }

    /// Whether one that is taken is not certified yet.
    pub(super) fn is_pending(&self) -> bool {
        self.kept.keys().next_back().is_some_and(|newest| *newest > self.low())
    }

    /// The state is now that of a snapshot, or of the beginning.
    pub(super) const fn restart(&mut self, low: Slot) {
        (self.last, self.since_bytes) = (low, 0);
    }

    pub(super) fn bytes(&self) -> u64 {
        let of = |kept: &Kept| {
            let own: usize = kept.own.iter().map(Bytes::len).sum();
            own as u64 + u64::from(kept.snapshot.count()) * 96 + 512
        };
        self.kept.values().map(of).sum::<u64>() + self.shares.len() as u64 * 160
    }
}

impl Replica {
    /// At a checkpoint: whether the state is kept as well.
    pub(super) fn consider_snapshot(&mut self, turn: &mut Turn<'_, Self>) {
        let (low, since) = (self.executed, self.snapshots.since_bytes);
        let slots = low.0.saturating_sub(self.snapshots.last.0);
        let is_due = slots >= u64::from(self.config.parameters.snapshot_slots)
            || since > self.settings.archive_bytes_max / 2;
        if !is_due {
            return;
        }
        self.snapshots.restart(low);
        let held = Held { epochs: self.epochs.clone(), sessions: self.sessions.rows() };
        let own = chunks(&held.encode());
        let own_tree = Tree::new(own.iter().map(|chunk| merkle::leaf(chunk)).collect());
        let snapshot = Snapshot {
            epoch: self.epochs.configuration.epoch,
            low,
            time_ms: self.time.0,
            log_chain: self.log_chain.head(),
            exec_chain: self.exec_chain.head(),
            own_root: own_tree.root(),
            own_chunks: own_tree.count(),
            app_root: Hash::ZERO,
            app_chunks: 0,
        };
        turn.applied(Rule::Snapshot);
        let kept = Kept { snapshot, own, own_tree, app_tree: None, share: None };
        self.snapshots.kept.insert(low, kept);
        while self.snapshots.kept.len() > SNAPSHOTS_MAX {
            let Some((oldest, _)) = self.snapshots.kept.pop_first() else { break };
            turn.output(Output::DropSnapshot { low: oldest });
        }
        turn.output(Output::TakeSnapshot { low });
    }

    /// The user kept the application's chunks: the root is signed.
    pub(super) fn on_taken(&mut self, low: Slot, leaves: Vec<Hash>, turn: &mut Turn<'_, Self>) {
        let Some(kept) = self.snapshots.kept.get_mut(&low).filter(|kept| kept.app_tree.is_none()) else {
            return;
        };
        let tree = Tree::new(leaves);
        kept.snapshot.app_root = tree.root();
        kept.snapshot.app_chunks = tree.count();
        kept.app_tree = Some(tree);
        let (root, epoch) = (kept.snapshot.root(), kept.snapshot.epoch);
        let is_newer = low > self.snapshots.low();
        // Whoever no epoch lists signs nothing.
        if let (Some(signer), Some(config)) =
            (self.config.me.member(), self.genesis.at(epoch).filter(|_| self.is_listed() && is_newer))
        {
            let statement = Statement::Snapshot { signer, low, root };
            turn.compute(Job::Sign { scope: config.scope(), statement });
        }
    }

    /// The own share is made.
    pub(super) fn on_snapshot_signed(
        &mut self,
        claim: &Verified<Claim<Statement>>,
        turn: &mut Turn<'_, Self>,
    ) {
        let Statement::Snapshot { low, root, .. } = claim.statement else { return };
        let (epoch, signature) = (claim.scope.epoch, claim.signature);
        if let Some(kept) = self.snapshots.kept.get_mut(&low) {
            kept.share = Some(signature);
        }
        let snapshot = Snapshotted { epoch, low, root };
        turn.send(self.others(), Message::CertifySnapshot { snapshot, signature: Box::new(signature) });
        self.on_snapshot_share(self.config.me, snapshot, signature, turn);
    }

    /// A peer signs a snapshot: its share is checked if it can be of use.
    pub(super) fn on_certify_snapshot(
        &mut self,
        from: NodeId,
        snapshot: Snapshotted,
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        let Some(signer) = from.member().filter(|_| self.others().contains(from)) else { return };
        let Snapshotted { epoch, low, .. } = snapshot;
        if low.0 >= NUMBER_END {
            turn.blame(from, Fault::Malformed);
            return;
        }
        if low <= self.snapshots.low() {
            // Whoever still says it misses a share that nobody says again: the certificate is what it needs.
            self.say_standing(from, turn);
            return;
        }
        let near = self.executed.0.saturating_add(2 * u64::from(self.config.parameters.snapshot_slots));
        // The last one of an epoch is of the next, which some come to before others.
        let newest = self.epoch.max(self.epochs.configuration.epoch);
        let is_useful = low.0 <= near && epoch <= newest;
        let claim =
            self.genesis.at(epoch).and_then(|config| config.claim(snapshot.statement(signer), signature));
        let is_new = is_useful && !self.has_share(low, from);
        if let Some(claim) = claim.filter(|_| is_new && self.may_check(from)) {
            turn.compute(Job::Share(claim));
        }
    }

    fn has_share(&self, low: Slot, from: NodeId) -> bool {
        self.snapshots.shares.contains_key(&(low, from))
    }

    /// A checked share: f + 1 equal ones certify.
    pub(super) fn on_snapshot_share(
        &mut self,
        signer: NodeId,
        snapshot: Snapshotted,
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        let low = snapshot.low;
        if low <= self.snapshots.low() {
            return;
        }
        let shares = &mut self.snapshots.shares;
        shares.insert((low, signer), (snapshot, signature));
        // Of one signer as many as snapshots: the oldest gives way.
        let of_signer: Vec<Slot> =
            shares.keys().filter(|(_, id)| *id == signer).map(|(low, _)| *low).collect();
        if let Some(oldest) = of_signer.first().filter(|_| of_signer.len() > SNAPSHOTS_MAX) {
            shares.remove(&(*oldest, signer));
        }
        let of_low = shares.range((low, NodeId(0))..=(low, NodeId(u32::MAX)));
        let equal = of_low.filter(|(_, (other, _))| *other == snapshot);
        let need = usize::try_from(self.quorums.one_correct()).unwrap_or(usize::MAX);
        let signed: Vec<(u8, Signature)> = equal
            .take(need)
            .filter_map(|((_, id), (_, signature))| Some((id.member()?, *signature)))
            .collect();
        if signed.len() == need
            && let Ok(signed) = List::try_from(signed)
        {
            self.on_snapshotted(Certificate { subject: snapshot, signed }, turn);
        }
    }

    /// A certificate, of shares or of a peer: older snapshots and what lies before it in the archive may go.
    pub(super) fn on_snapshotted(&mut self, certificate: SnapshotBy, turn: &mut Turn<'_, Self>) {
        let low = certificate.subject.low;
        if low <= self.snapshots.low() {
            return;
        }
        turn.applied(Rule::Snapshotted);
        self.snapshots.certified = Some(certificate);
        self.snapshots.shares.retain(|(of, _), _| *of > low);
        // Whether there is room is asked before the next batch is kept.
        self.archive.shrink(self.settings.archive_bytes_max, low);
        self.execute(turn);
    }

    /// Own shares that are not certified yet are said again.
    pub(super) fn say_snapshots_again(&self, turn: &mut Turn<'_, Self>) {
        let newest = self.snapshots.kept.iter().next_back().filter(|(low, _)| **low > self.snapshots.low());
        if let Some((low, kept)) = newest
            && let Some(signature) = kept.share
        {
            let snapshot = Snapshotted { epoch: kept.snapshot.epoch, low: *low, root: kept.snapshot.root() };
            turn.send(self.others(), Message::CertifySnapshot { snapshot, signature: Box::new(signature) });
        }
    }

    /// What was taken of a state that turned out to be wrong is worth nothing.
    pub(super) fn drop_snapshots(&mut self, turn: &mut Turn<'_, Self>) {
        while let Some((low, _)) = self.snapshots.kept.pop_first() {
            turn.output(Output::DropSnapshot { low });
        }
    }

    /// Whether the archive is full while a snapshot waits for its signatures.
    pub(super) fn is_full(&self) -> bool {
        self.archive.bytes() > self.settings.archive_bytes_max
            && self.executed.0.is_multiple_of(self.config.half_window())
            && self.snapshots.is_pending()
    }

    /// A peer misses a part. One that has no snapshot of this slot says where it stands instead.
    pub(super) fn on_fetch_chunk(
        &mut self,
        from: NodeId,
        (low, part): (Slot, Part),
        turn: &mut Turn<'_, Self>,
    ) {
        if !self.others().contains(from) || !self.may_serve(from, turn.now()) {
            return;
        }
        let kept = self.snapshots.kept.get(&low).filter(|kept| kept.app_tree.is_some());
        let Some(kept) = kept else {
            self.say_standing(from, turn);
            return;
        };
        match part {
            Part::Summary => self.say_chunk(from, (low, part), kept.snapshot.encode(), Vec::new(), turn),
            Part::Own(index) => {
                let chunk = usize::try_from(index).ok().and_then(|index| kept.own.get(index)).cloned();
                if let (Some(chunk), Some(path)) = (chunk, kept.own_tree.path(index)) {
                    self.say_chunk(from, (low, part), chunk, path, turn);
                }
            }
            Part::App(index) => turn.output(Output::NeedChunk { peer: from, low, index }),
        }
    }

    /// The user gives a chunk for a peer.
    pub(super) fn on_own_chunk(
        &self,
        peer: NodeId,
        (low, index): (Slot, u32),
        bytes: Option<Bytes>,
        turn: &mut Turn<'_, Self>,
    ) {
        let tree = self.snapshots.kept.get(&low).and_then(|kept| kept.app_tree.as_ref());
        if let (Some(bytes), Some(path)) = (bytes, tree.and_then(|tree| tree.path(index))) {
            self.say_chunk(peer, (low, Part::App(index)), bytes, path, turn);
        }
    }

    fn say_chunk(
        &self,
        to: NodeId,
        (low, part): (Slot, Part),
        bytes: Bytes,
        path: Vec<Hash>,
        turn: &mut Turn<'_, Self>,
    ) {
        if let (Ok(bytes), Ok(path)) = (bytes.try_into(), List::try_from(path)) {
            turn.send(to, Message::Chunk { low, part, bytes, path });
        }
    }
}
