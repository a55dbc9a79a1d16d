//! Who is there, and what can be signed.

use std::sync::Arc;

use synod_astro::{Auth, Authorized, Batches, Config, Line, Opened, Parameters, Profile, Setup, Shards};
use synod_broadcast::signed::{self, Context, View};
use synod_broadcast::{Lot, SignedBroadcast};
use synod_crypto::{Hash, Keys, Scope};
use synod_ledger::{
    AccountId, Entry, EntryId, Flags, Kind, Leg, Opening, Owner, Terms, Units, UserData, genesis,
};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_sim::{Crypto, Keyring};

use crate::systems::astro::sight;
use crate::systems::hotstuff::cluster;

/// Members of the shard.
pub(super) const MEMBERS: u8 = 4;
/// Those that follow the protocol; the last one lies.
pub(super) const HONEST: u8 = 3;
/// What the owner who lies has.
pub(super) const FUNDS: u128 = 100;
/// The unit of all accounts.
const EURO: u32 = 978;
/// Keys of the owner.
const OWNER: u64 = 1 << 40;

/// An entry that the owner may sign.
pub(super) struct Item {
    pub(super) line: Line,
    pub(super) digest: Hash,
    pub(super) amount: u128,
    /// The item that it stands behind, if it is not the first of its log.
    pub(super) behind: Option<u8>,
}

impl Item {
    /// Its place.
    pub(super) fn n(&self) -> u64 {
        self.line.entry.id.n
    }
}

/// The keys, names and entries that all histories share.
pub(super) struct Cast {
    keyring: Keyring,
    view: Arc<View>,
    /// Two first entries, two behind each, and one behind each of those.
    pub(super) items: Vec<Item>,
}

const fn account(registrar: u32) -> AccountId {
    AccountId { shard: 0, registrar, local: 1 }
}

impl Cast {
    pub(super) fn new() -> Self {
        let keyring = Keyring::new(Crypto::Toy, 1);
        let member = |id: u8| Member { key: keyring.public(u64::from(id)), power: 1 };
        let roster = match Roster::new(Epoch(0), (0..MEMBERS).map(member).collect()) {
            Ok(roster) => Arc::new(roster),
            Err(refused) => unreachable!("four members with keys of their own: {refused}"),
        };
        let context = Context { shard: 0, view: Hash::of(b"synod model view") };
        let view = Arc::new(View { cluster: cluster(), roster, context });
        let mut cast = Self { keyring, view, items: Vec::new() };
        for amount in [60, 20] {
            cast.sign(amount, None);
        }
        for behind in [0, 1] {
            cast.sign(1, Some(behind));
            cast.sign(40, Some(behind));
        }
        for behind in 2..6 {
            cast.sign(39, Some(behind));
        }
        cast
    }

    fn sign(&mut self, amount: u128, behind: Option<u8>) {
        let spender = account(u32::from(HONEST));
        let before = behind.and_then(|at| self.items.get(usize::from(at)));
        let (n, prev) = before.map_or((1, genesis(spender)), |item| (item.n() + 1, item.digest));
        let entry = Entry {
            id: EntryId { spender, n },
            prev,
            kind: Kind::Pay(Leg { to: account(0), amount: Units(amount) }),
            transfer: self.items.len() as u128 + 1,
            ledger: EURO,
            code: 0,
            user_data: UserData::default(),
            flags: Flags::default(),
        };
        let digest = sight::digest(&entry);
        let scope = Scope { cluster: cluster(), epoch: Epoch(0) };
        let claim = self.keyring.keys(OWNER).sign(scope, NodeId(u32::MAX), Authorized { entry: digest });
        let line = Line { auth: Auth::Owner(claim.signature), entry: entry.into() };
        self.items.push(Item { line, digest, amount, behind });
    }

    /// The items of a place.
    pub(super) fn of_place(&self, n: u64) -> impl Iterator<Item = u8> {
        (0_u8..).zip(&self.items).filter(move |(_, item)| item.n() == n).map(|(at, _)| at)
    }

    /// The item of a number.
    pub(super) fn item(&self, at: u8) -> &Item {
        match self.items.get(usize::from(at)) {
            Some(item) => item,
            None => unreachable!("there are {} items", self.items.len()),
        }
    }

    /// The item of a digest.
    pub(super) fn find(&self, digest: &Hash) -> Option<&Item> {
        self.items.iter().find(|item| item.digest == *digest)
    }

    /// The liar's lane with these items, one a batch.
    pub(super) fn lane(&self, items: &[u8]) -> Vec<Opened> {
        let mut prev = Hash::ZERO;
        let batch = |(sequence, at): (u64, &u8)| {
            let lot = Lot { source: HONEST, sequence };
            let opened = Opened::new(0, lot, prev, Vec::new(), vec![self.item(*at).line.clone()]);
            prev = opened.digest;
            opened
        };
        (1..).zip(items).map(batch).collect()
    }

    pub(super) fn keys(&self, member: u8) -> Keys {
        self.keyring.keys(u64::from(member))
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// What a member starts from. What the owner has is what it may owe.
    pub(super) fn setup(&self, member: u8) -> Setup<SignedBroadcast<Batches>> {
        let parameters = Parameters { profile: Profile::Funded, owners_sign: true, ..Parameters::default() };
        let me = NodeId(u32::from(member));
        let config = Config {
            me,
            view: Arc::clone(&self.view),
            genesis: (0..MEMBERS).map(|registrar| self.opening(registrar)).collect(),
            caps: (0..u32::from(MEMBERS)).map(|registrar| (registrar, Units(FUNDS))).collect(),
            shards: Shards::default(),
            parameters,
        };
        let channel = signed::Setup::under(me, Arc::clone(&self.view), parameters.bounds());
        Setup { config, channel: Box::new(channel) }
    }

    fn opening(&self, registrar: u8) -> Opening {
        let (owner, limit) = match registrar {
            HONEST => (Owner::SelfSigned(self.keyring.public(OWNER)), FUNDS),
            institution => (Owner::Custodial(institution), 0),
        };
        let limit = Units(limit);
        let terms = Terms { owner, recovery: None, limit, code: 1, user_data: UserData::default() };
        let id = account(u32::from(registrar));
        Opening { id, ledger: EURO, terms, limit_max: limit, representative: registrar }
    }
}
