//! Taking submissions in, and closing the window (4.3).

use synod_crypto::{PublicKey, ReadKey};
use synod_machine::{Span, Time};
use synod_quorum::NodeId;

use super::flow::Telling;
use super::job::{Submitted, Task};
use super::open::{Admitted, Batch, Carriers, Content, Messages, Phase, Slot};
use super::recent::Bucket;
use super::{Broker, FLUSH, Step, Timer};
use crate::certificate::Legitimacy;
use crate::fault::Fault;
use crate::message::{Nack, Submit};
use crate::trace::Rule;
use crate::tree::TreeShape;

/// Submissions that are worth a check together, and most of one check.
const CHECKED_TOGETHER: usize = 128;
const CHECKED_TOGETHER_MAX: usize = 1_024;
/// Checks of submissions under way: the work on batches that were closed is not to wait behind more.
const CHECKS_MAX: u32 = 2;
/// Links whose certificates are checked at once: each costs a pairing, and whoever has a link may show one.
pub(super) const EXPLAINED_TOGETHER: usize = 64;
/// Bytes of an entry beside its message: id, length, parity, and its own number and signature as a straggler.
const BESIDE: u64 = 96;
/// When a client without straggles left may come again.
const REFILL: Span = Span::secs(10);
/// When to come again to a pool that is full.
const FULL: Span = Span::millis(500);

/// Where a submission stands already.
enum Known {
    New,
    /// Pending, held, or in a batch, with the same signature.
    Same,
    /// A lower number than one admitted here, or another message under an equal one.
    Replay,
}

/// Submissions and whether their signatures hold, and the keys that were read for it.
type Checks = (Vec<(Submitted, bool)>, Vec<(u32, ReadKey)>);

impl Broker {
    pub(super) fn on_submit(&mut self, link: NodeId, submit: Submit, turn: &mut Step<'_>) {
        if let Some((why, retry)) = self.refusal(link, &submit, turn) {
            Self::nack(link, why, retry, turn);
            return;
        }
        if submit.k0 > self.height {
            self.explain(link, submit, turn);
            return;
        }
        match self.known(&submit) {
            Known::Replay => {}
            Known::Same => self.seen_again(link, &submit, turn),
            Known::New => self.take(link, submit, turn),
        }
    }

    fn refusal(&self, link: NodeId, submit: &Submit, turn: &Step<'_>) -> Option<(Nack, Span)> {
        let now = turn.now();
        let unsettled = self.unchecked.len() + self.checking;
        // What is held over comes to the pool later, so both must have room.
        let busy = unsettled + self.pool.len().max(self.held.len()) >= self.config.pool_max();
        let empty = self.buckets.get(&submit.id).is_some_and(|bucket| bucket.is_empty(now));
        if submit.id >= self.book.len() {
            Some((Nack::NotInDirectory, super::HEIGHTS))
        } else if !self.config.class.takes(submit.message.len()) {
            Some((Nack::Class, Span::ZERO))
        } else if self.links.is_refused(link, now) || empty {
            Some((Nack::Busy, REFILL))
        } else if busy {
            Some((Nack::Busy, FULL))
        } else {
            None
        }
    }

    /// A number above n^ needs a reason; it is checked only where it would raise n^.
    fn explain(&mut self, link: NodeId, mut submit: Submit, turn: &mut Step<'_>) {
        let shown = submit.legitimacy.take();
        match shown.filter(|shown| shown.height() >= submit.k0 && shown.height() > self.height) {
            Some(shown) if self.links.is_heard(link, turn.now()) => {
                if self.explaining.len() >= EXPLAINED_TOGETHER {
                    Self::nack(link, Nack::Busy, FULL, turn);
                } else if self.explaining.insert(link) {
                    turn.applied(Rule::LegitimacyProof);
                    self.compute(turn, Task::Legitimacy(link, Box::new(submit), shown));
                }
            }
            Some(_) | None => Self::nack(link, Nack::NeedCertificate, Span::ZERO, turn),
        }
    }

    pub(super) fn explained(
        &mut self,
        link: NodeId,
        submit: Submit,
        shown: &Legitimacy,
        holds: bool,
        turn: &mut Step<'_>,
    ) {
        self.explaining.remove(&link);
        if holds {
            turn.applied(Rule::CachedProof);
            self.height = self.height.max(shown.height());
            self.on_submit(link, submit, turn);
        } else {
            self.links.lied(link, turn.now());
            turn.blame(link, Fault::BadCertificate);
        }
    }

