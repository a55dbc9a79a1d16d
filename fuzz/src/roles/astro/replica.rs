//! The replica with its representative: three institutions with customers and owners, and a fourth that lies with owners who do.

use core::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use synod_astro::{
    Auth, Authorized, Batches, Config, Draft, Input, Line, Message, Opened, Output, Parameters, Receipt,
    Replica, Settled, Setup, Word,
};
use synod_broadcast::signed::{self, Except};
use synod_broadcast::{Lot, SignedBroadcast};
use synod_crypto::{Hash, Keys, Scope, Seed};
use synod_ledger::{
    AccountId, Digests, Entry, EntryId, Flags, Kind, Leg, Opening, Owner, Terms, Total, Units, UserData,
    Verdict, genesis,
};
use synod_machine::Span;
use synod_machine::host::Host;
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Bytes, Draw, Drawn, Limits, List, Wire};

use super::super::CLUSTER;
use super::flock::{Flock, HONEST, LIAR, Open, Play, framed, member, opened};
use super::forge::{prepare, resigned, sign, view};
use crate::check::accept;
use crate::tape::Tape;

type Astro = Replica<SignedBroadcast<Batches>>;
type Hosting = Host<Astro>;
type Spoken = Message<signed::Message>;

/// Members, one of which lies.
const MEMBERS: u32 = 4;
/// What issuers may owe.
const LIMIT: u128 = 1_000;
/// The ledger of all accounts.
const EURO: u32 = 978;
/// Ends of chains that an owner remembers.
const CHAINS_MAX: usize = 6;

/// An account: the issuer, a customer, and an owner who signs.
const fn account(registrar: u32, local: u64) -> AccountId {
    AccountId { shard: 0, registrar, local }
}

fn owner(id: AccountId) -> Keys {
    Keys::ed25519(&Seed::new([100 + id.registrar.to_le_bytes()[0]; 32]), [9; 32])
}

fn opening(id: AccountId) -> Opening {
    let representative = id.registrar.to_le_bytes()[0];
    let owner = match id.local {
        3 => Owner::SelfSigned(owner(id).public()),
        _ => Owner::Custodial(representative),
    };
    let limit = Units(if id.local == 1 { LIMIT } else { 0 });
    let terms = Terms { owner, recovery: None, limit, code: 1, user_data: UserData::default() };
    Opening { id, ledger: EURO, terms, limit_max: limit, representative }
}

fn setup(at: usize) -> Setup<SignedBroadcast<Batches>> {
    let config = Config {
        me: member(at),
        view: view(),
        genesis: (0..MEMBERS).flat_map(|of| (1..=3).map(move |local| opening(account(of, local)))).collect(),
        caps: (0..MEMBERS).map(|registrar| (registrar, Units(2 * LIMIT))).collect(),
        shards: synod_astro::Shards::default(),
        parameters: Parameters {
            batch_max: 4,
            batch_bytes: 4 << 10,
            window: 4,
            lane_window: 4,
            retain: 8,
            pull: Span::millis(50),
            pull_max: Span::millis(200),
            resend: Span::millis(100),
            resend_max: Span::millis(400),
            ..Parameters::default()
        },
    };
    let channel = signed::Setup::under(member(at), view(), config.parameters.bounds());
    Setup { config, channel: Box::new(channel) }
}

fn open(at: usize) -> Open<Hosting> {
    opened(at, move |place, log| Host::open(place, setup(at), log))
}

/// Drives three replicas against a fourth.
///
/// # Panics
/// When an invariant breaks, memory is above its formula, two members settle different entries at one place, a log has a gap, what
/// was told is told otherwise after a restart, more comes than goes, certificates contradict each other, or an honest member is
/// blamed.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let mut world = World::new();
    world.play(&mut tape);
    (0..HONEST).for_each(|at| world.balances(at));
    if !world.settled.is_empty() {
        accept();
    }
}

