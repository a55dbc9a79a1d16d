//! Customers of four or more institutions, and a bookkeeper who trusts nobody: what every member tells is checked against sums
//! kept by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_astro::wallet::Log;
use synod_astro::{
    Accounts, Auth, Authorized, Batches, Config, CutCertificate, Draft, Input, Invitation, Level, Line,
    Opened, Output, Parameters, Proof, Receipt, Refusal, RootRecord, Seen, Setup, SignedTogether, Verify,
};
use synod_broadcast::signed::{self, Context, View};
use synod_broadcast::{Lot, SignedBroadcast};
use synod_crypto::bls::BlsSecret;
use synod_crypto::{Hash, Keys, Scope, Seed};
use synod_ledger::{
    AccountId, Book, Digests, Entry, EntryId, Flags, Kind, Leg, Opening, Owner, Part, Terms, Units, UserData,
    genesis,
};
use synod_machine::testing::{Users, World as Members};
use synod_machine::{Machine, Span};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_wire::{Bytes, List};

pub(crate) const CLUSTER: Hash = Hash([4; 32]);
pub(crate) const CONTEXT: Context = Context { shard: 0, view: Hash([5; 32]) };
pub(crate) const EPOCH: Epoch = Epoch(7);
pub(crate) const EURO: u32 = 978;
/// What issuers may owe.
pub(crate) const LIMIT: u128 = 1_000_000;

pub(crate) type World = Members<Bank>;
pub(crate) type Replica = synod_astro::Replica<SignedBroadcast<Batches>>;
pub(crate) type Message = synod_astro::Message<signed::Message>;

/// The secret of a member.
fn seed(id: u32) -> Seed {
    Seed::new([u8::try_from(id).expect("few") + 1; 32])
}

pub(crate) fn keys(id: u32) -> Keys {
    Keys::ed25519(&seed(id), [9; 32])
}

/// The keys of an account that signs for itself.
pub(crate) fn owner(id: AccountId) -> Keys {
    let [low, ..] = id.local.to_le_bytes();
    let [lane, ..] = id.registrar.to_le_bytes();
    let mut secret = [77; 32];
    (secret[0], secret[1]) = (low, lane);
    Keys::ed25519(&Seed::new(secret), [9; 32])
}

/// The same with a secret for what it signs with others.
pub(crate) fn sharing(id: AccountId) -> Keys {
    let secret = Hash::of_value("a secret of the test", &id);
    owner(id).with_bls(BlsSecret::new(&Seed::new(secret.0)))
}

/// What stands for an owner who may sign with others.
pub(crate) fn distilled(id: AccountId) -> Owner {
    let keys = sharing(id);
    Owner::Distilled { single: keys.public(), multi: keys.bls_public().expect("it has one").to_bytes() }
}

/// The issuer of an institution.
pub(crate) fn issuer(registrar: u32) -> AccountId {
    account(registrar, 1)
}

/// A customer whose institution signs.
pub(crate) fn custodial(registrar: u32) -> AccountId {
    account(registrar, 2)
}

/// A customer who signs.
pub(crate) fn signing(registrar: u32) -> AccountId {
    account(registrar, 3)
}

pub(crate) fn account(registrar: u32, local: u64) -> AccountId {
    AccountId { shard: 0, registrar, local }
}

pub(crate) fn opening(id: AccountId, owner: Owner, limit: u128) -> Opening {
    let terms = Terms { owner, recovery: None, limit: Units(limit), code: 1, user_data: UserData::default() };
    let representative = u8::try_from(id.registrar).expect("few");
    Opening { id, ledger: EURO, terms, limit_max: Units(limit), representative }
}

pub(crate) fn view(n: u32) -> Arc<View> {
    let members = (0..n).map(|id| Member { key: seed(id).public(), power: 1 });
    let roster = Roster::new(EPOCH, members.collect()).expect("distinct members");
    Arc::new(View { cluster: CLUSTER, roster: Arc::new(roster), context: CONTEXT })
}

pub(crate) fn config(n: u32, me: NodeId) -> Setup<SignedBroadcast<Batches>> {
    cutting(n, me, Span::ZERO)
}

