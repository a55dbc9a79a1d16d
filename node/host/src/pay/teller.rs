//! The teller: takes orders and questions, gives them to the replica under tickets, and tells what became of them.
//!
//! Calls come from any thread and return at once with a channel; the replica's words come on its reactor. What settles goes to a
//! thread of its own, which keeps it in the [`Index`] and says so to the replica.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use synod_astro::{Input, Level, Output, PaymentReceipt, Refusal, Seen};
use synod_config::SynError;
use synod_crypto::Hash;
use synod_ledger::{AccountId, Code, Entry, EntryId, Kind, Opening, Owner, Terms, Units, UserData};
use synod_machine::broadcast::View;
use synod_quorum::NodeId;
use tokio::sync::oneshot;

use super::index::{Index, Kept};
use super::keeper::{News, keep};
use super::proofs::Shown;
use super::words::{Asked, Denied, Order, Transfer, Wanted};
use super::{SHARD, issuer};
use crate::error::invalid;

/// Most orders that are under way at a node.
pub const ORDERS_MAX: usize = 1 << 18;
/// The ticket of the question that comes first; those of users begin behind it.
const KNOCK: u64 = 0;
/// When to try again, in milliseconds, where the replica has no room.
const RETRY_MS: u32 = 50;

/// Where an answer comes.
pub type Answer<T> = oneshot::Receiver<Asked<T>>;
pub(super) type Reply<T> = oneshot::Sender<Asked<T>>;
/// Gives an input to the replica; false where it has no room.
pub(crate) type Give = Box<dyn Fn(Input) -> bool + Send + Sync>;

/// An order under way: given to the replica and not yet in the index.
struct Under {
    order: Wanted,
    /// Its entry, once it has one.
    known: Option<(Entry, Hash)>,
    level: Level,
    position: u64,
    /// Who waits, and for what.
    waiting: Vec<(Level, Reply<Transfer>)>,
}

/// Questions to the replica that are not answered.
enum Open {
    Order(u128),
    Account(Reply<AccountId>),
    Look(Reply<Vec<Seen>>),
}

#[derive(Default)]
struct State {
    /// Whether the replica has told what settled before: until then an order could be one of those.
    is_ready: bool,
    ticket: u64,
    asked: HashMap<u64, Open>,
    orders: HashMap<u128, Under>,
    /// Payments of this institution that settled and that the index may not have yet.
    settled: HashMap<u128, Transfer>,
    opening: BTreeMap<AccountId, Reply<AccountId>>,
}

/// See the module.
pub struct Teller {
    own: NodeId,
    view: Arc<View>,
    state: Mutex<State>,
    replica: OnceLock<Give>,
    index: Arc<Index>,
    news: Mutex<Option<Sender<News>>>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl Teller {
    /// Opens the index in the data directory; [`Self::begin`] starts the work.
    ///
    /// # Errors
    /// Those of [`Index::open`].
    pub(crate) fn open(data: &Path, own: NodeId, view: Arc<View>) -> Result<Arc<Self>, SynError> {
        let index = Arc::new(Index::open(data)?);
        let (news, heard) = channel();
        let teller = Arc::new(Self {
            own,
            view,
            state: Mutex::default(),
            replica: OnceLock::new(),
            index,
            news: Mutex::new(Some(news)),
            keeper: Mutex::default(),
        });
        let (weak, index) = (Arc::downgrade(&teller), Arc::clone(&teller.index));
        let thread = std::thread::Builder::new().name("pay-index".to_owned());
        let keeper = thread.spawn(move || keep(&heard, &index, &weak));
        let keeper = keeper.map_err(|error| invalid("no thread for the index of payments").because(error))?;
        *teller.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper);
        Ok(teller)
    }

    /// From here on the replica can be asked.
    pub(crate) fn begin(&self, give: Give) {
        // A second call has nothing to add: there is one runtime.
        let _ = self.replica.set(give);
        self.knock();
    }

    /// Asks something that the replica answers behind all that it tells at its start.
    fn knock(&self) {
        self.give(Input::Look { ticket: KNOCK, from: issuer(self.own.0), count: 0 });
    }

