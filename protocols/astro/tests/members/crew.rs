//! Institutions, those who join and leave among them, under drawn schedules.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use synod_astro::member::{self, Input, Member, Network, Output};
use synod_astro::views::{Change, Endorsement, Founding, Operator, View};
use synod_astro::{Auth, Authorized, Batches, Draft, Line, Parameters};
use synod_broadcast::{SignedBroadcast, signed};
use synod_crypto::{Hash, Keys, Scope, Seed};
use synod_ledger::{
    AccountId, Digests, Entry, EntryId, Flags, Kind, Leg, Opening, Owner, Part, Terms, Units, UserData,
    genesis,
};
use synod_machine::testing::{Users, World, pick};
use synod_quorum::{Epoch, NodeId};
use synod_wire::Drawn;

use crate::books::{LIMIT, Told};

pub(crate) type Broadcast = SignedBroadcast<Batches>;
pub(crate) type Machine = Member<Broadcast, signed::Certificate>;
pub(crate) type Config = member::Config<Broadcast>;

pub(crate) const CLUSTER: Hash = Hash([4; 32]);
const EURO: u32 = 978;
/// Members of the first view.
pub(crate) const FOUNDERS: u8 = 4;

fn seed(id: u32) -> Seed {
    Seed::new([u8::try_from(id).expect("few") + 1; 32])
}

pub(crate) fn keys(id: u32) -> Keys {
    Keys::ed25519(&seed(id), [9; 32])
}

fn operator(at: u8) -> Keys {
    Keys::ed25519(&Seed::new([at + 200; 32]), [9; 32])
}

/// The keys of an account that signs for itself.
fn owner(id: AccountId) -> Keys {
    let mut secret = [77; 32];
    (secret[0], secret[1]) = (id.local.to_le_bytes()[0], id.registrar.to_le_bytes()[0]);
    Keys::ed25519(&Seed::new(secret), [9; 32])
}

pub(crate) fn account(registrar: u32, local: u64) -> AccountId {
    AccountId { shard: 0, registrar, local }
}

pub(crate) fn opening(id: AccountId, owner: Owner, limit: u128) -> Opening {
    let terms = Terms { owner, recovery: None, limit: Units(limit), code: 1, user_data: UserData::default() };
    let representative = u8::try_from(id.registrar).expect("few");
    Opening { id, ledger: EURO, terms, limit_max: Units(limit), representative }
}

pub(crate) fn join(member: u8) -> Change {
    Change::Join { member, key: seed(u32::from(member)).public() }
}

pub(crate) const fn leave(member: u8) -> Change {
    Change::Leave { member }
}

pub(crate) fn founding() -> Arc<Founding> {
    let members = (0..FOUNDERS).map(|id| (id, seed(u32::from(id)).public())).collect();
    let operators = (0..4).map(|at| operator(at).public()).collect();
    Arc::new(Founding { cluster: CLUSTER, shard: 0, members, operators })
}

pub(crate) fn endorsed(founding: &Founding, change: Change) -> Endorsement {
    let sign = |at: u8| {
        let (scope, sworn) = founding.endorsed(change);
        let signature = operator(at).sign(scope, NodeId(u32::from(at)), sworn).signature;
        Operator { operator: at, signature }
    };
    let signed = [0, 1, 3].map(sign).to_vec();
    Endorsement { change, signed: signed.try_into().expect("few") }
}

pub(crate) fn config(me: NodeId, retain: u64) -> Config {
    let genesis = (0..u32::from(FOUNDERS)).flat_map(|registrar| {
        let institution = Owner::Custodial(u8::try_from(registrar).expect("few"));
        let own = Owner::SelfSigned(owner(account(registrar, 3)).public());
        [
            opening(account(registrar, 1), institution, LIMIT),
            opening(account(registrar, 2), institution, 0),
            opening(account(registrar, 3), own, 0),
        ]
    });
    let network: Arc<Network<Broadcast>> =
        Arc::new(|me, view, begun, bounds| Box::new(signed::Setup::begun(me, view, begun, bounds)));
    Config {
        me,
        founding: founding(),
        genesis: genesis.collect(),
        caps: (0..16).map(|registrar| (registrar, Units(2 * LIMIT))).collect(),
        parameters: Parameters {
            batch_max: 5,
            batch_bytes: 8 << 10,
            window: 16,
            accounts_max: 90,
            lane_window: 8,
            retain,
            ..Parameters::default()
        },
        trusts_owners: true,
        network,
    }
}

