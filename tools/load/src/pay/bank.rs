//! Institutions in their shards, their customers' accounts, and what a replica starts from.

use super::channel::Carries;
use super::journals::Journals;
use super::orders::draft;
use super::plan::{Ownership, PayPlan, Workload};
use super::smallbank::Smallbank;
use std::collections::BTreeMap;
use std::sync::Arc;
use synod_astro::{Config, Draft, Neighbour, Parameters, Profile, Setup, Shards, WINDOW_MAX};
use synod_broadcast::signed::Certificate;
use synod_crypto::bls::BenchFamily;
use synod_crypto::{Hash, Keys, Seed};
use synod_host::pay::view_of;
use synod_ledger::{AccountId, Kind, LEGS_MAX, Leg, Opening, Owner, Terms, Units, UserData};
use synod_machine::Span;
use synod_machine::broadcast::View;
use synod_quorum::{Epoch, Member, NodeId, Roster};

/// What every account has at first.
pub(super) const FUNDS: u64 = 1 << 40;
pub(super) const LEDGER: u32 = 978;
/// The number of an institution's first account that is given money.
pub(super) const FIRST: u64 = 2;

/// Where an institution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) shard: u16,
    pub(super) id: u8,
}

/// The institutions of a plan.
#[derive(Clone, Debug)]
pub struct Bank {
    pub(super) plan: PayPlan,
    /// By shard.
    views: Vec<Arc<View>>,
    /// Unsettled entries per account.
    pub(super) window: u64,
    /// What its customers do, in Smallbank.
    pub(super) smallbank: Option<Smallbank>,
    /// Where replicas keep what they promise, where they do.
    journals: Option<Arc<Journals>>,
}

fn seed(Place { shard, id }: Place) -> Seed {
    let mut secret = [0x70; 32];
    let [low, high] = shard.to_le_bytes();
    (secret[0], secret[1], secret[2]) = (id, low, high);
    Seed::new(secret)
}