    /// Whether orders are taken.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state().is_ready
    }

    /// Keeps what was told and ends; who waits hears no more.
    pub(crate) fn end(&self) {
        drop(self.news.lock().unwrap_or_else(PoisonError::into_inner).take());
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(keeper) = keeper {
            // It ends with its channel; what it could not write ended the process.
            let _ = keeper.join();
        }
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What settled here.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Who signs for payments.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The receipt of a settled payment, at the highest level that this node can show; `None` where it has nothing that certifies
    /// it. [`Self::kept`] makes sure that all is looked at that the node was told.
    #[must_use]
    pub fn receipt(&self, transfer: &Transfer) -> Option<PaymentReceipt> {
        self.index.receipt(transfer.place(), &self.view)
    }

    /// Answers once the index has everything that was told so far.
    pub fn kept(&self) -> Answer<()> {
        let (reply, answer) = oneshot::channel();
        self.tell_keeper(News::Ask(reply));
        answer
    }

    /// Gives an input to the replica; false where it has no room.
    fn give(&self, input: Input) -> bool {
        self.replica.get().is_some_and(|give| give(input))
    }

    /// Orders something; the answer comes once it is as sure as `until`.
    pub fn pay(&self, order: &Order, until: Level) -> Answer<Transfer> {
        let (reply, answer) = oneshot::channel();
        if !self.is_ready() {
            self.knock();
            let _ = reply.send(Err(Denied::Busy(RETRY_MS)));
            return answer;
        }
        let order = match self.wanted(order) {
            Ok(order) => order,
            Err(why) => {
                let _ = reply.send(Err(why));
                return answer;
            }
        };
        let (id, draft) = (order.id, order.draft());
        let mut state = self.state();
        if let Some(under) = state.orders.get_mut(&id) {
            under.join(&order, until, reply);
            return answer;
        }
        if state.is_full() {
            // Who asked may have gone.
            let _ = reply.send(Err(Denied::Busy(RETRY_MS)));
            return answer;
        }
        let settled = state.settled.get(&id).cloned();
        let waiting = vec![(until, reply)];
        state.orders.insert(id, Under { order, known: None, level: Level::Accepted, position: 0, waiting });
        drop(state);
        // What leaves the one is in the other; the index is read while nobody waits for this lock, for it may be syncing.
        if let Some(known) = settled.or_else(|| self.known(id)) {
            self.state().meet(known);
            return answer;
        }
        let ticket = self.state().next(Open::Order(id));
        if !self.give(Input::Order { ticket, draft }) {
            self.refuse(ticket, Denied::Busy(RETRY_MS));
        }
        answer
    }

    /// The order as the ledger knows it, with the hold that it decides over.
    fn wanted(&self, order: &Order) -> Result<Wanted, Denied> {
        let held = order.what.hold().map(|name| self.held(name, order.from)).transpose()?;
        Wanted::new(order, held)
    }

    /// The hold of this name that an account decides over, with its amount. Several institutions may have holds of one name.
    fn held(&self, name: u128, resolver: AccountId) -> Result<(EntryId, u128), Denied> {
        let settled = self.state().settled.get(&name).cloned();
        let mut why = Code::HoldNotFound;
        for transfer in settled.into_iter().chain(self.index.all_named(name)) {
            match &transfer.entry.kind {
                Kind::Hold { amount, resolver: decides, .. } if *decides == resolver => {
                    return Ok((transfer.entry.id, amount.0));
                }
                Kind::Hold { .. } => why = Code::HoldWrongResolver,
                _ => {}
            }
        }
        Err(Denied::Ledger(why))
    }

    /// A payment of this name by an account of this institution.
    #[must_use]
    pub fn known(&self, name: u128) -> Option<Transfer> {
        self.index.named_by(name, SHARD, self.own.0)
    }

    /// A payment of this name, whoever its payer is, as far as it is known here.
    #[must_use]
    pub fn transfer(&self, name: u128) -> Option<Transfer> {
        let state = self.state();
        let under = state.orders.get(&name).and_then(Under::transfer);
        let known = under.or_else(|| state.settled.get(&name).cloned());
        drop(state);
        known.or_else(|| self.known(name)).or_else(|| self.index.named(name))
    }

    /// Opens an account of this institution; the answer comes once it is certified. Others hear of it a moment later.
    pub fn open_account(&self, owner: Option<Owner>, ledger: u32, code: u16) -> Answer<AccountId> {
        let (reply, answer) = oneshot::channel();
        let institution = u8::try_from(self.own.0).expect("members have numbers below 128");
        let owner = owner.unwrap_or(Owner::Custodial(institution));
        let terms = Terms { owner, recovery: None, limit: Units(0), code, user_data: UserData::default() };
        let id = AccountId { shard: SHARD, registrar: self.own.0, local: 0 };
        let opening = Opening { id, ledger, terms, limit_max: Units(0), representative: institution };
        let ticket = self.state().next(Open::Account(reply));
        if !self.give(Input::Open { ticket, opening }) {
            self.refuse(ticket, Denied::Busy(RETRY_MS));
        }
        answer
    }

    /// How accounts stand at this node, from this one on.
    pub fn look(&self, from: AccountId, count: u32) -> Answer<Vec<Seen>> {
        let (reply, answer) = oneshot::channel();
        let ticket = self.state().next(Open::Look(reply));
        if !self.give(Input::Look { ticket, from, count }) {
            self.refuse(ticket, Denied::Busy(RETRY_MS));
        }
        answer
    }

    fn refuse(&self, ticket: u64, why: Denied) {
        let mut state = self.state();
        match state.asked.remove(&ticket) {
            Some(Open::Order(id)) => {
                let waiting = state.orders.remove(&id).map(|under| under.waiting).unwrap_or_default();
                drop(state);
                for (_, reply) in waiting {
                    let _ = reply.send(Err(why));
                }
            }
            Some(Open::Account(reply)) => drop(reply.send(Err(why))),
            Some(Open::Look(reply)) => drop(reply.send(Err(why))),
            None => {}
        }
    }

    /// A word of the replica.
    pub(crate) fn hear(&self, output: Output) {
        match output {
            Output::Accepted { ticket, entry, digest } => self.on_accepted(ticket, entry, digest),
            Output::Refused { ticket, why } => self.on_refused(ticket, why),
            Output::Progress { id, transfer, level } => self.on_progress(id, transfer, level),
            Output::Settled { position, entry, digest } => self.on_settled(position, entry, digest),
            Output::Numbered { ticket, account } => {
                let mut state = self.state();
                if let Some(Open::Account(reply)) = state.asked.remove(&ticket) {
                    state.opening.insert(account, reply);
                }
            }
            Output::Opened(account) => {
                if let Some(reply) = self.state().opening.remove(&account) {
                    let _ = reply.send(Ok(account));
                }
            }
            Output::Certified { opened, proofs } => {
                self.tell_keeper(Kept::Certified(Shown::new(opened, proofs, self.own.0)));
            }
            Output::Receipted(receipt) => self.tell_keeper(Kept::Word(receipt)),
            Output::Looked { ticket: KNOCK, .. } => self.state().is_ready = true,
            Output::Looked { ticket, accounts } => {
                if let Some(Open::Look(reply)) = self.state().asked.remove(&ticket) {
                    let _ = reply.send(Ok(accounts));
                }
            }
            Output::TwoBatches { lane, sequence, .. } => {
                tracing::error!(lane = lane.0, sequence, "a representative signed two batches for one place");
            }
            Output::Contradiction { id, .. } => {
                let place = (id.spender, id.n);
                tracing::error!(?place, "certificates contradict each other: more members lie than may");
            }
            Output::Conflict { id, .. } => {
                tracing::error!(account = %id.spender, n = id.n, "an owner signed two entries for one place");
            }
        }
    }

    fn on_accepted(&self, ticket: u64, entry: Entry, digest: Hash) {
        let mut state = self.state();
        state.asked.remove(&ticket);
        if let Some(under) = state.orders.get_mut(&entry.transfer) {
            under.known = Some((entry, digest));
            under.tell();
        }
    }

    fn on_refused(&self, ticket: u64, why: Refusal) {
        let denied = match why {
            Refusal::Ledger(code) => Denied::Ledger(code),
            Refusal::Busy(ms) => Denied::Busy(ms),
            // An order of this name is under way from before a restart: what becomes of it is the answer.
            Refusal::Exists(_) => {
                self.state().asked.remove(&ticket);
                return;
            }
        };
        self.refuse(ticket, denied);
    }

    fn on_progress(&self, id: EntryId, name: u128, level: Level) {
        if level > Level::Certified {
            self.tell_keeper(Kept::Level(id, name, level));
        }
        self.state().raise(name, level);
    }

    fn on_settled(&self, position: u64, entry: Entry, digest: Hash) {
        let name = entry.transfer;
        let is_ours = entry.id.spender.registrar == self.own.0;
        let mut state = self.state();
        if is_ours {
            let known = Transfer { entry: entry.clone(), digest, level: Level::Certified, position };
            state.settled.insert(name, known.clone());
            state.meet(known);
        }
        drop(state);
        self.tell_keeper(Kept::Settled(position, entry));
    }

    fn tell_keeper(&self, news: impl Into<News>) {
        let told = news.into();
        if let Some(news) = self.news.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            // The keeper hears as long as there is a sender.
            let _ = news.send(told);
        }
    }

    /// The index holds everything up to this position, and these.
    pub(super) fn on_kept(&self, position: u64, kept: &[(u128, Option<Level>)]) {
        // Without room the next group says it.
        self.give(Input::Kept(position));
        let mut state = self.state();
        for (name, level) in kept {
            if state.settled.get(name).is_some_and(|settled| settled.position <= position) {
                state.settled.remove(name);
            }
            // Who read the index before it had this level waits for it.
            state.raise(*name, level.unwrap_or(Level::Accepted));
        }
    }
}

