//! Who pays whom through whom, and how much is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_ledger::{Opening, Units};
use synod_machine::broadcast::{Bounds, ITEMS_MAX, View};
use synod_machine::{Recover, Span};
use synod_quorum::NodeId;

use crate::shards::Shards;
use crate::witness::Verify;

/// What a replica needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node.
    pub me: NodeId,
    /// The members, their keys, the shard.
    pub view: Arc<View>,
    /// Accounts there are from the beginning, those of one registrar in their order.
    pub genesis: Vec<Opening>,
    /// The sum that limits of a registrar's accounts may reach; other registrars open accounts without limits.
    pub caps: BTreeMap<u32, Units>,
    /// The other shards; [`Shards::default`] where there are none.
    pub shards: Shards,
    /// Parameters.
    pub parameters: Parameters,
}

impl Config {
    /// What cannot work, in words.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let checks = [
            (
                !self.shards.is_alone() && self.parameters.checkpoint_every != Span::ZERO,
                "networks of several shards make no cuts",
            ),
            (
                !self.parameters.profile.funds_first() && !self.shards.numbers().is_empty(),
                "shards pay each other in profile II-F alone",
            ),
        ];
        let own = self.parameters.fault().or_else(|| self.shards.fault(self.view.context.shard));
        own.or_else(|| checks.into_iter().find(|(is_wrong, _)| *is_wrong).map(|(_, why)| why))
    }
}

/// How a broadcast is set up whose user took care of each lane's slots up to a number.
pub type Channel<B> = Box<dyn Fn(BTreeMap<u8, u64>) -> <B as Recover>::Config + Send + Sync>;

/// What a replica starts from.
pub struct Setup<B: Recover> {
    /// See there.
    pub config: Config,
    /// How the broadcast is set up whose user took care of each lane's slots up to a number.
    pub channel: Channel<B>,
}

/// Which payment system runs (specification, section 1); fixed at genesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Profile {
    /// Astro I, over a broadcast whose deliveries are whole and reach all: a batch is endorsed as a whole, whether it is funded
    /// or not, and what is not funded waits in its log.
    I,
    /// Astro II: what settles is credited to its beneficiary by what f + 1 members say of it, and what is not funded then is rejected.
    II,
    /// Astro II-F: an endorsement promises that the entry is funded.
    #[default]
    Funded,
}

impl Profile {
    /// The usual most entries of one batch.
    #[must_use]
    pub const fn batch_max(self) -> u32 {
        match self {
            Self::I | Self::II => 256,
            Self::Funded => 4_096,
        }
    }

    /// Whether an entry is endorsed only where it is funded.
    #[must_use]
    pub const fn funds_first(self) -> bool {
        matches!(self, Self::Funded)
    }

    /// Whether a batch is endorsed as a whole or not at all.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        matches!(self, Self::I)
    }

    /// Whether nobody but its registered representative carries what an owner signs.
    #[must_use]
    pub const fn registers(self) -> bool {
        matches!(self, Self::I | Self::II)
    }

    /// Whether what is paid is credited once its beneficiary depends on it.
    #[must_use]
    pub const fn credits(self) -> bool {
        matches!(self, Self::II)
    }

    /// Whether money can be set aside: what another log releases is no agreed content, so in profile II it cannot.
    #[must_use]
    pub const fn has_holds(self) -> bool {
        !matches!(self, Self::II)
    }

    /// Whether the certificate of an entry certifies those before it in its log.
    #[must_use]
    pub const fn descends(self) -> bool {
        !matches!(self, Self::II)
    }
}