impl Bank {
    /// The institutions of a plan.
    ///
    /// # Errors
    /// The plan is of no system, in words.
    pub fn new(plan: PayPlan) -> Result<Self, &'static str> {
        if let Some(fault) = plan.fault() {
            return Err(fault);
        }
        let view = |shard: u16| {
            let member = |id| Member { key: seed(Place { shard, id }).public(), power: 1 };
            let roster = Roster::new(Epoch(1), (0..plan.nodes).map(member).collect()).ok()?;
            let cluster = Hash::of(b"synod bench pay");
            let View { cluster, roster, mut context } = view_of(cluster, roster);
            context.shard = shard;
            Some(Arc::new(View { cluster, roster, context }))
        };
        let views: Option<Vec<_>> = (0..plan.shards).map(view).collect();
        let views = views.ok_or("no roster has so many members")?;
        let clients = plan.customers() * u64::from(plan.nodes) * u64::from(plan.shards);
        let smallbank =
            match plan.workload {
                Workload::Pay => None,
                Workload::Smallbank => {
                    let drawn = Smallbank::new(7, clients, plan.shards, plan.cross);
                    Some(drawn.map_err(
                        |_| "each shard has two customers, and 40 of 100 transactions have a partner",
                    )?)
                }
            };
        // A till pays a fifth of all that its institution's customers do.
        let window = if smallbank.is_some() { WINDOW_MAX } else { Parameters::default().window };
        Ok(Self { plan, views, window, smallbank, journals: None })
    }

    /// The same, whose replicas keep what they promise.
    #[must_use]
    pub fn keeping(self, journals: Arc<Journals>) -> Self {
        Self { journals: Some(journals), ..self }
    }

    pub(super) fn journals(&self) -> Option<&Journals> {
        self.journals.as_deref()
    }

    /// All institutions.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> + use<> {
        let nodes = self.plan.nodes;
        (0..self.plan.shards).flat_map(move |shard| (0..nodes).map(move |id| Place { shard, id }))
    }

    /// An institution's number among all.
    pub(super) fn number(&self, Place { shard, id }: Place) -> usize {
        usize::from(shard) * usize::from(self.plan.nodes) + usize::from(id)
    }

    /// How a member of `shard` calls an institution: members of other shards are its guests.
    pub(super) fn node(&self, shard: u16, of: Place) -> NodeId {
        if of.shard == shard {
            return NodeId(u32::from(of.id));
        }
        let number = u32::try_from(self.number(of)).unwrap_or(u32::MAX);
        NodeId(NodeId::GUESTS.0.saturating_add(number))
    }

    /// Whom a member of `shard` calls so, among all.
    pub(super) fn number_of(&self, shard: u16, node: NodeId) -> usize {
        let id = match node.0.checked_sub(NodeId::GUESTS.0) {
            None => u32::from(shard) * u32::from(self.plan.nodes) + node.0,
            Some(number) => number,
        };
        usize::try_from(id).unwrap_or(usize::MAX)
    }

    pub(super) fn view(&self, shard: u16) -> Option<&Arc<View>> {
        self.views.get(usize::from(shard))
    }

    /// Payments that the customers of each institution have signed before the clock runs.
    pub(super) fn ahead(&self) -> u64 {
        let institutions = u64::from(self.plan.shards.max(1)) * u64::from(self.plan.nodes.max(1));
        u64::from(self.plan.ahead).div_ceil(institutions)
    }

    /// Whether a customer may lack what it was given.
    pub(super) fn may_be_poor(&self) -> bool {
        self.smallbank.is_some() || self.plan.profile.credits()
    }

    /// Customers of each institution.
    pub(super) fn customers(&self) -> u64 {
        self.plan.customers()
    }

    /// Accounts of each institution that are given money.
    fn funded(&self) -> u64 {
        match self.plan.workload {
            Workload::Pay => self.customers(),
            // A till, and two of each.
            Workload::Smallbank => 1 + 2 * self.customers(),
        }
    }

    /// The keys of a member.
    pub(super) fn keys(of: Place) -> Keys {
        Keys::ed25519(&seed(of), [9; 32])
    }

    /// The keys of a customer who signs.
    pub(super) fn owner(id: AccountId) -> Keys {
        Keys::ed25519(&Seed::new(Hash::of_value("synod bench owner", &id).0), [9; 32])
    }

    /// The accounts of a shard.
    pub(super) fn genesis(&self, shard: u16) -> Vec<Opening> {
        (0..self.plan.nodes).flat_map(|id| self.openings(Place { shard, id })).collect()
    }

    /// The issuer of an institution and its customers.
    fn openings(&self, of: Place) -> impl Iterator<Item = Opening> + use<> {
        let (ownership, funded, cap) = (self.plan.ownership, self.funded(), self.cap());
        let multi = if ownership == Ownership::Distilled { self.multi(of) } else { Vec::new() };
        (1..funded + FIRST).map(move |local| {
            let limit = if local == 1 { cap } else { Units(0) };
            let id = account(of, local);
            let owner = match ownership {
                Ownership::SelfSigned if local > 1 => Owner::SelfSigned(Self::owner(id).public()),
                Ownership::Distilled if local > 1 => {
                    let at = usize::try_from(local - FIRST).unwrap_or(usize::MAX);
                    let multi = multi.get(at).copied().unwrap_or([0; 48]);
                    Owner::Distilled { single: Self::owner(id).public(), multi }
                }
                _ => Owner::Custodial(of.id),
            };
            let terms = Terms { owner, recovery: None, limit, code: 0, user_data: UserData::default() };
            Opening { id, ledger: LEDGER, terms, limit_max: limit, representative: of.id }
        })
    }

    /// The keys that customers sign with together: one family, so that what many sign is made by an addition each.
    pub(super) fn family() -> BenchFamily {
        BenchFamily::new(&Seed::new([0x71; 32]))
    }

    /// The place of a customer in the family.
    pub(super) fn relative(&self, of: Place, local: u64) -> u32 {
        let before = self.number(of) as u64 * self.customers();
        u32::try_from(before + local.saturating_sub(FIRST)).unwrap_or(u32::MAX)
    }

    fn multi(&self, of: Place) -> Vec<[u8; 48]> {
        let count = u32::try_from(self.customers()).unwrap_or(u32::MAX);
        let keys = Self::family().keys(self.relative(of, FIRST), count);
        keys.iter().map(synod_crypto::bls::BlsPublicKey::to_bytes).collect()
    }

    /// What the issuer of an institution may owe.
    fn cap(&self) -> Units {
        Units(u128::from(FUNDS) * u128::from(self.funded()))
    }

    fn parameters(&self, profile: Profile) -> Parameters {
        let usual = Parameters::of(profile);
        // A payment and its authorization take less than so many bytes.
        let line = if self.plan.ownership.signs() { 240 } else { 160 };
        let batch_bytes = self.plan.batch.saturating_mul(line).max(usual.batch_bytes);
        let (batch_max, window) = (self.plan.batch, self.window);
        let is_distilled = self.plan.ownership == Ownership::Distilled;
        let distil = if is_distilled { Span::millis(100) } else { Span::ZERO };
        Parameters { batch_max, batch_bytes, window, verify: self.plan.verify, distil, ..usual }
    }

    /// The other shards, as members of one know them.
    fn neighbours(&self, own: u16) -> Shards {
        if self.plan.shards == 1 {
            return Shards::default();
        }
        let others = (0_u16..).zip(&self.views).filter(|(shard, _)| *shard != own).map(|(shard, view)| {
            let nodes = (0..self.plan.nodes).map(|id| self.node(own, Place { shard, id })).collect();
            (shard, Neighbour { view: Arc::clone(view), nodes })
        });
        Shards::new::<Certificate>(others.collect())
    }

    /// What the replica of an institution starts from; `None` of one that is in no shard of the plan.
    pub(super) fn setup<B: Carries>(&self, of: Place) -> Option<Setup<B>> {
        let (me, view) = (NodeId(u32::from(of.id)), self.view(of.shard)?);
        let parameters = self.parameters(B::PROFILE);
        let channel = B::channel(view, me, &parameters);
        let config = Config {
            me,
            view: Arc::clone(view),
            genesis: self.genesis(of.shard),
            caps: (0..self.plan.nodes).map(|id| (u32::from(id), self.cap())).collect::<BTreeMap<_, _>>(),
            shards: self.neighbours(of.shard),
            parameters,
        };
        Some(Setup { config, channel })
    }

    /// Orders by which the issuer of an institution gives its customers their money.
    pub(super) fn funding(&self, of: Place) -> Vec<Draft> {
        let locals: Vec<u64> = (FIRST..self.funded() + FIRST).collect();
        // In profile II what is paid travels once more with what spends it: customers' money as their payments, to one each.
        let most = if self.plan.profile.credits() { 1 } else { LEGS_MAX };
        let legs = |some: &[u64]| {
            let leg = |local: &u64| Leg { to: account(of, *local), amount: Units(u128::from(FUNDS)) };
            some.iter().map(leg).collect::<Vec<_>>()
        };
        let chunks = locals.chunks(most).zip(1_u128..);
        let order = |(some, transfer): (&[u64], u128)| {
            let legs = legs(some);
            let kind = match legs.as_slice() {
                [leg] => Kind::Pay(*leg),
                _ => Kind::MultiPay(legs.try_into().ok()?),
            };
            Some(draft(account(of, 1), kind, transfer))
        };
        chunks.filter_map(order).collect()
    }
}