struct World {
    flock: Flock<Hosting>,
    /// What settled at each place, at whoever was first.
    settled: BTreeMap<EntryId, Hash>,
    /// What each member told, in its order.
    told: Vec<Vec<(EntryId, Hash)>>,
    /// How far each member's logs are.
    heads: Vec<BTreeMap<AccountId, (u64, Hash)>>,
    /// Ends of the chains that owners signed.
    chains: BTreeMap<AccountId, Vec<(u64, Hash)>>,
    /// The liar's batches, by number.
    lane: BTreeMap<u64, Hash>,
    tickets: u64,
}

impl World {
    fn new() -> Self {
        Self {
            flock: Flock::new(open),
            settled: BTreeMap::new(),
            told: vec![Vec::new(); HONEST],
            heads: vec![BTreeMap::new(); HONEST],
            chains: BTreeMap::new(),
            lane: BTreeMap::new(),
            tickets: 0,
        }
    }

    /// As much comes as goes.
    fn balances(&self, at: usize) {
        let book = self.flock.seats[at].host.machine().book();
        let credits =
            book.accounts().try_fold(Total::ZERO, |sum, (_, of)| sum.checked_add(of.credits_posted()));
        let debits =
            book.accounts().try_fold(Total::ZERO, |sum, (_, of)| sum.checked_add(of.debits_posted()));
        assert!(credits.is_some() && credits == debits, "money is made or lost");
    }

    fn settle(&mut self, at: usize, position: u64, (entry, digest): (&Entry, Hash)) {
        let (id, told) = (entry.id, &mut self.told[at]);
        let place = usize::try_from(position.saturating_sub(1)).unwrap_or(usize::MAX);
        if let Some(known) = told.get(place) {
            assert_eq!(*known, (id, digest), "what was told is told otherwise");
            return;
        }
        assert_eq!(place, told.len(), "what settles is told without holes");
        told.push((id, digest));
        let head = self.heads[at].entry(id.spender).or_insert_with(|| (0, genesis(id.spender)));
        assert_eq!((id.n, entry.prev), (head.0 + 1, head.1), "a log is a chain without gaps");
        *head = (id.n, digest);
        let known = *self.settled.entry(id).or_insert(digest);
        assert_eq!(known, digest, "two entries settle at {id:?}");
        if position.is_multiple_of(3) {
            self.flock.ask(at, Input::Kept(position - 1));
        }
    }