    fn known(&self, submit: &Submit) -> Known {
        let same = |admitted: &Admitted| admitted.is_same(submit.k0, &submit.message, submit.parity);
        let waiting = [self.pool.get(submit.id), self.held.get(&submit.id)];
        let placed = self.placed(submit.id).map(|(_, slot)| &slot.admitted);
        let mut copies =
            waiting.into_iter().flatten().chain(placed).filter(|admitted| same(admitted)).peekable();
        if copies.peek().is_some() {
            // Numbers and messages are no secret: a link that shows them under another signature is not the client's before
            // that signature was checked.
            let is_signed = copies.any(|admitted| admitted.t == submit.t);
            return if is_signed { Known::Same } else { Known::New };
        }
        let waits = waiting.into_iter().flatten().any(|admitted| admitted.k0 >= submit.k0);
        let highest = self.standings.highest(submit.id);
        if waits || highest.is_some_and(|highest| submit.k0 < highest) {
            return Known::Replay;
        }
        // An equal number is taken again only after its batch was forgotten.
        match placed {
            Some(admitted) if admitted.k0 >= submit.k0 => Known::Replay,
            Some(_) | None => Known::New,
        }
    }

    /// The newest batch with an entry of this client.
    pub(super) fn placed(&self, id: u32) -> Option<(u64, &Slot)> {
        let (batch, index) = self.standings.place(id)?;
        let messages = self.batches.get(&batch)?.messages()?;
        Some((batch, messages.slots.get(index as usize)?))
    }

    /// A retransmission: this link is answered from now on.
    fn seen_again(&mut self, link: NodeId, submit: &Submit, turn: &mut Step<'_>) {
        let waiting = [self.pool.get_mut(submit.id), self.held.get_mut(&submit.id)];
        for admitted in waiting.into_iter().flatten() {
            // What waits may be another message than the one that is in a batch.
            if admitted.is_same(submit.k0, &submit.message, submit.parity) {
                admitted.carriers.add(link);
            }
        }
        let Some((batch, index)) = self.standings.place(submit.id) else { return };
        let Some(of) = self.batches.get_mut(&batch).and_then(Batch::messages_mut) else { return };
        let slot = of.slots.get(index as usize);
        let Some(slot) = slot.filter(|slot| slot.admitted.is_same(submit.k0, &submit.message, submit.parity))
        else {
            return;
        };
        // Whoever answered its place has it, and whoever was not shown it yet comes to its turn.
        let (has_place, comes_later) = (slot.heard.has(link), slot.shown.times == 0);
        of.carry(index, link);
        let is_delivered = self.kept.contains(&batch);
        if is_delivered || !(has_place || comes_later) {
            self.show(batch, index, link, turn);
            self.respond_to(batch, index, link, turn);
        }
    }

    fn take(&mut self, link: NodeId, submit: Submit, turn: &mut Step<'_>) {
        let Submit { id, k0, message, parity, t, .. } = submit;
        // A slice would keep its whole frame in memory.
        let message = message.bytes().to_vec().into();
        let admitted = Admitted { id, k0, message, parity, t, carriers: Carriers::of(link) };
        // What is under check already, from the same link, needs no second one.
        match self.under_check.get(id) {
            Some(known) if *known == (k0, t, link) => return,
            Some(_) => {}
            None => {
                self.under_check.insert(id, (k0, t, link));
            }
        }
        self.arm_flush(turn);
        self.unchecked.push_back(Submitted(admitted));
        if self.unchecked.len() >= CHECKED_TOGETHER {
            self.check_submissions(CHECKED_TOGETHER, turn);
        }
    }

    /// The first thing that waits for its check says when all are checked.
    pub(super) fn arm_flush(&self, turn: &mut Step<'_>) {
        if self.unchecked.is_empty() && self.desk.is_checked() {
            turn.arm(Timer::Flush, FLUSH);
        }
    }

    /// A client has its last delivery once it signed its next submission. Nobody else can say so.
    fn acknowledge(&mut self, id: u32, k0: u64, now: Time) {
        if let Some((batch, index)) = self.standings.place(id)
            && let Some(slot) = self
                .batches
                .get_mut(&batch)
                .and_then(Batch::messages_mut)
                .and_then(|messages| messages.slot_mut(index))
            && slot.admitted.k0 < k0
        {
            slot.acknowledged = slot.admitted.carriers;
            self.heard_of_delivery(batch, index, now);
        }
    }

    /// Submissions and cards waited long enough for company.
    pub(super) fn flush(&mut self, turn: &mut Step<'_>) {
        self.check_submissions(1, turn);
        self.flush_cards(turn);
    }