pub(super) fn account(of: Place, local: u64) -> AccountId {
    AccountId { shard: of.shard, registrar: u32::from(of.id), local }
}

#[cfg(test)]
mod tests {
    use super::{Bank, Place};
    use crate::pay::tests::plan;
    use crate::pay::{Ownership, PayPlan, Profile, Verify, Workload, smallbank::Share};

    #[test]
    fn members_of_other_shards_have_names_of_their_own_that_lead_back_to_them() {
        let bank = Bank::new(PayPlan { shards: 3, ..plan() }).expect("a plan");
        for shard in 0..3 {
            let mut names: Vec<_> = bank.places().map(|place| bank.node(shard, place)).collect();
            for (place, name) in bank.places().zip(&names) {
                assert_eq!(bank.number_of(shard, *name), bank.number(place));
                assert_eq!(name.is_member(), place.shard == shard);
            }
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), 12);
        }
        assert!(bank.places().all(|place| bank.funding(place).len() == 1));
        let keys = [Place { shard: 0, id: 1 }, Place { shard: 1, id: 0 }].map(|of| Bank::keys(of).public());
        assert_ne!(keys[0], keys[1]);
    }

    #[test]
    fn plans_of_no_system_are_refused() {
        let is_refused = |plan: PayPlan| Bank::new(plan).is_err();
        assert!(!is_refused(plan()));
        for profile in [Profile::I, Profile::II] {
            let plan = PayPlan { profile, ..plan() };
            assert!(!is_refused(plan));
            assert!(is_refused(PayPlan { shards: 2, ..plan }));
            assert!(is_refused(PayPlan { workload: Workload::Smallbank, ..plan }));
            let (verify, ownership) = (Verify::Witness { margin: 0 }, Ownership::SelfSigned);
            assert!(is_refused(PayPlan { verify, ownership, ..plan }));
        }
        assert!(is_refused(PayPlan { shards: 0, ..plan() }));
        assert!(is_refused(PayPlan { cross: Some(Share(1)), ..plan() }));
        let smallbank = PayPlan { workload: Workload::Smallbank, shards: 2, ..plan() };
        assert!(!is_refused(smallbank));
        assert!(is_refused(PayPlan { ownership: Ownership::SelfSigned, ..smallbank }));
        assert!(!is_refused(PayPlan { cross: Some(Share(4_000)), ..smallbank }));
        assert!(is_refused(PayPlan { cross: Some(Share(4_001)), ..smallbank }));
    }
}