/// The same where cuts are proposed.
pub(crate) fn cutting(n: u32, me: NodeId, checkpoint_every: Span) -> Setup<SignedBroadcast<Batches>> {
    let mut config = numbers(n, me);
    config.parameters.checkpoint_every = checkpoint_every;
    let channel = signed::Setup::under(me, view(n), config.parameters.bounds());
    Setup { config, channel: Box::new(channel) }
}

/// The same where witnesses check owners' signatures, so many beyond those that are needed.
pub(crate) fn witnessing(n: u32, me: NodeId, margin: u8) -> Setup<SignedBroadcast<Batches>> {
    let mut setup = config(n, me);
    setup.config.parameters.verify = Verify::Witness { margin };
    setup
}

/// The same where owners are waited for to sign together: customers 3 to 8 of each institution.
pub(crate) fn distilling(n: u32, me: NodeId) -> Setup<SignedBroadcast<Batches>> {
    let mut setup = config(n, me);
    let institution = |registrar: u32| Owner::Custodial(u8::try_from(registrar).expect("few"));
    let genesis = (0..n).flat_map(|registrar| {
        let first = [(issuer(registrar), LIMIT), (custodial(registrar), 0)];
        let first = first.map(|(id, limit)| opening(id, institution(registrar), limit));
        let together = (3..=8).map(move |local| account(registrar, local));
        first.into_iter().chain(together.map(|id| opening(id, distilled(id), 0)))
    });
    setup.config.genesis = genesis.collect();
    setup.config.parameters.distil = Span::millis(100);
    setup
}

/// What an owner gives who is asked to sign with others.
pub(crate) fn share(invited: &Invitation) -> Input {
    let (number, owner) = (invited.number, invited.leaf.spender);
    let scope = Scope { cluster: CLUSTER, epoch: Epoch(0) };
    let signed = sharing(owner).sign_bls(&scope, &SignedTogether { root: invited.root });
    Input::Share { number, owner, share: signed.expect("it has a secret").to_share() }
}

/// What a member knows, whatever it broadcasts with: no cuts are proposed.
pub(crate) fn numbers(n: u32, me: NodeId) -> Config {
    let genesis = (0..n).flat_map(|registrar| {
        let institution = Owner::Custodial(u8::try_from(registrar).expect("few"));
        let own = Owner::SelfSigned(owner(signing(registrar)).public());
        [
            opening(issuer(registrar), institution, LIMIT),
            opening(custodial(registrar), institution, 0),
            opening(signing(registrar), own, 0),
        ]
    });
    Config {
        me,
        view: view(n),
        genesis: genesis.collect(),
        caps: (0..n).map(|registrar| (registrar, Units(2 * LIMIT))).collect(),
        shards: synod_astro::Shards::default(),
        parameters: Parameters {
            batch_max: 5,
            batch_bytes: 8 << 10,
            batch_wait: Span::millis(5),
            window: 16,
            accounts_max: 90,
            lane_window: 8,
            retain: 16,
            checkpoint_every: Span::ZERO,
            ..Parameters::default()
        },
    }
}

pub(crate) fn pay(to: AccountId, amount: u128) -> Kind {
    Kind::Pay(Leg { to, amount: Units(amount) })
}

/// Pays several.
pub(crate) fn multi(legs: &[(AccountId, u128)]) -> Kind {
    let legs: Vec<Leg> = legs.iter().map(|(to, amount)| Leg { to: *to, amount: Units(*amount) }).collect();
    Kind::MultiPay(List::try_from(legs).expect("few"))
}

/// Sets money aside.
pub(crate) fn hold_kind(to: AccountId, amount: u128, resolver: AccountId) -> Kind {
    Kind::Hold { to, amount: Units(amount), resolver, expires_at: 0 }
}

pub(crate) fn draft(spender: AccountId, kind: Kind, transfer: u128) -> Draft {
    Draft {
        spender,
        kind,
        transfer,
        ledger: EURO,
        code: 0,
        user_data: UserData::default(),
        flags: Flags::default(),
    }
}

pub(crate) fn digest(entry: &Entry) -> Hash {
    Digests::default().entry(entry)
}