    /// Has submissions checked, at least so many at a time, as far as few checks are under way.
    fn check_submissions(&mut self, least: usize, turn: &mut Step<'_>) {
        while self.checks < CHECKS_MAX && self.unchecked.len() >= least {
            let view = self.directory.view();
            let count = self.unchecked.len().min(CHECKED_TOGETHER_MAX);
            let read = &mut self.read;
            let key = |submitted: Submitted| {
                let key = view.member(submitted.0.id)?.ed;
                let read = read.get(submitted.0.id);
                Some((submitted, key, read))
            };
            let of: Vec<(Submitted, PublicKey, Option<ReadKey>)> =
                self.unchecked.drain(..count).filter_map(key).collect();
            self.checking += of.len();
            self.checks += 1;
            turn.applied(Rule::BatchedEd25519);
            self.compute(turn, Task::Submissions(of));
        }
        if self.unchecked.is_empty() && self.desk.is_checked() {
            turn.disarm(Timer::Flush);
        }
    }

    pub(super) fn submissions_checked(&mut self, (checked, read): Checks, turn: &mut Step<'_>) {
        read.into_iter().for_each(|(id, key)| self.read.put(id, key));
        self.checking = self.checking.saturating_sub(checked.len());
        self.checks = self.checks.saturating_sub(1);
        for (Submitted(admitted), good) in checked {
            self.under_check.remove(admitted.id);
            if good {
                self.admit(admitted, turn.now());
            } else if let Some(link) = admitted.carriers.iter().next() {
                turn.blame(link, Fault::ForgedSubmission);
            }
        }
        turn.applied(Rule::UniqueSender);
        self.check_submissions(CHECKED_TOGETHER, turn);
        if !self.unchecked.is_empty() {
            turn.arm(Timer::Flush, FLUSH);
        }
        self.watch_window(turn);
        self.tell_more(turn);
    }

    /// Only checked submissions come here: one per client in pool and open batches, one held behind it.
    fn admit(&mut self, admitted: Admitted, now: Time) {
        let (id, k0) = (admitted.id, admitted.k0);
        self.acknowledge(id, k0, now);
        if self.joined(&admitted) {
            return;
        }
        let waits = [self.pool.get(id), self.held.get(&id)];
        let waits = waits.into_iter().flatten().any(|waiting| waiting.k0 >= k0);
        let placed = self.placed(id).map(|(batch, slot)| (batch, slot.admitted.k0));
        let open = placed.filter(|(batch, _)| !self.kept.contains(batch));
        if waits
            || placed.is_some_and(|(_, at)| at >= k0)
            || self.standings.highest(id).is_some_and(|k| k > k0)
        {
            return;
        }
        self.standings.set_highest(id, k0);
        if open.is_some() {
            self.held.insert(id, admitted);
        } else {
            self.pool_bytes += Self::weight(&admitted);
            if let Some(old) = self.pool.insert(id, admitted) {
                self.pool_bytes -= Self::weight(&old);
            }
        }
    }

    /// Whether it is a retransmission of what waits or is in an open batch: its links are answered as well.
    fn joined(&mut self, admitted: &Admitted) -> bool {
        let Admitted { id, k0, message, parity, carriers, .. } = admitted;
        let waiting = [self.pool.get_mut(*id), self.held.get_mut(id)];
        let mut waiting = waiting.into_iter().flatten();
        if let Some(known) = waiting.find(|known| known.is_same(*k0, message, *parity)) {
            carriers.iter().for_each(|link| known.carriers.add(link));
            return true;
        }
        let Some((batch, index)) = self.standings.place(*id) else { return false };
        let Some(messages) = self.batches.get_mut(&batch).and_then(Batch::messages_mut) else { return false };
        let known = messages.slots.get(index as usize);
        let same = known.is_some_and(|slot| slot.admitted.is_same(*k0, message, *parity));
        if same {
            carriers.iter().for_each(|link| messages.carry(index, link));
        }
        same
    }

    fn weight(admitted: &Admitted) -> u64 {
        admitted.message.len() as u64 + BESIDE
    }

    /// What was held behind an entry whose batch is certified or given up.
    pub(super) fn release(&mut self, ids: &[u32]) {
        for id in ids {
            if self.held.is_empty() {
                return;
            }
            if let Some(admitted) = self.held.remove(id) {
                self.pool_bytes += Self::weight(&admitted);
                if let Some(old) = self.pool.insert(*id, admitted) {
                    self.pool_bytes -= Self::weight(&old);
                }
            }
        }
    }

    /// Opens a window when something waits; closes it when a batch is full.
    pub(super) fn watch_window(&mut self, turn: &mut Step<'_>) {
        let (entries, bytes) = (self.config.entries_max(), self.config.cluster.rules().body_bytes_max);
        while self.has_room() && (self.pool.len() >= entries || self.pool_bytes >= u64::from(bytes)) {
            if !self.close(turn) {
                break;
            }
        }
        if !self.pool.is_empty() && self.window_since.is_none() {
            self.window += 1;
            self.window_since = Some(turn.now());
            turn.arm(Timer::Window(self.window), self.config.parameters.window_min);
        }
    }