pub(crate) fn pay(spender: AccountId, to: AccountId, amount: u128, transfer: u128) -> Draft {
    let kind = Kind::Pay(Leg { to, amount: Units(amount) });
    let (user_data, flags) = (UserData::default(), Flags::default());
    Draft { spender, kind, transfer, ledger: EURO, code: 0, user_data, flags }
}

/// An issuer pays a customer of its own institution.
pub(crate) fn order(registrar: u8, name: u128) -> synod_astro::Input {
    let registrar = u32::from(registrar);
    let draft = pay(account(registrar, 1), account(registrar, 2), 1, name);
    synod_astro::Input::Order { ticket: 0, draft }
}

/// An entry that its owner signs.
fn signed_by(owner: &Keys, id: EntryId, prev: Hash, draft: Draft) -> (Line, Hash) {
    let Draft { kind, transfer, ledger, code, user_data, flags, .. } = draft;
    let entry = Entry { id, prev, kind, transfer, ledger, code, user_data, flags };
    let digest = Digests::default().entry(&entry);
    let scope = Scope { cluster: CLUSTER, epoch: Epoch(0) };
    let claim = owner.sign(scope, NodeId(u32::MAX), Authorized { entry: digest });
    (Line { entry: entry.into(), auth: Auth::Owner(claim.signature) }, digest)
}

/// What one member told of views.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) running: Option<View>,
    pub(crate) resumed: Vec<View>,
    pub(crate) left: bool,
    pub(crate) too_far: bool,
}

/// The users of all.
pub(crate) struct Crew {
    pub(crate) founding: Arc<Founding>,
    pub(crate) told: Vec<Told>,
    pub(crate) seen: Vec<Seen>,
    /// Batches of each lane that members keep.
    retain: u64,
    /// Every view that somebody resumed in.
    resumed: BTreeSet<View>,
}

impl Crew {
    /// A-S9: views that resume are one sequence.
    fn judge(&self) {
        for one in &self.resumed {
            for other in &self.resumed {
                assert!(one.within(other) || other.within(one), "resumed views are no chain");
            }
        }
    }

    /// A-S1 over all members and views: one entry per place.
    pub(crate) fn agree(&self) {
        let mut all: BTreeMap<EntryId, Hash> = BTreeMap::new();
        for (id, (_, digest)) in self.told.iter().flat_map(|told| &told.settled) {
            assert_eq!(all.entry(*id).or_insert(*digest), digest, "{id:?} settles differently");
        }
    }
}

impl Users for Crew {
    type Machine = Machine;

    fn config(&self, id: NodeId) -> Config {
        config(id, self.retain)
    }

    fn keys(&self, id: NodeId) -> Keys {
        keys(id.0)
    }

    fn told(&mut self, id: NodeId, output: Output) -> Vec<Input> {
        let at = id.0 as usize;
        let seen = &mut self.seen[at];
        match output {
            Output::Pay(output) => {
                let kept = self.told[at].hear(output);
                return kept.map(|kept| Input::Pay(synod_astro::Input::Kept(kept))).into_iter().collect();
            }
            Output::Stopped(_) => seen.running = None,
            Output::Resumed(roll) => {
                assert!(seen.resumed.last().is_none_or(|last| last.within(roll.view())), "views go up");
                seen.resumed.push(roll.view().clone());
                seen.running = Some(roll.view().clone());
                self.resumed.insert(roll.view().clone());
                self.judge();
            }
            Output::Left(_) => seen.left = true,
            Output::TooFar(_) => seen.too_far = true,
            Output::Refused { .. } | Output::Confirmed(_) => {}
            Output::Contradiction { .. } => unreachable!("nobody lies about views"),
        }
        Vec::new()
    }
}