    fn kind(tape: &mut Tape<'_>) -> Kind {
        let to =
            |tape: &mut Tape<'_>| account(u32::from(tape.byte()) % MEMBERS, 1 + u64::from(tape.byte()) % 4);
        let amount = |tape: &mut Tape<'_>| {
            let few = u128::from(tape.byte());
            Units(if tape.below(16) == 0 { u128::MAX >> (few % 128) } else { few })
        };
        let leg = |tape: &mut Tape<'_>| Leg { to: to(tape), amount: amount(tape) };
        match tape.below(12) {
            0 => Kind::MultiPay(List::try_from(vec![leg(tape), leg(tape)]).unwrap_or_default()),
            1 | 2 => Kind::Hold { to: to(tape), amount: amount(tape), resolver: to(tape), expires_at: 0 },
            3 | 4 => {
                let hold = EntryId { spender: to(tape), n: 1 + u64::from(tape.byte() % 4) };
                let post = vec![Units(1 + u128::from(tape.byte() % 8))];
                let verdict = match tape.below(2) {
                    0 => Verdict::Void,
                    _ => Verdict::Post(List::try_from(post).unwrap_or_default()),
                };
                Kind::Resolve { holds: List::try_from(vec![hold]).unwrap_or_default(), verdict }
            }
            5 => Kind::draw(&mut Drawn::new(u64::from(tape.word()))),
            _ => Kind::Pay(leg(tape)),
        }
    }

    fn order(&mut self, at: usize, tape: &mut Tape<'_>) {
        self.tickets += 1;
        // Now and then a name comes again.
        let transfer = u128::from(self.tickets - u64::from(tape.below(8) == 0));
        let spender = match tape.below(8) {
            0 => account(u32::from(tape.byte()) % MEMBERS, 2),
            1..=3 => account(member(at).0, 2),
            _ => account(member(at).0, 1),
        };
        let (user_data, flags) = (UserData::default(), Flags(u16::from(tape.below(4) == 0)));
        let kind = Self::kind(tape);
        let draft = Draft { spender, kind, transfer, ledger: EURO, code: 0, user_data, flags };
        self.flock.ask(at, Input::Order { ticket: self.tickets, draft });
    }

    /// An owner signs an entry behind one of the chains it made: most of them the longest, which is what honest owners do.
    fn sign(&mut self, tape: &mut Tape<'_>) -> Line {
        let spender = account(u32::from(tape.byte()) % MEMBERS, 3);
        let chains = self.chains.entry(spender).or_insert_with(|| vec![(0, genesis(spender))]);
        let at = if tape.below(4) == 0 { tape.below(chains.len()) } else { chains.len().saturating_sub(1) };
        let (n, prev) = chains.get(at).copied().unwrap_or((0, genesis(spender)));
        let (id, kind) = (EntryId { spender, n: n + 1 }, Self::kind(tape));
        self.tickets += 1;
        let line = line(id, prev, kind, u128::from(self.tickets) << 64);
        let digest = Digests::default().entry(&line.entry);
        let claim = owner(spender).sign(
            Scope { cluster: CLUSTER, epoch: Epoch(0) },
            NodeId(u32::MAX),
            Authorized { entry: digest },
        );
        if let Some(chains) = self.chains.get_mut(&spender) {
            chains.push((n + 1, digest));
            if chains.len() > CHAINS_MAX {
                chains.remove(0);
            }
        }
        Line { auth: Auth::Owner(claim.signature), ..line }
    }

    /// A batch in the liar's lane: entries of its own customers, of others', and of owners.
    fn batch(&mut self, tape: &mut Tape<'_>) -> Option<signed::Message> {
        let mut lines = Vec::new();
        for _ in 0..=tape.below(3) {
            if tape.below(2) == 0 {
                lines.push(self.sign(tape));
                continue;
            }
            let registrar = if tape.below(4) == 0 { u32::from(tape.byte()) % MEMBERS } else { LIAR.0 };
            let spender = account(registrar, 1 + u64::from(tape.byte() % 2));
            let (n, prev) = self.heads[0].get(&spender).copied().unwrap_or((0, genesis(spender)));
            let kind = Self::kind(tape);
            lines.push(line(EntryId { spender, n: n + 1 }, prev, kind, u128::from(tape.word()) << 32));
        }
        let openings = match tape.below(6) {
            0 => vec![opening(account(LIAR.0, 4))],
            _ => Vec::new(),
        };
        let next = self.lane.len() as u64 + 1;
        let sequence = if tape.below(4) == 0 { 1 + u64::from(tape.byte()) % next } else { next };
        let lot = Lot { source: LIAR.0.to_le_bytes()[0], sequence };
        let prev = self.lane.get(&(sequence - 1)).copied().unwrap_or(Hash::ZERO);
        let batch = Opened::new(0, lot, prev, openings, lines);
        self.lane.insert(sequence, batch.digest);
        prepare(sequence, batch.payload(), digest)
    }
}

fn line(id: EntryId, prev: Hash, kind: Kind, transfer: u128) -> Line {
    let (user_data, flags) = (UserData::default(), Flags::ALLOW_SELF);
    let entry = Entry { id, prev, kind, transfer, ledger: EURO, code: 0, user_data, flags };
    Line { entry: entry.into(), auth: Auth::Institution }
}

fn digest(payload: &Bytes) -> Option<Hash> {
    Opened::read(payload).map(|batch| batch.digest)
}

/// What is said beside the broadcast, as the liar's own.
fn word(word: Word, tape: &mut Tape<'_>) -> Word {
    match word {
        Word::Receipt(receipt) => {
            let open = Except::new((0..tape.byte() % 4).map(u32::from).collect()).unwrap_or_default();
            let Receipt { lot, digest, .. } = receipt;
            let context = view().context;
            let signature = sign(Settled { context, lot, digest, open: open.digest() });
            Word::Receipt(Receipt { lot, digest, open, member: LIAR.0.to_le_bytes()[0], signature })
        }
        Word::Here(mut line) => {
            Arc::make_mut(&mut line.entry).transfer ^= u128::from(tape.byte() % 2);
            Word::Here(line)
        }
        other => other,
    }
}