    fn has_room(&self) -> bool {
        self.open() < 2 * self.config.parameters.pipeline_max as usize
    }

    pub(super) fn window_due(&mut self, window: u64, turn: &mut Step<'_>) {
        let Some(since) = self.window_since.filter(|_| window == self.window) else { return };
        let parameters = self.config.parameters;
        let pipeline = self.open() < parameters.pipeline_max as usize;
        let is_over = turn.now().since(since) >= parameters.window_max;
        self.window_since = None;
        if self.pool.is_empty() {
            return;
        }
        let waits = !is_over && self.awaits_height();
        if waits {
            self.ask_height(self.height, turn);
        }
        if !waits && (pipeline || (is_over && self.has_room())) {
            self.close(turn);
            self.watch_window(turn);
        } else {
            self.window_since = Some(since);
            turn.arm(Timer::Window(window), parameters.window_min);
        }
    }

    /// Whether so many wait that signing together pays, and only the certificate of a height that is known is missing.
    fn awaits_height(&self) -> bool {
        let proven = self.proven_height();
        let known = self.pool.values().filter(|admitted| (proven..self.height).contains(&admitted.k0));
        let ready = self.pool.values().any(|admitted| admitted.k0 < proven);
        !ready && known.count() >= self.config.parameters.distil_min as usize
    }

    /// Closes a batch of what waits. Those that signed ahead of their delivery wait while there are others, whose delivery
    /// raises n^; alone they form a batch that nobody is asked to sign. So no number rises past what others can verify.
    fn close(&mut self, turn: &mut Step<'_>) -> bool {
        let proven = self.proven_height();
        let ahead = self.pool.values().all(|admitted| admitted.k0 >= proven);
        if self.pool.values().any(|admitted| admitted.k0 >= proven) {
            self.ask_height(self.height.max(self.reached_height()), turn);
        }
        let taken = self.pick(|admitted| ahead || admitted.k0 < proven);
        let Some(k) = taken.iter().map(|admitted| admitted.k0).max() else { return false };
        turn.applied(Rule::Step3);
        turn.applied(Rule::SortedIds);
        let count = u32::try_from(taken.len()).unwrap_or(u32::MAX);
        let offered = !ahead && count >= self.config.parameters.distil_min;
        self.last_batch += 1;
        let number = self.last_batch;
        let shape = TreeShape { count, msg_size: self.config.class.msg_size() };
        let entries = taken.iter().map(Admitted::entry).collect();
        for (index, admitted) in (0_u32..).zip(&taken) {
            self.standings.set_place(admitted.id, (number, index));
        }
        let messages = Messages {
            k,
            shape,
            payload: taken.iter().map(|admitted| admitted.message.len() as u64).sum(),
            slots: taken.into_iter().map(Slot::new).collect(),
            shares: Vec::new(),
            carried: None,
            offered,
            tree: None,
            commit: synod_crypto::Hash::ZERO,
            unread: Vec::new(),
            reading: 0,
            silent: count,
            silent_before: count,
            slowest: Span::ZERO,
            late: 0,
            over: false,
            places: Telling::default(),
            deliveries: Telling::default(),
            aggregate: None,
        };
        self.batches.insert(number, Batch::new(Phase::Building, Content::Messages(messages)));
        self.compute(turn, Task::Tree(number, shape, entries));
        true
    }

    /// Takes what fits one batch out of the pool, by rising id from where the last batch ended.
    fn pick(&mut self, may: impl Fn(&Admitted) -> bool) -> Vec<Admitted> {
        let (entries, most) = (self.config.entries_max(), self.config.cluster.rules().body_bytes_max);
        let (mut ids, mut bytes) = (Vec::new(), 0);
        for id in self.pool.ids_from(self.cursor, may) {
            bytes += self.pool.get(id).map_or(0, Self::weight);
            let full = ids.len() >= entries || bytes > u64::from(most);
            if full && !ids.is_empty() {
                self.cursor = id;
                break;
            }
            ids.push(id);
        }
        ids.sort_unstable();
        let mut taken = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(admitted) = self.pool.remove(id) {
                self.pool_bytes -= Self::weight(&admitted);
                taken.push(admitted);
            }
        }
        taken
    }

    /// A client was not there to sign.
    pub(super) fn straggled(&mut self, id: u32, turn: &Step<'_>) {
        let now = turn.now();
        self.buckets.entry(id).or_insert_with(|| Bucket::full(now)).charge(now);
        if self.suspects.len() < self.config.cluster.rules().batch_max as usize {
            self.suspects.insert(id);
        }
    }
}