/// An entry that its owner signs.
pub(crate) fn signed(id: EntryId, prev: Hash, kind: Kind, transfer: u128) -> Line {
    let Draft { ledger, code, user_data, flags, .. } = draft(id.spender, kind.clone(), transfer);
    let entry = Entry { id, prev, kind, transfer, ledger, code, user_data, flags };
    let scope = Scope { cluster: CLUSTER, epoch: Epoch(0) };
    let statement = Authorized { entry: digest(&entry) };
    let claim = owner(id.spender).sign(scope, NodeId(u32::MAX), statement);
    Line { entry: entry.into(), auth: Auth::Owner(claim.signature) }
}

/// The first entry of a log.
pub(crate) fn first(spender: AccountId, kind: Kind, transfer: u128) -> Line {
    signed(EntryId { spender, n: 1 }, genesis(spender), kind, transfer)
}

/// Users of members who remember what those told.
pub(crate) trait Tells: Users<Machine: Machine<Input = Input, Output = Output>> {
    /// Of each member.
    fn told(&self) -> &[Told];
    /// The book of a member.
    fn book(machine: &Self::Machine) -> &Book;
}

/// What one member told.
#[derive(Default)]
pub(crate) struct Told {
    /// Settled entries by place.
    pub(crate) settled: BTreeMap<EntryId, (Entry, Hash)>,
    /// Those that took their places and moved nothing.
    pub(crate) rejected: BTreeSet<EntryId>,
    /// Whether digests cover more than the entries.
    has_backings: bool,
    /// Members that were shown with a word on signatures which is not so.
    pub(crate) false_witnesses: BTreeSet<NodeId>,
    pub(crate) order: BTreeMap<u64, EntryId>,
    balances: BTreeMap<AccountId, i128>,
    pub(crate) accepted: BTreeMap<u64, (Entry, Hash)>,
    pub(crate) refused: BTreeMap<u64, Refusal>,
    pub(crate) queued: BTreeSet<u64>,
    pub(crate) levels: BTreeMap<EntryId, BTreeSet<Level>>,
    pub(crate) conflicts: BTreeSet<EntryId>,
    pub(crate) doubled: usize,
    pub(crate) looked: BTreeMap<u64, Vec<Seen>>,
    pub(crate) checked: BTreeMap<u64, Option<Refusal>>,
    pub(crate) logs: BTreeMap<u64, Option<Log>>,
    pub(crate) numbered: BTreeMap<u64, AccountId>,
    pub(crate) opened: Vec<AccountId>,
    /// Batches with the proofs that were shown of them.
    pub(crate) certified: BTreeMap<Lot, (Arc<Opened>, Vec<Bytes>)>,
    /// Members' words about this one's batches.
    pub(crate) words: BTreeMap<Lot, BTreeMap<u8, Receipt>>,
    /// Certified cuts, by number.
    pub(crate) cuts: BTreeMap<u64, (RootRecord, CutCertificate)>,
    /// The accounts behind those that it signed.
    pub(crate) behind: BTreeMap<u64, Arc<Accounts>>,
    pub(crate) proofs: BTreeMap<u64, Option<Proof>>,
    /// How often it went on from a cut: what settled in between was not told.
    pub(crate) caught_up: usize,
}

impl Told {
    /// A-S1 to A-S6 at one member, by hand. After a restart, what was told is told again under its number.
    fn settle(&mut self, position: u64, entry: Entry, hash: Hash, is_paid: bool) {
        let told = self.settled.len() as u64;
        if position <= told {
            assert_eq!(
                self.order.get(&position),
                Some(&entry.id),
                "the order in which entries settle is one"
            );
            assert_eq!(self.rejected.contains(&entry.id), !is_paid);
            assert_eq!(self.settled.get(&entry.id), Some(&(entry, hash)));
            return;
        }
        assert_eq!(position, told + 1, "nothing is left out");
        self.order.insert(position, entry.id);
        if self.caught_up > 0 {
            // Nothing can be added up without what settled in between.
            drop(self.settled.insert(entry.id, (entry, hash)));
            return;
        }
        let EntryId { spender, n } = entry.id;
        let before = n.checked_sub(1).filter(|before| *before > 0).map(|n| EntryId { spender, n });
        let head = before.map_or(genesis(spender), |id| self.settled.get(&id).expect("logs have no gaps").1);
        assert_eq!(entry.prev, head, "a log is one chain");
        assert!(self.has_backings || hash == digest(&entry));
        let (to, amount) = match &entry.kind {
            _ if !is_paid => (spender, 0),
            Kind::Pay(Leg { to, amount: Units(amount) }) => (*to, i128::try_from(*amount).expect("small")),
            Kind::Move(_) => (spender, 0),
            _ => unreachable!("payments and moves alone"),
        };
        *self.balances.entry(spender).or_default() -= amount;
        *self.balances.entry(to).or_default() += amount;
        let limit = if spender.local == 1 { i128::try_from(LIMIT).expect("small") } else { 0 };
        // Where payments are shown by dependencies, an entry may settle before the payment that it spends.
        let is_solvent = self.balances[&spender] >= -limit;
        assert!(self.has_backings || is_solvent, "{spender} spends what it does not have");
        assert_eq!(self.balances.values().sum::<i128>(), 0, "money is made");
        if !is_paid {
            self.rejected.insert(entry.id);
        }
        let twice = self.settled.insert(entry.id, (entry, hash));
        assert!(twice.is_none(), "an entry settles once");
    }