/// An order that is given until it settles.
#[derive(Clone)]
struct Order {
    by: u8,
    input: synod_astro::Input,
}

/// Members and their customers.
pub(crate) struct Town {
    world: World<Crew>,
    pub(crate) drawn: Drawn,
    /// What was ordered, by the caller's name.
    orders: BTreeMap<u128, Order>,
    /// The logs of those who sign, as their wallets know them.
    logs: BTreeMap<AccountId, (u64, Hash)>,
    /// Institutions that take orders.
    pub(crate) open: Vec<u8>,
}

impl Deref for Town {
    type Target = World<Crew>;
    fn deref(&self) -> &World<Crew> {
        &self.world
    }
}

impl DerefMut for Town {
    fn deref_mut(&mut self) -> &mut World<Crew> {
        &mut self.world
    }
}

impl Town {
    pub(crate) fn new(nodes: u8, seed: u64) -> Self {
        Self::keeping(nodes, seed, 512)
    }

    /// The same where members keep so many batches of each lane.
    pub(crate) fn keeping(nodes: u8, seed: u64, retain: u64) -> Self {
        let crew = Crew {
            founding: founding(),
            told: (0..nodes).map(|_| Told::default()).collect(),
            seen: (0..nodes).map(|_| Seen::default()).collect(),
            retain,
            resumed: BTreeSet::new(),
        };
        Self {
            world: World::new(u32::from(nodes), seed, crew),
            drawn: Drawn::new(seed ^ 0x3a7),
            orders: BTreeMap::new(),
            logs: BTreeMap::new(),
            open: (0..FOUNDERS).collect(),
        }
    }

    pub(crate) fn change(&mut self, by: u8, change: Change) {
        let endorsement = endorsed(&self.users.founding, change);
        self.ask(NodeId(u32::from(by)), Input::Change(endorsement));
    }

    /// A drawn payment: of an issuer, of a customer whose institution signs, or of one who signs and gives it to anybody.
    pub(crate) fn order(&mut self) {
        let name = self.orders.len() as u128 + 1;
        let open = self.open.clone();
        let by = open[pick(&mut self.drawn, open.len())];
        let registrar = u32::from(by);
        let founder = |drawn: &mut Drawn| u32::try_from(pick(drawn, usize::from(FOUNDERS))).expect("few");
        let to = account(founder(&mut self.drawn), 2 + self.drawn.below(2));
        let amount = 1 + u128::from(self.drawn.below(9));
        let input = match self.drawn.below(4) {
            0 => {
                let spender = account(founder(&mut self.drawn), 3);
                let (n, head) = self.logs.get(&spender).copied().unwrap_or((0, genesis(spender)));
                let draft = pay(spender, to, 1, name);
                let (line, digest) = signed_by(&owner(spender), EntryId { spender, n: n + 1 }, head, draft);
                if to == spender {
                    return;
                }
                self.logs.insert(spender, (n + 1, digest));
                synod_astro::Input::Signed { ticket: 0, line }
            }
            1 if by < FOUNDERS && to != account(registrar, 2) => {
                synod_astro::Input::Order { ticket: 0, draft: pay(account(registrar, 2), to, 1, name) }
            }
            _ => synod_astro::Input::Order {
                ticket: 0,
                draft: pay(account(registrar, 1), to, amount + 20, name),
            },
        };
        self.orders.insert(name, Order { by, input: input.clone() });
        self.ask(NodeId(registrar), Input::Pay(input));
    }

    /// Everybody gets money, so that whatever was ordered can settle.
    fn fund(&mut self) {
        let by = self.open[0];
        for to in (0..u32::from(FOUNDERS)).flat_map(|registrar| [2, 3].map(|local| account(registrar, local)))
        {
            let name = self.orders.len() as u128 + 1;
            let draft = pay(account(u32::from(by), 1), to, 90, name);
            let input = synod_astro::Input::Order { ticket: 0, draft };
            self.orders.insert(name, Order { by, input });
        }
    }