impl Play for World {
    type Host = Hosting;

    fn flock(&mut self) -> &mut Flock<Hosting> {
        &mut self.flock
    }

    fn open(&self, at: usize) -> Open<Hosting> {
        open(at)
    }

    fn told(&mut self, at: usize, output: Box<dyn Any + Send>) {
        let Ok(output) = output.downcast::<Output>() else { unreachable!("what a replica tells") };
        match *output {
            Output::Settled { first, entries } => {
                for (position, (entry, digest)) in (first..).zip(&entries) {
                    self.settle(at, position, (entry, *digest));
                }
            }
            Output::TwoBatches { lane, .. } => assert_eq!(lane, LIAR, "an honest member is shown with two"),
            Output::Rejected { entry, .. } => unreachable!("{:?} is rejected in profile II-F", entry.id),
            Output::Contradiction { id, .. } => unreachable!("{id:?} contradicts, and one member lies"),
            Output::Accepted { .. }
            | Output::Queued { .. }
            | Output::Refused { .. }
            | Output::Progress { .. }
            | Output::Numbered { .. }
            | Output::Looked { .. }
            | Output::Checked { .. }
            | Output::Log { .. }
            | Output::Lanes { .. }
            | Output::Bundles { .. }
            | Output::Opened(_)
            | Output::Certified { .. }
            | Output::Receipted(_)
            | Output::CutCertified { .. }
            | Output::Proof { .. }
            | Output::Conflict { .. } => {}
            Output::Imported { .. } => unreachable!("there is one shard"),
            Output::Invited(_) => unreachable!("owners sign alone"),
            Output::CaughtUp { number, .. } => unreachable!("cut {number}, and nobody falls that far behind"),
            Output::FalseWitness { member, .. } => unreachable!("{member} is no witness: everybody checks"),
            Output::TwoRoots { member, .. } => assert_eq!(member, LIAR, "an honest member is shown with two"),
        }
    }

    fn ask(&mut self, at: usize, tape: &mut Tape<'_>) {
        match tape.below(8) {
            0..=3 => self.order(at, tape),
            4 | 5 => {
                let line = self.sign(tape);
                self.flock.ask(at, Input::Signed { ticket: self.tickets, line });
            }
            6 => {
                let opening = opening(account(member(at).0, u64::from(tape.byte() % 6)));
                self.flock.ask(at, Input::Open { ticket: 0, opening });
            }
            _ => {
                let from = account(u32::from(tape.byte()) % MEMBERS, 1);
                self.flock.ask(at, Input::Look { ticket: 0, from, count: u32::from(tape.byte()) });
            }
        }
        self.balances(at);
    }

    fn lie(&mut self, at: usize, tape: &mut Tape<'_>) {
        let heard = self.flock.heard(tape);
        let copied = heard.and_then(|body| Spoken::decode(body.slice(1..), &Limits::default()).ok());
        let message = match (tape.below(8), copied) {
            (0, _) => Spoken::draw(&mut Drawn::new(u64::from(tape.word()))),
            (1 | 2, _) => match self.batch(tape) {
                Some(message) => Message::Broadcast(message),
                None => return,
            },
            (3, Some(message)) => message,
            (4, Some(Message::Broadcast(signed::Message::Prepare { lot, payload, .. }))) => {
                let digest = digest(payload.bytes()).unwrap_or_default();
                let (signature, member) = (synod_crypto::Signature([0; 64]), LIAR.0.to_le_bytes()[0]);
                let receipt = Receipt { lot, digest, open: Except::default(), member, signature };
                Message::Own(word(Word::Receipt(receipt), tape))
            }
            (_, Some(Message::Broadcast(message))) => Message::Broadcast(resigned(message, digest, tape)),
            (_, Some(Message::Own(own))) => Message::Own(word(own, tape)),
            (_, None) => Message::Own(Word::draw(&mut Drawn::new(u64::from(tape.word())))),
        };
        self.flock.lie(at, framed(&message), tape);
    }

    fn came_back(&mut self, _: usize) {}
}