    /// Of a member whose entries' digests cover more than the entries.
    pub(crate) fn backed() -> Self {
        Self { has_backings: true, ..Self::default() }
    }

    /// A-S6 once everything has settled: nobody but issuers owes anything.
    pub(crate) fn is_solvent(&self) -> bool {
        let limit = |id: &AccountId| if id.local == 1 { i128::try_from(LIMIT).expect("small") } else { 0 };
        self.balances.iter().all(|(id, balance)| *balance >= -limit(id))
    }

    /// Takes in what its member tells.
    pub(crate) fn hear(&mut self, output: Output) -> Vec<Input> {
        match output {
            Output::Accepted { ticket, entry, digest } => {
                drop(self.accepted.insert(ticket, ((*entry).clone(), digest)))
            }
            Output::Queued { ticket } => drop(self.queued.insert(ticket)),
            Output::Refused { ticket, why } => drop(self.refused.insert(ticket, why)),
            Output::Progress { level, entries } => {
                for (id, _) in entries {
                    self.levels.entry(id).or_default().insert(level);
                }
            }
            Output::Rejected { position, entry, digest } => {
                self.settle(position, (*entry).clone(), digest, false);
            }
            Output::Settled { first, entries } => {
                let last = first + entries.len() as u64 - 1;
                for (position, (entry, digest)) in (first..).zip(entries) {
                    self.settle(position, (*entry).clone(), digest, true);
                }
                // Every third time the user says how much it keeps.
                let third = last - last % 3;
                if third >= first {
                    return vec![Input::Kept(third - 1)];
                }
            }
            Output::Looked { ticket, accounts } => drop(self.looked.insert(ticket, accounts)),
            Output::Checked { ticket, why } => drop(self.checked.insert(ticket, why)),
            Output::Log { ticket, log } => drop(self.logs.insert(ticket, log)),
            Output::CutCertified { record, certificate, accounts } => {
                self.behind.extend(accounts.map(|accounts| (record.number, accounts)));
                drop(self.cuts.insert(record.number, (*record, *certificate)));
            }
            Output::Proof { ticket, proof } => drop(self.proofs.insert(ticket, proof.map(|proof| *proof))),
            Output::CaughtUp { .. } => self.caught_up += 1,
            Output::FalseWitness { member, .. } => drop(self.false_witnesses.insert(member)),
            Output::TwoRoots { member, .. } => unreachable!("{member} signs two roots, and nobody lies"),
            Output::Numbered { ticket, account } => drop(self.numbered.insert(ticket, account)),
            Output::Opened(account) => self.opened.push(account),
            Output::Certified { opened, proofs } => {
                drop(self.certified.insert(opened.lot(), (opened, proofs)));
            }
            Output::Receipted(word) => {
                drop(self.words.entry(word.lot).or_default().insert(word.member, word))
            }
            Output::Conflict { id, .. } => drop(self.conflicts.insert(id)),
            Output::TwoBatches { .. } => self.doubled += 1,
            Output::Imported { .. } => unreachable!("there is one shard"),
            Output::Invited(_) | Output::Lanes { .. } | Output::Bundles { .. } => {}
            Output::Contradiction { id, .. } => unreachable!("{id:?} contradicts, and one member lies"),
        }
        Vec::new()
    }
}