impl State {
    fn next(&mut self, open: Open) -> u64 {
        self.ticket += 1;
        self.asked.insert(self.ticket, open);
        self.ticket
    }

    /// Whether no order can be taken.
    fn is_full(&mut self) -> bool {
        if self.orders.len() >= ORDERS_MAX {
            self.sweep();
        }
        self.orders.len() >= ORDERS_MAX
    }

    /// A payment settled, now or before: whoever ordered it is told, or that the name is another's.
    fn meet(&mut self, known: Transfer) {
        let name = known.entry.transfer;
        let Some(under) = self.orders.get_mut(&name) else { return };
        if let Some(field) = under.order.differs(&known.entry) {
            for (_, reply) in self.orders.remove(&name).map(|under| under.waiting).unwrap_or_default() {
                let _ = reply.send(Err(Denied::Different(field)));
            }
            return;
        }
        let level = under.level.max(known.level);
        (under.known, under.position) = (Some((known.entry, known.digest)), known.position);
        self.raise(name, level);
    }

    /// A payment is as sure as this, or surer.
    fn raise(&mut self, name: u128, level: Level) {
        if let Some(settled) = self.settled.get_mut(&name) {
            settled.level = settled.level.max(level);
        }
        if let Some(under) = self.orders.get_mut(&name) {
            under.level = under.level.max(level);
            under.tell();
        }
        self.let_go(name);
    }