/// Numbers that all replicas of a shard share (specification, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// See there.
    pub profile: Profile,
    /// Most entries of one batch.
    pub batch_max: u32,
    /// Longest batch, in bytes.
    pub batch_bytes: u32,
    /// How long an entry waits for others of its batch while two batches are under way.
    pub batch_wait: Span,
    /// Unsettled entries per account.
    pub window: u64,
    /// Accounts per registrar: each takes memory at every member for ever.
    pub accounts_max: u64,
    /// Entries of one representative that wait for money (profile I).
    pub unfunded_max: u32,
    /// Uncommitted batches per representative.
    pub lane_window: u64,
    /// Committed batches per representative that are kept for whoever is behind.
    pub retain: u64,
    /// How often a replica says how far it is.
    pub frontier_every: Span,
    /// When what is missing is asked of the next peer; doubles up to `pull_max`.
    pub pull: Span,
    /// See there.
    pub pull_max: Span,
    /// When receipts of a batch are asked for again; doubles up to `resend_max`.
    pub resend: Span,
    /// See there.
    pub resend_max: Span,
    /// How often a cut is proposed; zero: never. The specification has 30 s.
    pub checkpoint_every: Span,
    /// Whether a member that is further behind than others keep batches goes on from a certified cut. What settles on the way is not told
    /// entry by entry: whoever keeps all entries needs a member that waits instead.
    pub skips: bool,
    /// Whether the user is told of the certificates of all batches, for who audits its log, or only of those of its own accounts.
    pub shows_all: bool,
    /// Whether accounts may have owners who sign; else institutions vouch for all (SYN-3102).
    pub owners_sign: bool,
    /// Whether every member checks every owner's signature (profile II-F).
    pub verify: Verify,
    /// How long a representative waits for owners of one batch to sign together (profile II-F); zero: each signs alone, and nothing that
    /// owners sign together is good. The specification has 100 ms.
    pub distil: Span,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            profile: Profile::Funded,
            batch_max: Profile::Funded.batch_max(),
            batch_bytes: 256 << 10,
            batch_wait: Span::millis(5),
            window: 1_024,
            accounts_max: 1 << 22,
            unfunded_max: 1 << 16,
            lane_window: 64,
            retain: 1_024,
            frontier_every: Span::millis(50),
            pull: Span::millis(100),
            pull_max: Span::secs(5),
            resend: Span::millis(500),
            resend_max: Span::secs(10),
            checkpoint_every: Span::ZERO,
            skips: true,
            shows_all: false,
            owners_sign: true,
            verify: Verify::All,
            distil: Span::ZERO,
        }
    }
}

impl Parameters {
    /// The usual ones of a profile.
    #[must_use]
    pub fn of(profile: Profile) -> Self {
        Self { profile, batch_max: profile.batch_max(), ..Self::default() }
    }

    /// Longest payload that the broadcast has to carry, in bytes.
    #[must_use]
    pub const fn payload_max(&self) -> u32 {
        self.batch_bytes.saturating_add(BATCH_BYTES_MIN)
    }

    /// What the broadcast under the replica keeps, and when it says something again.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        Bounds {
            window: self.lane_window,
            retain: self.retain.max(self.lane_window),
            payload_max: self.payload_max(),
            frontier_every: self.frontier_every,
            resend: self.resend,
            resend_max: self.resend_max,
            pull: self.pull,
            pull_max: self.pull_max,
        }
    }

    /// What cannot work, in words.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        let items = u32::try_from(ITEMS_MAX).unwrap_or(u32::MAX);
        let checks = [
            (self.batch_max == 0 || self.batch_max > items, "batches have 1 to 16,384 entries"),
            (self.batch_bytes < LINE_BYTES_MAX, "a batch has room for its longest entry"),
            (self.window == 0 || self.window > WINDOW_MAX, "accounts have 1 to 65,536 unsettled entries"),
            (self.profile.is_whole() && self.unfunded_max == 0, "entries wait for money"),
            (
                self.profile != Profile::Funded && self.checkpoint_every != Span::ZERO,
                "profiles I and II make no cuts",
            ),
            (
                self.profile != Profile::Funded && self.verify != Verify::All,
                "profiles I and II have no witnesses",
            ),
            (
                self.profile != Profile::Funded && self.distil != Span::ZERO,
                "owners sign together in profile II-F alone",
            ),
            (self.accounts_max == 0, "registrars open accounts"),
            (self.batch_wait == Span::ZERO, "batches wait some time for entries"),
        ];
        checks.into_iter().find(|(is_wrong, _)| *is_wrong).map(|(_, why)| why)
    }
}

/// Most unsettled entries of one account.
pub const WINDOW_MAX: u64 = 1 << 16;
/// Bytes of the longest entry: 64 legs, or 64 holds and what is posted of each, and an authorization.
pub const LINE_BYTES_MAX: u32 = 4 << 10;
/// Bytes of a batch beside its lines: header, counts.
const BATCH_BYTES_MIN: u32 = 512;