/// The users of all members.
pub(crate) struct Bank {
    n: u32,
    /// How often cuts are proposed.
    cuts: Span,
    /// Witnesses beyond those that are needed, where there are witnesses.
    margin: Option<u8>,
    /// Whether owners are asked to sign together; a third of them does not answer.
    distils: bool,
    pub(crate) told: Vec<Told>,
}

impl Bank {
    pub(crate) fn world(n: u32, seed: u64) -> World {
        Self::cutting(n, seed, Span::ZERO)
    }

    /// The same where cuts are proposed.
    pub(crate) fn cutting(n: u32, seed: u64, cuts: Span) -> World {
        Members::new(n, seed, Self::of(n, cuts))
    }

    /// The same without cuts, where witnesses check owners' signatures.
    pub(crate) fn witnessing(n: u32, seed: u64, margin: u8) -> World {
        Members::new(n, seed, Self { margin: Some(margin), ..Self::of(n, Span::ZERO) })
    }

    /// The same where owners are asked to sign together.
    pub(crate) fn distilling(n: u32, seed: u64) -> World {
        Members::new(n, seed, Self { distils: true, ..Self::of(n, Span::ZERO) })
    }

    fn of(n: u32, cuts: Span) -> Self {
        let told = (0..n).map(|_| Told::default()).collect();
        Self { n, cuts, margin: None, distils: false, told }
    }
}

impl Users for Bank {
    type Machine = Replica;

    fn config(&self, id: NodeId) -> Setup<SignedBroadcast<Batches>> {
        match self.margin {
            Some(margin) => witnessing(self.n, id, margin),
            None if self.distils => distilling(self.n, id),
            None => cutting(self.n, id, self.cuts),
        }
    }

    fn keys(&self, id: NodeId) -> Keys {
        keys(id.0)
    }

    fn told(&mut self, id: NodeId, output: Output) -> Vec<Input> {
        match output {
            Output::Invited(invited) => {
                let answer = invited
                    .iter()
                    .filter(|invited| (invited.number + u64::from(invited.proof.index)) % 3 != 2);
                answer.map(share).collect()
            }
            output => self.told[id.0 as usize].hear(output),
        }
    }
}

impl Tells for Bank {
    fn told(&self) -> &[Told] {
        &self.told
    }

    fn book(machine: &Replica) -> &Book {
        machine.book()
    }
}

/// What correct members told.
pub(crate) fn told<U: Tells>(world: &Members<U>) -> impl Iterator<Item = &Told> {
    world.correct().map(|(id, _)| &world.users.told()[id.0 as usize])
}

/// A-S1 over members: one entry per place.
pub(crate) fn agrees<U: Tells>(world: &Members<U>) -> bool {
    let mut all: BTreeMap<EntryId, Hash> = BTreeMap::new();
    told(world)
        .flat_map(|told| &told.settled)
        .all(|(id, (_, hash))| *all.entry(*id).or_insert(*hash) == *hash)
}

/// Runs until correct members settled the same entries, at least so many; false after too long.
pub(crate) fn settle<U: Tells>(world: &mut Members<U>, count: usize) -> bool {
    world.until(|world| {
        let mut logs = told(world).map(|told| &told.settled);
        let Some(one) = logs.next() else { return true };
        one.len() >= count && logs.all(|log| log.keys().eq(one.keys()))
    })
}

pub(crate) fn parts(book: &Book) -> Vec<Part> {
    let mut parts = Vec::new();
    book.parts(&mut |part| parts.push(part));
    parts
}

/// At quiescence all correct books are equal.
pub(crate) fn equal_books<U: Tells>(world: &Members<U>) {
    let books: Vec<Vec<Part>> = world.correct().map(|(_, seat)| parts(U::book(&seat.machine))).collect();
    assert!(books.windows(2).all(|two| two[0] == two[1]), "equal entries make equal books");
}

/// Orders a payment of a customer of an institution.
pub(crate) fn order<U: Tells>(
    world: &mut Members<U>,
    ticket: u64,
    spender: AccountId,
    to: AccountId,
    amount: u128,
) {
    let draft = draft(spender, pay(to, amount), u128::from(ticket));
    world.ask(NodeId(spender.registrar), Input::Order { ticket, draft });
}
