//! The teller: takes orders and questions, gives them to the replica under tickets, and tells what became of them.
//!
//! Calls come from any thread and return at once with a channel; the replica's words come on its reactor. What settles goes to a
//! thread of its own, which keeps it in the [`Index`] and says so to the replica.

mod hear;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use synod_astro::{Input, Level, PaymentReceipt, Seen};
use synod_config::SynError;
use synod_ledger::{AccountId, Code, EntryId, Kind, Opening, Owner, Terms, Units, UserData};
use synod_machine::broadcast::View;
use tokio::sync::oneshot;

use super::cuts::{Cuts, Gap, LOG};
use super::cutting::Cutting;
use super::index::Index;
use super::keeper::{News, keep};
use super::orders::{Open, Opener, State, Under, Waiter};
use super::proofs::LogPage;
use super::statement::{Cursor, Period, Statement, statement};
use super::torn::Torn;
use super::views::{Views, is_of_founders};
use super::words::{Asked, Denied, Found, Name, Named, Order, Transfer, Wanted};
use super::{Claim, Seat};
use crate::error::invalid;

/// The ticket of the question that comes first; those of users begin behind it.
const KNOCK: u64 = 0;
/// When to try again, in milliseconds, where there is no room.
pub(super) const RETRY_MS: u32 = 50;

/// No account has a name before this one.
const FIRST: AccountId = AccountId { shard: 0, registrar: 0, local: 1 };

/// Where an answer comes.
pub type Answer<T> = oneshot::Receiver<Asked<T>>;
pub(super) type Reply<T> = oneshot::Sender<Asked<T>>;
/// Gives an input to the replica; false where it has no room.
pub(crate) type Give = Box<dyn Fn(Input) -> bool + Send + Sync>;

/// See the module.
pub struct Teller {
    own: Seat,
    view: Arc<View>,
    /// Where members come and go.
    pub(super) views: Option<Views>,
    state: Mutex<State>,
    replica: OnceLock<Give>,
    index: Arc<Index>,
    news: Mutex<Option<Sender<News>>>,
    keeper: Mutex<Option<JoinHandle<()>>>,
    /// Where cuts are made.
    cutting: OnceLock<Cutting>,
    pub(super) torn: Torn,
}

impl Teller {
    /// Opens the index in the data directory; [`Self::begin`] starts the work.
    ///
    /// # Errors
    /// Those of [`Index::open`].
    pub(crate) fn open(data: &Path, claim: &Claim, view: Arc<View>) -> Result<Arc<Self>, SynError> {
        Self::open_in(data, claim, view, None)
    }