    /// Forgets an order that settled and that nobody waits for: the index has it, or will.
    fn let_go(&mut self, name: u128) {
        let Some(under) = self.orders.get_mut(&name) else { return };
        under.waiting.retain(|(_, reply)| !reply.is_closed());
        if under.is_done() {
            self.orders.remove(&name);
        }
    }

    /// Forgets all such orders.
    fn sweep(&mut self) {
        self.orders.retain(|_, under| {
            under.waiting.retain(|(_, reply)| !reply.is_closed());
            !under.is_done()
        });
    }
}

impl Under {
    /// Whether it settled, and nobody waits for it.
    const fn is_done(&self) -> bool {
        self.position > 0 && self.waiting.is_empty()
    }

    fn transfer(&self) -> Option<Transfer> {
        let (entry, digest) = self.known.clone()?;
        Some(Transfer { entry, digest, level: self.level, position: self.position })
    }

    /// Another call for the same name.
    fn join(&mut self, order: &Wanted, until: Level, reply: Reply<Transfer>) {
        if let Some(field) = self.order.differs_from(order) {
            let _ = reply.send(Err(Denied::Different(field)));
            return;
        }
        self.waiting.push((until, reply));
        self.tell();
    }

    /// Tells those whose level is reached.
    fn tell(&mut self) {
        let Some(transfer) = self.transfer() else { return };
        let level = self.level;
        for (until, reply) in std::mem::take(&mut self.waiting) {
            if until <= level {
                let _ = reply.send(Ok(transfer.clone()));
            } else {
                self.waiting.push((until, reply));
            }
        }
    }
}
