//! Payments among institutions in one profile, under a closed loop.
//!
//! Each institution has customers whom it vouches for; each has a limit that no run uses up. A customer keeps a number of orders under way
//! and gives the next one when one has settled at its institution.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_astro::{
    BackedBatches, Batches, Carrier, Channel, Config, Draft, Input, Output, Parameters, Profile, Refusal,
    Replica, Setup, Shards,
};
use synod_broadcast::signed::{self, Context, View};
use synod_broadcast::{Bracha, SignedBroadcast, bracha};
use synod_crypto::Hash;
use synod_ledger::{AccountId, Flags, Kind, Leg, Opening, Owner, Terms, Units, UserData};
use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::{Span, Time, Unrecoverable};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_sim::{Desk, Harness, Keyring, Mode, Refused, Seat, Told, Violation, World};

use crate::circumstances::Circumstances;
use crate::timeline::Timeline;

/// Machine number of replicas.
pub const REPLICA: u8 = 0;
/// The ledger of all accounts.
pub const EURO: u32 = 978;
/// What an account may owe: more than any run spends.
pub const LIMIT: u128 = 1 << 40;
/// When a customer begins.
pub const BEGIN: Span = Span::millis(200);
/// How long an order waits that was not taken.
const AGAIN: Span = Span::millis(5);
/// Settled entries between two words to the replica that they are kept.
const KEEP_EVERY: u64 = 256;

/// An account.
#[must_use]
pub const fn account(registrar: u32, local: u64) -> AccountId {
    AccountId { shard: 0, registrar, local }
}

/// How an account of an institution is opened.
#[must_use]
pub fn opening(id: AccountId) -> Opening {
    let representative = u8::try_from(id.registrar).unwrap_or(u8::MAX);
    let (owner, limit) = (Owner::Custodial(representative), Units(LIMIT));
    let terms = Terms { owner, recovery: None, limit, code: 1, user_data: UserData::default() };
    Opening { id, ledger: EURO, terms, limit_max: limit, representative }
}

/// An order of one unit.
#[must_use]
pub fn order(spender: AccountId, to: AccountId, name: u64) -> Input {
    let kind = Kind::Pay(Leg { to, amount: Units(1) });
    let (user_data, flags, transfer) = (UserData::default(), Flags::default(), u128::from(name));
    let draft = Draft { spender, kind, transfer, ledger: EURO, code: 0, user_data, flags };
    Input::Order { ticket: name, draft }
}

/// Who pays, and how much is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Customers in all, spread over the institutions one by one.
    pub customers: u32,
    /// Orders that each keeps under way.
    pub each: u32,
}

/// What a bank is built from.
#[derive(Clone, Copy, Debug)]
pub struct Bank {
    /// Institutions, one per member.
    pub members: u32,
    /// What they pay each other by.
    pub profile: Profile,
    /// Who pays.
    pub load: Load,
    /// Length of a bin of the timeline.
    pub bin: Span,
}

/// A world of payments, and what came of it.
pub struct Running {
    /// The world.
    pub world: World,
    /// Its customers.
    pub crowd: Crowd,
}

impl Bank {
    fn locals(&self) -> u64 {
        u64::from(self.load.customers.div_ceil(self.members.max(1))).max(1)
    }

    fn config(&self, me: NodeId, view: &Arc<View>) -> Config {
        let all =
            || (0..self.members).flat_map(|of| (1..=self.locals()).map(move |local| account(of, local)));
        Config {
            me,
            view: Arc::clone(view),
            genesis: all().map(opening).collect(),
            caps: (0..self.members).map(|of| (of, Units(LIMIT * u128::from(self.locals())))).collect(),
            shards: Shards::default(),
            parameters: self.parameters(),
        }
    }

    fn parameters(&self) -> Parameters {
        Parameters { owners_sign: false, ..Parameters::of(self.profile) }
    }

