//! Institutions, their customers, and what they order.

use crate::workload::mix;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use synod_astro::{Batches, Config, Draft, Parameters, Setup, Verify};
use synod_broadcast::{SignedBroadcast, signed};
use synod_crypto::{Hash, Keys, Seed};
use synod_host::pay::view_of;
use synod_ledger::{AccountId, Flags, Kind, LEGS_MAX, Leg, Opening, Owner, Terms, Units, UserData};
use synod_machine::broadcast::View;
use synod_quorum::{Epoch, Member, NodeId, Roster};

/// What every customer has at first.
pub(super) const FUNDS: u64 = 1 << 40;
const LEDGER: u32 = 978;

/// Who signs for customers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Their institution: a batch is its word.
    Custodial,
    /// They themselves, each payment.
    SelfSigned,
}

/// How payments are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayPlan {
    /// Replicas, 3f + 1.
    pub nodes: u8,
    /// Customers of all institutions.
    pub accounts: u32,
    /// Who signs for them.
    pub ownership: Ownership,
    /// Who checks what they sign.
    pub verify: Verify,
    /// Most payments of a batch.
    pub batch: u32,
    /// Payments on their way at each replica.
    pub inflight: u32,
    /// Time before measuring.
    pub warmup: Duration,
    /// Time measured.
    pub span: Duration,
}

/// The institutions of a plan.
#[derive(Clone, Debug)]
pub struct Bank {
    pub(super) plan: PayPlan,
    pub(super) view: Arc<View>,
    /// Unsettled entries per account.
    pub(super) window: u64,
    genesis: Vec<Opening>,
}

fn seed(id: u8) -> Seed {
    let mut secret = [0x70; 32];
    secret[0] = id;
    Seed::new(secret)
}

impl Bank {
    /// The institutions of a plan; `None` where no roster has so many members.
    #[must_use]
    pub fn new(plan: PayPlan) -> Option<Self> {
        let members = (0..plan.nodes).map(|id| Member { key: seed(id).public(), power: 1 });
        let roster = Roster::new(Epoch(1), members.collect()).ok()?;
        let cluster = Hash::of(b"synod bench pay");
        let view = Arc::new(view_of(cluster, roster));
        let genesis = (0..plan.nodes).flat_map(|registrar| openings(&plan, registrar)).collect();
        let window = Parameters::default().window;
        Some(Self { plan, view, window, genesis })
    }

    /// Customers of each institution.
    pub(super) fn customers(&self) -> u64 {
        customers(&self.plan)
    }

    /// The keys of a member.
    pub(super) fn keys(id: u8) -> Keys {
        Keys::ed25519(&seed(id), [9; 32])
    }

    /// The keys of a customer who signs.
    pub(super) fn owner(id: AccountId) -> Keys {
        Keys::ed25519(&Seed::new(Hash::of_value("synod bench owner", &id).0), [9; 32])
    }

    pub(super) fn genesis(&self) -> &[Opening] {
        &self.genesis
    }

    /// What the replica of a member starts from.
    pub(super) fn setup(&self, me: u8) -> Setup<SignedBroadcast<Batches>> {
        let usual = Parameters::default();
        // A payment and its authorization take less than so many bytes.
        let line = if self.plan.ownership == Ownership::SelfSigned { 240 } else { 160 };
        let batch_bytes = self.plan.batch.saturating_mul(line).max(usual.batch_bytes);
        let (batch_max, window) = (self.plan.batch, self.window);
        let parameters = Parameters { batch_max, batch_bytes, window, verify: self.plan.verify, ..usual };
        let cap = Units(u128::from(FUNDS) * u128::from(self.customers()));
        let me = NodeId(u32::from(me));
        let config = Config {
            me,
            view: Arc::clone(&self.view),
            genesis: self.genesis.clone(),
            caps: (0..self.plan.nodes).map(|id| (u32::from(id), cap)).collect::<BTreeMap<_, _>>(),
            shards: synod_astro::Shards::default(),
            parameters,
        };
        let channel = signed::Setup::under(me, Arc::clone(&self.view), config.parameters.bounds());
        Setup { config, channel: Box::new(channel) }
    }

    /// Orders by which the issuer of an institution gives its customers their money.
    pub(super) fn funding(&self, registrar: u8) -> Vec<Draft> {
        let locals: Vec<u64> = (2..self.customers() + 2).collect();
        let legs = |some: &[u64]| {
            let leg = |local: &u64| Leg { to: account(registrar, *local), amount: Units(u128::from(FUNDS)) };
            some.iter().map(leg).collect::<Vec<_>>()
        };
        let chunks = locals.chunks(LEGS_MAX).zip(1_u128..);
        let order = |(some, transfer): (&[u64], u128)| {
            let legs = legs(some).try_into().ok()?;
            Some(draft(account(registrar, 1), Kind::MultiPay(legs), transfer))
        };
        chunks.filter_map(order).collect()
    }
}

/// An order of one unit, from a customer of `registrar` to anybody: both drawn from `draw`.
pub(super) fn payment(bank: &Bank, registrar: u8, draw: &mut Draw, transfer: u128) -> Draft {
    let customers = bank.customers();
    let spender = account(registrar, 2 + draw.below(customers));
    let registrar = u8::try_from(draw.below(u64::from(bank.plan.nodes))).unwrap_or(0);
    let to = account(registrar, 2 + draw.below(customers));
    // Nobody pays itself: who would pays its issuer.
    let to = if to == spender { account(registrar, 1) } else { to };
    draft(spender, Kind::Pay(Leg { to, amount: Units(1) }), transfer)
}

/// A draft that says nothing but who pays whom.
pub(super) fn draft(spender: AccountId, kind: Kind, transfer: u128) -> Draft {
    let (user_data, flags) = (UserData::default(), Flags::default());
    Draft { spender, kind, transfer, ledger: LEDGER, code: 0, user_data, flags }
}

pub(super) fn account(registrar: u8, local: u64) -> AccountId {
    AccountId { shard: 0, registrar: u32::from(registrar), local }
}

fn customers(plan: &PayPlan) -> u64 {
    u64::from(plan.accounts / u32::from(plan.nodes.max(1))).max(1)
}

/// The issuer of an institution and its customers.
fn openings(plan: &PayPlan, registrar: u8) -> impl Iterator<Item = Opening> + use<> {
    let ownership = plan.ownership;
    let customers = customers(plan);
    let cap = Units(u128::from(FUNDS) * u128::from(customers));
    (1..customers + 2).map(move |local| {
        let limit = if local == 1 { cap } else { Units(0) };
        let id = account(registrar, local);
        let owner = match ownership {
            Ownership::SelfSigned if local > 1 => Owner::SelfSigned(Bank::owner(id).public()),
            Ownership::SelfSigned | Ownership::Custodial => Owner::Custodial(registrar),
        };
        let terms = Terms { owner, recovery: None, limit, code: 0, user_data: UserData::default() };
        Opening { id, ledger: LEDGER, terms, limit_max: limit, representative: registrar }
    })
}

/// Numbers that spread evenly and are the same in each run.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    seed: u64,
    drawn: u64,
}

impl Draw {
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.drawn = self.drawn.wrapping_add(1);
        let wide = u128::from(mix(self.drawn, self.seed)) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }
}