    /// The same, where members may come and go; `view` is that of the founders then.
    pub(super) fn open_in(
        data: &Path,
        claim: &Claim,
        view: Arc<View>,
        views: Option<Views>,
    ) -> Result<Arc<Self>, SynError> {
        let index = Arc::new(Index::open(data, claim)?);
        let (news, heard) = channel();
        let teller = Arc::new(Self {
            own: claim.seat,
            view,
            views,
            state: Mutex::default(),
            replica: OnceLock::new(),
            index,
            news: Mutex::new(Some(news)),
            keeper: Mutex::default(),
            cutting: OnceLock::new(),
            torn: Torn::default(),
        });
        let (weak, index) = (Arc::downgrade(&teller), Arc::clone(&teller.index));
        let thread = std::thread::Builder::new().name("pay-index".to_owned());
        let keeper = thread.spawn(move || keep(&heard, &index, &weak));
        let keeper = keeper.map_err(|error| invalid("no thread for the index of payments").because(error))?;
        *teller.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper);
        Ok(teller)
    }

    /// Keeps the cuts that the replica tells of from here on.
    ///
    /// # Errors
    /// SYN-5003 where they cannot be kept in the data directory.
    pub(super) fn keep_cuts(self: &Arc<Self>, data: &Path, claim: &Claim) -> Result<(), SynError> {
        let cutting = Cutting::begin(Cuts::open(data, claim)?, Arc::downgrade(self))?;
        // A second call has nothing to add: there is one file.
        let _ = self.cutting.set(cutting);
        Ok(())
    }

    /// The cuts that are kept here.
    ///
    /// # Errors
    /// [`Gap::Off`] where the cluster makes none.
    pub fn cuts(&self) -> Result<&Cuts, Gap> {
        self.cutting.get().map(|cutting| &*cutting.cuts).ok_or(Gap::Off)
    }

    /// A page of the statement of an account, behind a cursor of the page before.
    ///
    /// # Errors
    /// [`Gap`] says why there is none.
    pub fn statement(&self, period: &Period, page: (Option<Cursor>, usize)) -> Result<Statement, Gap> {
        statement((self.cuts()?, &self.index), period, page)
    }

    /// A page of the log for audits, as [`Index::log`] gives it, and behind all of that the cuts that are kept, as far as all that they
    /// count stands up to this position.
    #[must_use]
    pub fn exported(&self, from: Option<&[u8]>, until: u64) -> LogPage {
        let cuts = self.cuts().ok();
        match (cuts, from) {
            (Some(cuts), Some(from)) if from.first() == Some(&LOG) => cuts.log(from, until),
            _ => {
                let mut page = self.index.log(from, until);
                if let Some(cuts) = cuts.filter(|_| page.next.is_none()) {
                    let behind = cuts.log(&[], until);
                    page.records.extend(behind.records);
                    page.next = behind.next;
                }
                page
            }
        }
    }

    /// From here on the replica can be asked.
    pub(crate) fn begin(&self, give: Give) {
        // A second call has nothing to add: there is one runtime.
        let _ = self.replica.set(give);
        self.knock();
    }

    /// Asks something that the replica answers behind all that it tells at its start.
    pub(super) fn knock(&self) {
        if !self.has_nobody() {
            self.give(self.knocking());
        }
    }

    /// That question.
    pub(super) const fn knocking(&self) -> Input {
        Input::Look { ticket: KNOCK, from: self.own.issuer(), count: 0 }
    }

    /// Which shard this node is in, and its number there.
    #[must_use]
    pub const fn seat(&self) -> Seat {
        self.own
    }

    /// Whether orders are taken.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state().is_ready
    }

    /// Keeps what was told and ends; who waits hears no more.
    pub(crate) fn end(&self) {
        if let Some(cutting) = self.cutting.get() {
            cutting.end();
        }
        drop(self.news.lock().unwrap_or_else(PoisonError::into_inner).take());
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(keeper) = keeper {
            // It ends with its channel; what it could not write ended the process.
            let _ = keeper.join();
        }
        *self.state() = State::default();
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What settled here.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// How many accounts cannot go on, for their owners signed two entries for a place.
    #[must_use]
    pub fn conflicted(&self) -> usize {
        self.torn.count()
    }

    /// Who signs for payments.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// See [`Index::receipt`]. [`Self::kept`] makes sure that all is looked at that the node was told. Where members come and go there
    /// is one of what the founders' view certified alone: no receipt shows who the members of a later view are.
    #[must_use]
    pub fn receipt(&self, transfer: &Transfer) -> Option<PaymentReceipt> {
        let receipt = self.index.receipt(transfer.place(), &self.view);
        receipt.filter(|receipt| !self.has_views() || is_of_founders(receipt, &self.view))
    }

    /// Answers once the index has everything that was told so far.
    pub fn kept(&self) -> Answer<()> {
        let (reply, answer) = oneshot::channel();
        self.tell_keeper(News::Ask(reply));
        answer
    }

    /// Gives an input to the replica; false where it has no room.
    pub(super) fn give(&self, input: Input) -> bool {
        self.replica.get().is_some_and(|give| give(input))
    }

    /// Orders something; the answer comes once it is as sure as `until`. A decision finds the holds that the index has:
    /// [`Self::kept`].
    pub fn pay(&self, order: &Order, until: Level) -> Answer<Transfer> {
        let (reply, answer) = oneshot::channel();
        if !self.is_ready() {
            self.knock();
            let _ = reply.send(Err(self.unready()));
            return answer;
        }
        match self.wanted(order) {
            Ok(order) => {
                let draft = order.draft();
                self.take(order, |ticket| Input::Order { ticket, draft }, (until, reply));
            }
            // Who asked may have gone.
            Err(why) => drop(reply.send(Err(why))),
        }
        answer
    }

    /// Takes an order, and gives it to the replica unless it is known.
    pub(super) fn take(
        &self,
        order: Wanted,
        input: impl FnOnce(u64) -> Input,
        (until, reply): (Level, Reply<Transfer>),
    ) {
        let name = order.name();
        if !self.state().take(order, until, Waiter::One(reply)) {
            return;
        }
        // What leaves the teller is in the index, which is read while nobody waits for the lock.
        if let Some(known) = self.index.named(name) {
            return self.state().meet(known);
        }
        let mut state = self.state();
        if state.orders.get(&name).is_none_or(|under| under.position > 0) {
            // It settled meanwhile, and whoever waits was told.
            return;
        }
        // With the lock held: the word that lets the replica forget the name comes behind this.
        let ticket = state.next(Open::Order(name));
        let has_room = self.give(input(ticket));
        drop(state);
        if !has_room {
            self.refuse(ticket, Denied::Busy(RETRY_MS));
        }
    }

    /// The order as the ledger knows it, with the hold that it decides over. What its payer ordered under its name before says which
    /// one that is: others may have come since.
    pub(super) fn wanted(&self, order: &Order) -> Result<Wanted, Denied> {
        let Some(hold) = order.what.hold() else { return Wanted::new(order, None) };
        let held = match self.ordered((order.id, order.from)) {
            None => self.held(&hold, order.from)?,
            Some(before) => {
                let at = before.held().ok_or(Denied::Different("kind"))?;
                let is_named = hold.payer.is_none_or(|payer| payer == at.spender);
                let known = self.index.entry(at).filter(|known| is_named && known.entry.transfer == hold.id);
                known.as_ref().and_then(amount).ok_or(Denied::Different("pending_id"))?
            }
        };
        Wanted::new(order, Some(held))
    }

    /// What this payer ordered under this name.
    pub(super) fn ordered(&self, name: Name) -> Option<Wanted> {
        let state = self.state();
        let under = state.orders.get(&name).map(|under| under.order.clone());
        let known = under.or_else(|| state.settled.get(&name).map(|known| Wanted::from(&*known.entry)));
        drop(state);
        known.or_else(|| self.index.named(name).map(|known| Wanted::from(&*known.entry)))
    }

    /// The hold that an account decides over, with its amount. A payer's oldest is meant where it is said whose; else there has to be
    /// one alone that is not decided.
    fn held(&self, hold: &Named, resolver: AccountId) -> Result<(EntryId, u128), Denied> {
        let open = self.index.open_holds(hold, resolver);
        match open.as_slice() {
            [] => Err(Denied::Ledger(self.no_hold(hold, resolver))),
            [_, _, ..] if hold.payer.is_none() => Err(Denied::Ambiguous(hold.id)),
            [first, ..] => amount(first).ok_or(Denied::Ledger(Code::HoldNotFound)),
        }
    }

    /// Why there is no hold to decide over.
    fn no_hold(&self, hold: &Named, resolver: AccountId) -> Code {
        let mut why = Code::HoldNotFound;
        for transfer in self.index.all_named(hold) {
            match transfer.entry.kind {
                Kind::Hold { resolver: decides, .. } if decides == resolver => return Code::HoldResolved,
                Kind::Hold { .. } => why = Code::HoldWrongResolver,
                _ => {}
            }
        }
        why
    }

    /// What is known here under a name, whoever's it is.
    ///
    /// # Errors
    /// [`Denied::Ambiguous`] where several payers have it and none is said.
    pub fn find(&self, named: &Named) -> Asked<Found> {
        let Some(payer) = named.payer.map_or_else(|| self.payer(named.id), |payer| Ok(Some(payer)))? else {
            return Ok(Found::Nothing);
        };
        let name = (named.id, payer);
        let state = self.state();
        let under = state.orders.get(&name);
        let is_under_way = under.is_some();
        let known = under.and_then(Under::transfer).or_else(|| state.settled.get(&name).cloned());
        drop(state);
        Ok(match known.or_else(|| self.index.named(name)) {
            Some(known) => Found::Payment(known),
            None if is_under_way => Found::UnderWay,
            None => Found::Nothing,
        })
    }

    /// The payer who has a payment of this name, if one alone has.
    fn payer(&self, id: u128) -> Asked<Option<AccountId>> {
        let state = self.state();
        let from = (id, FIRST);
        let of_name = |(known, payer): &Name| (*known == id).then_some(*payer);
        let under = state.orders.range(from..).map_while(|(name, _)| of_name(name)).take(2);
        let settled = state.settled.range(from..).map_while(|(name, _)| of_name(name)).take(2);
        let mut payers: BTreeSet<AccountId> = under.chain(settled).collect();
        drop(state);
        payers.extend(self.index.payers(id));
        if payers.len() > 1 { Err(Denied::Ambiguous(id)) } else { Ok(payers.pop_first()) }
    }

    /// Opens an account of this institution; the answer comes once it is certified. Others hear of it a moment later.
    pub fn open_account(&self, owner: Option<Owner>, ledger: u32, code: u16) -> Answer<AccountId> {
        let (reply, answer) = oneshot::channel();
        if self.has_nobody() {
            // Who asked may have gone.
            let _ = reply.send(Err(Denied::NotMember));
            return answer;
        }
        let opening = self.opening(owner, ledger, code);
        let ticket = self.state().next(Open::Account(Opener::One(reply)));
        if !self.give(Input::Open { ticket, opening }) {
            self.refuse(ticket, Denied::Busy(RETRY_MS));
        }
        answer
    }

    /// An account of this institution that has no number yet.
    pub(super) fn opening(&self, owner: Option<Owner>, ledger: u32, code: u16) -> Opening {
        let institution = u8::try_from(self.own.number).expect("members have numbers below 128");
        let owner = owner.unwrap_or(Owner::Custodial(institution));
        let terms = Terms { owner, recovery: None, limit: Units(0), code, user_data: UserData::default() };
        let id = AccountId { local: 0, ..self.own.issuer() };
        Opening { id, ledger, terms, limit_max: Units(0), representative: institution }
    }

    /// How accounts stand at this node, from this one on.
    pub fn look(&self, from: AccountId, count: u32) -> Answer<Vec<Seen>> {
        let (reply, answer) = oneshot::channel();
        if self.has_nobody() {
            // Who asked may have gone.
            let _ = reply.send(Err(Denied::NotMember));
            return answer;
        }
        let ticket = self.state().next(Open::Look(reply));
        if !self.give(Input::Look { ticket, from, count }) {
            self.refuse(ticket, Denied::Busy(RETRY_MS));
        }
        answer
    }

    pub(super) fn refuse(&self, ticket: u64, why: Denied) {
        let mut state = self.state();
        match state.answered(ticket) {
            Some(Open::Order(id)) => {
                let waiting = state.orders.remove(&id).map(|under| under.waiting).unwrap_or_default();
                drop(state);
                for (_, waiter) in waiting {
                    waiter.send(Err(why));
                }
            }
            Some(Open::Account(opener)) => opener.send(Err(why)),
            Some(Open::Look(reply)) => drop(reply.send(Err(why))),
            Some(Open::Check(reply)) => drop(reply.send(Err(why))),
            Some(Open::Log(reply)) => drop(reply.send(Err(why))),
            Some(Open::Lanes(reply)) => drop(reply.send(Err(why))),
            Some(Open::Bundles(reply)) => drop(reply.send(Err(why))),
            None => {}
        }
    }
}

/// A hold's place and amount.
fn amount(hold: &Transfer) -> Option<(EntryId, u128)> {
    let Kind::Hold { amount, .. } = &hold.entry.kind else { return None };
    Some((hold.entry.id, amount.0))
}