    fn machine(
        &self,
        (node, seed): (NodeId, u64),
        view: &Arc<View>,
        log: LaneLog,
    ) -> Result<Box<dyn Hosted>, Unrecoverable> {
        let host = HostConfig { own: node, machine: REPLICA, seed, jobs_max: 4_096, checked: false };
        let (config, bounds) = (self.config(node, view), self.parameters().bounds());
        match self.profile {
            Profile::I => {
                let own = synod_broadcast::Config { me: node, members: view.roster.all(), bounds };
                let channel: Channel<Bracha> =
                    Box::new(move |delivered| bracha::Setup { config: own.clone(), delivered });
                hosted::<Bracha>(host, Setup { config, channel }, log)
            }
            Profile::II => {
                let channel: Channel<SignedBroadcast<BackedBatches>> =
                    Box::new(signed::Setup::under(node, Arc::clone(view), bounds));
                hosted::<SignedBroadcast<BackedBatches>>(host, Setup { config, channel }, log)
            }
            Profile::Funded => {
                let channel: Channel<SignedBroadcast<Batches>> =
                    Box::new(signed::Setup::under(node, Arc::clone(view), bounds));
                hosted::<SignedBroadcast<Batches>>(host, Setup { config, channel }, log)
            }
        }
    }

    /// The world of a bank; its customers have not begun.
    ///
    /// # Errors
    /// There are no members, or more than 128.
    pub fn open(self, circumstances: &Circumstances) -> Result<Running, String> {
        let options = circumstances.options();
        let keyring = Keyring::new(options.crypto, options.seed);
        let member = |id: u32| Member { key: keyring.public(u64::from(id)), power: 1 };
        let roster = Roster::new(Epoch(0), (0..self.members).map(member).collect());
        let roster = Arc::new(roster.map_err(|e| e.to_string())?);
        let context = Context { shard: 0, view: Hash::of(b"synod lab view") };
        let view = Arc::new(View { cluster: Hash::of(b"synod lab cluster"), roster, context });
        let seats = (0..self.members).map(|id| Seat::new(NodeId(id), &[REPLICA])).collect();
        let seed = options.seed;
        let setup = synod_sim::Setup {
            links: Box::new(|_, _| Some(Mode::Connection)),
            options,
            ..synod_sim::Setup::new(seats, move |node, _, log, life| {
                self.machine((node, seed ^ u64::from(life) << 48), &view, log)
            })
        };
        let crowd = Crowd::new(self.members, self.load, self.bin);
        Ok(Running { world: World::new(setup), crowd })
    }
}

fn hosted<B>(host: HostConfig, setup: Setup<B>, log: LaneLog) -> Result<Box<dyn Hosted>, Unrecoverable>
where
    B: Carrier + Send + 'static,
    B::Message: Send,
    B::Timer: Send,
{
    Ok(Box::new(Host::<Replica<B>>::open(host, setup, log)?))
}

impl Running {
    /// Goes on until this time.
    ///
    /// # Errors
    /// A machine broke a rule of the simulator, or panicked.
    pub fn run(&mut self, until: Span) -> Result<(), Violation> {
        self.world.run(Time(until.0), &mut self.crowd)
    }
}

/// The customers of all institutions.
pub struct Crowd {
    members: u32,
    load: Load,
    begun: bool,
    /// Orders given so far: the next one's name.
    orders: u64,
    /// When orders that have not settled were given first, by name.
    open: BTreeMap<u64, (AccountId, Time)>,
    /// What settled when.
    pub timeline: Timeline,
    /// Orders that were not taken at first.
    pub refused: u64,
}

impl Crowd {
    const fn new(members: u32, load: Load, bin: Span) -> Self {
        let timeline = Timeline::new(bin);
        Self { members, load, begun: false, orders: 0, open: BTreeMap::new(), timeline, refused: 0 }
    }

    /// The account of a customer.
    fn customer(&self, at: u32) -> AccountId {
        account(at % self.members, u64::from(at / self.members) + 1)
    }

    fn next(&mut self, spender: AccountId, desk: &mut Desk) {
        self.orders += 1;
        self.open.insert(self.orders, (spender, desk.now()));
        self.give(self.orders, desk);
    }