    /// Gives every order again that has not settled with whoever took it; what owners signed goes to somebody who takes orders.
    pub(crate) fn order_again(&mut self) {
        let orders: Vec<(u128, Order)> = self.orders.iter().map(|(name, one)| (*name, one.clone())).collect();
        for (name, Order { by, input }) in orders {
            let is_signed = matches!(input, synod_astro::Input::Signed { .. });
            let by = if is_signed && !self.open.contains(&by) { self.open[0] } else { by };
            let is_settled = self.users.told[usize::from(by)].names.contains(&name);
            if !is_settled && self.open.contains(&by) {
                self.ask(NodeId(u32::from(by)), Input::Pay(input));
            }
        }
    }

    /// Orders that somebody who still takes orders took.
    pub(crate) fn taken(&self) -> BTreeSet<u128> {
        let is_open = |(_, one): &(&u128, &Order)| {
            self.open.contains(&one.by) || matches!(one.input, synod_astro::Input::Signed { .. })
        };
        self.orders.iter().filter(is_open).map(|(name, _)| *name).collect()
    }

    /// Payments go on while drawn things happen.
    pub(crate) fn trade(&mut self, orders: u64) {
        for _ in 0..orders {
            self.order();
            let steps = self.drawn.below(25);
            self.go_on(steps);
        }
    }

    /// Some steps, then a member crashes and comes back.
    pub(crate) fn crash(&mut self) {
        let steps = self.drawn.below(120);
        self.world.go_on(steps);
        let at = pick(&mut self.drawn, self.world.seats.len());
        let compacted = self.drawn.below(3) == 0;
        self.users.seen[at].running = None;
        self.world.restart(NodeId(u32::try_from(at).expect("few")), compacted);
    }

    /// Whether all members of the view with these changes run in it.
    pub(crate) fn runs(&self, changes: &[Change], members: &[usize]) -> bool {
        let view = View::of(changes.iter().copied()).expect("few");
        members.iter().all(|id| self.users.seen[*id].running.as_ref() == Some(&view))
    }

    /// Goes on until these members run in that view; false after too long.
    pub(crate) fn until_runs(&mut self, changes: &[Change], members: &[usize]) -> bool {
        self.world.loss = 0;
        (0..60_000).any(|_| self.runs(changes, members) || !self.world.happen())
            && self.runs(changes, members)
    }

    /// Goes on until these members settled all orders that were taken; false after too long.
    pub(crate) fn until_settled(&mut self, members: &[usize]) -> bool {
        self.world.loss = 0;
        self.fund();
        for _ in 0..60 {
            self.order_again();
            let taken = self.taken();
            let is_done = |world: &World<Crew>| {
                let mut told = members.iter().map(|id| &world.users.told[*id]);
                told.all(|told| taken.is_subset(&told.names))
            };
            if (0..2_000).any(|_| is_done(&self.world) || !self.world.happen()) && is_done(&self.world) {
                return true;
            }
        }
        false
    }

    /// At quiescence the books of these members are the same, and what any member settled all have.
    pub(crate) fn assert_equal(&mut self, members: &[usize]) {
        let same = |world: &World<Crew>| {
            let one = &world.users.told[members[0]].settled;
            members.iter().all(|id| world.users.told[*id].settled.keys().eq(one.keys()))
        };
        assert!(self.world.until(same), "members settle the same");
        self.users.agree();
        let parts = |id: &usize| {
            let mut parts: Vec<Part> = Vec::new();
            let replica = self.seats[*id].machine.replica().expect("it entered a view");
            replica.book().parts(&mut |part| parts.push(part));
            parts
        };
        let books: Vec<Vec<Part>> = members.iter().map(parts).collect();
        assert!(books.windows(2).all(|two| two[0] == two[1]), "equal entries make equal books");
    }
}