    fn give(&self, name: u64, desk: &mut Desk) {
        let Some((spender, _)) = self.open.get(&name) else { return };
        let to = account((spender.registrar + 1) % self.members, 1);
        desk.input(NodeId(spender.registrar), REPLICA, Span::ZERO, order(*spender, to, name));
    }

    fn settled(&mut self, name: u128, at: Time, desk: &mut Desk) {
        let Some((spender, since)) = u64::try_from(name).ok().and_then(|name| self.open.remove(&name)) else {
            return;
        };
        self.timeline.count(at, Span(at.0.saturating_sub(since.0)));
        self.next(spender, desk);
    }
}

impl Harness for Crowd {
    fn told(&mut self, told: Told, desk: &mut Desk) {
        match told.output.downcast_ref::<Output>() {
            Some(Output::Settled { first, entries }) => {
                for (position, (entry, _)) in (*first..).zip(entries) {
                    if position.is_multiple_of(KEEP_EVERY) {
                        desk.input(told.node, REPLICA, Span::ZERO, Input::Kept(position));
                    }
                    if entry.id.spender.registrar == told.node.0 {
                        self.settled(entry.transfer, told.time, desk);
                    }
                }
            }
            Some(Output::Refused { ticket, why }) => {
                self.refused += 1;
                let after = if let Refusal::Busy(ms) = why { Span::millis(u64::from(*ms)) } else { AGAIN };
                desk.wake(after.max(AGAIN), *ticket);
            }
            _ => {}
        }
    }

    fn refused(&mut self, refused: Refused, desk: &mut Desk) {
        if let Some(Input::Order { ticket, .. }) = refused.input.downcast_ref::<Input>() {
            self.refused += 1;
            desk.wake(AGAIN, *ticket);
        }
    }

    /// Token 0 begins; another is the name of an order that is given again.
    fn wake(&mut self, token: u64, desk: &mut Desk) {
        if token > 0 {
            return self.give(token, desk);
        }
        for at in 0..self.load.customers {
            for _ in 0..self.load.each {
                self.next(self.customer(at), desk);
            }
        }
    }

    fn started(&mut self, _: NodeId, _: u32, desk: &mut Desk) {
        if !self.begun {
            self.begun = true;
            desk.wake(BEGIN, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, Bank, Load};
    use crate::circumstances::{Circumstances, PriceList, Scale};
    use crate::timeline::later;
    use synod_astro::Profile;
    use synod_machine::Span;

    fn circumstances() -> Circumstances {
        Circumstances { seed: 5, prices: PriceList::Today, scale: Scale::Quick }
    }

    #[test]
    fn each_profile_settles_what_a_closed_loop_orders_and_keeps_it_under_way() {
        for profile in [Profile::I, Profile::II, Profile::Funded] {
            let load = Load { customers: 5, each: 3 };
            let bank = Bank { members: 4, profile, load, bin: Span::millis(100) };
            let mut running = bank.open(&circumstances()).expect("four members");
            running.run(later(BEGIN, Span::secs(1))).expect("nothing breaks");
            let settled = running.crowd.timeline.between(BEGIN, later(BEGIN, Span::secs(1)));
            assert!(settled > 100, "{profile:?}: {settled}");
            assert_eq!(running.crowd.open.len(), 15, "{profile:?}");
            assert_eq!(running.crowd.orders, settled + 15, "{profile:?}");
        }
    }

    #[test]
    fn dearer_signatures_make_a_payment_take_longer() {
        // One at a time: with more of them batches grow, and fewer signatures are made.
        let load = Load { customers: 4, each: 1 };
        let took = |prices| {
            let bank = Bank { members: 4, profile: Profile::II, load, bin: Span::millis(100) };
            let mut running = bank.open(&Circumstances { prices, ..circumstances() }).expect("four members");
            running.run(later(BEGIN, Span::millis(200))).expect("nothing breaks");
            running.crowd.timeline.latency_us((BEGIN, later(BEGIN, Span::millis(200))), 500)
        };
        let (today, then) = (took(PriceList::Today), took(PriceList::Of2020));
        assert!(today > 0 && then > today, "{then} us of 2020, {today} today");
    }
}
