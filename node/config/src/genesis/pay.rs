//! What a genesis of protocol astro says: profile, batches, windows, and who may issue how much money.
//!
//! Each registrar is a member. Its first account, number 1, is there from the start and issues the registrar's money: its
//! balance may go below 0 by the cap. All other accounts of the registrar are opened while the cluster runs, without limits.
//!
//! Where a number of founders is said, members come and go: the founders make the first view, and the others stand in reserve with
//! their keys and addresses until operators let them join.
//!
//! Where there are several shards, the members are theirs in equal parts: the first ones make shard 0, and so on. Each keeps accounts of
//! its own, and a quorum is one of its members.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use super::build::Cluster;
use super::member::{Member, Operator};
use crate::choice::choices;
use crate::errors::SynError;
use crate::node::broken;
use crate::table::Section;
use crate::units::format_duration;
use synod_wire::Writer;

choices! {
    /// How payments are broadcast and funded.
    Profile {
        /// Signed broadcast; an acknowledgment promises that the entry is funded.
        Funded = "II-F",
    }
}

/// A member that issues money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registrar {
    /// Name of the member.
    pub member: String,
    /// The ledger, a currency or another unit, of its money.
    pub ledger: u32,
    /// The most that it may issue.
    pub cap: u64,
}

/// What protocol astro adds to a genesis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pay {
    /// How payments are broadcast and funded.
    pub profile: Profile,
    /// Most entries of a batch, 1 to 16,384.
    pub batch_max: u32,
    /// Most bytes of a batch.
    pub batch_bytes: u32,
    /// Unsettled entries of an account.
    pub window: u32,
    /// Uncommitted batches of a representative.
    pub lane_window: u32,
    /// Committed batches of each representative that are kept for whoever is behind.
    pub retain_batches: u32,
    /// How many members, the first ones, make the first view; the others stand in reserve, and operators let them join and let members
    /// leave. 0: all members are there for good.
    pub founders: u32,
    /// How many shards there are, 1 at least: each has as many members as any other, in the order of the members.
    pub shards: u32,
    /// How often the members sign the state behind a cut, which proofs and statements are made of; zero: never.
    pub cut_every: Duration,
    /// Who issues money; no member twice.
    pub registrars: Vec<Registrar>,
}

/// Most entries of a batch of payments.
const BATCH_MAX: u32 = 16_384;
/// Keys of `[protocol]` that this protocol has.
const OWN: [&str; 9] = [
    "profile",
    "batch_max",
    "batch_bytes",
    "window",
    "lane_window",
    "retain_batches",
    "founders",
    "shards",
    "cut_every",
];
/// Those of them that no other protocol has.
const ONLY: [&str; 8] =
    ["profile", "batch_bytes", "window", "lane_window", "retain_batches", "founders", "shards", "cut_every"];
/// Most uncommitted batches of a representative where members come and go: what a member tells of a view has place for so many.
const LANE_WINDOW_MAX: u32 = 64;
/// Most operators whose quorum endorses a change.
const OPERATORS_MAX: usize = 16;

impl Default for Pay {
    fn default() -> Self {
        Self {
            profile: Profile::Funded,
            batch_max: 4_096,
            batch_bytes: 256 << 10,
            window: 1_024,
            lane_window: 64,
            retain_batches: 1_024,
            founders: 0,
            shards: 1,
            cut_every: Duration::ZERO,
            registrars: Vec::new(),
        }
    }
}

impl Pay {
    /// What each registrar may issue, when a cluster is made by a command.
    pub const CAP: u64 = 1_000_000_000_000;
    /// How often cuts are made, when a cluster is made by a command.
    pub const CUT_EVERY: Duration = Duration::from_secs(30);

    /// The defaults, with each member as a registrar of ledger 1.
    #[must_use]
    pub fn of(members: &[Member]) -> Self {
        let registrar =
            |member: &Member| Registrar { member: member.name.clone(), ledger: 1, cap: Self::CAP };
        Self { registrars: members.iter().map(registrar).collect(), ..Self::default() }
    }

    /// The number of a registrar: that of its member.
    #[must_use]
    pub fn number(registrar: &Registrar, members: &[Member]) -> Option<u32> {
        (0_u32..).zip(members).find(|(_, member)| member.name == registrar.member).map(|(id, _)| id)
    }

    /// Whether members come and go.
    #[must_use]
    pub const fn has_views(&self) -> bool {
        self.founders > 0
    }

    /// Whether there are several shards.
    #[must_use]
    pub const fn has_shards(&self) -> bool {
        self.shards > 1
    }

    /// The numbers of the members of each shard of so many members, in the order of the shards.
    pub fn groups(&self, members: usize) -> impl Iterator<Item = Range<u32>> + use<> {
        let all = u32::try_from(members).unwrap_or(u32::MAX);
        let each = all.checked_div(self.shards).unwrap_or(all).max(1);
        let starts = (0..all).step_by(usize::try_from(each).unwrap_or(usize::MAX));
        starts.map(move |first| first..first.saturating_add(each))
    }

    /// Whether the members sign the states behind cuts.
    #[must_use]
    pub const fn has_cuts(&self) -> bool {
        !self.cut_every.is_zero()
    }

    /// Refuses what only this protocol has, for a genesis of another one.
    pub(super) fn refuse(protocol: &Section<'_>, registrars: &[Section<'_>]) -> Result<(), SynError> {
        let stated = protocol.given().find(|leaf| ONLY.contains(leaf)).map(|leaf| format!("protocol.{leaf}"));
        let stated = stated.or_else(|| (!registrars.is_empty()).then(|| "registrar.member".to_owned()));
        stated.map_or(Ok(()), |key| Err(broken(&key, "cluster.protocol", "only astro has it")))
    }

    /// Refuses what this protocol does not have.
    pub(super) fn refuse_others(
        cluster: &Section<'_>,
        protocol: &Section<'_>,
        brokers: &[Section<'_>],
    ) -> Result<(), SynError> {
        let stated = protocol.given().find(|leaf| !OWN.contains(leaf)).map(|leaf| format!("protocol.{leaf}"));
        let of_chop = cluster.given().find(|leaf| ["directory", "kind"].contains(leaf));
        let stated = stated.or_else(|| of_chop.map(|leaf| format!("cluster.{leaf}")));
        let stated = stated.or_else(|| (!brokers.is_empty()).then(|| "broker.name".to_owned()));
        stated.map_or(Ok(()), |key| Err(broken(&key, "cluster.protocol", "astro does not have it")))
    }

    /// Reads what the sections say; what is not given is the default.
    pub(super) fn read(protocol: &Section<'_>, registrars: &[Section<'_>]) -> Result<Self, SynError> {
        let default = Self::default();
        let number =
            |leaf: &str, default: u32| Ok::<_, SynError>(protocol.number_u32(leaf)?.unwrap_or(default));
        let registrar = |section: &Section<'_>| {
            Ok::<_, SynError>(Registrar {
                member: section.required("member")?,
                ledger: section.number_u32("ledger")?.unwrap_or(1),
                cap: section.number("cap")?.ok_or_else(|| section.refusal("cap", "missing"))?,
            })
        };
        Ok(Self {
            profile: protocol.choice("profile")?.unwrap_or(default.profile),
            batch_max: number("batch_max", default.batch_max)?,
            batch_bytes: number("batch_bytes", default.batch_bytes)?,
            window: number("window", default.window)?,
            lane_window: number("lane_window", default.lane_window)?,
            retain_batches: number("retain_batches", default.retain_batches)?,
            founders: number("founders", default.founders)?,
            shards: number("shards", default.shards)?,
            cut_every: protocol.span("cut_every")?.unwrap_or(default.cut_every),
            registrars: registrars.iter().map(registrar).collect::<Result<_, _>>()?,
        })
    }

    /// Checks relations.
    pub(super) fn check(
        &self,
        cluster: &Cluster,
        members: &[Member],
        operators: &[Operator],
    ) -> Result<(), SynError> {
        let refused = |first: &str, second: &str, found: String| Err(broken(first, second, &found));
        self.check_views(members, operators)?;
        self.check_shards(members)?;
        if self.batch_max > BATCH_MAX {
            let found = format!("{} entries; batches of astro have {BATCH_MAX} at most", self.batch_max);
            return refused("protocol.batch_max", "cluster.protocol", found);
        }
        if self.retain_batches < self.lane_window {
            let found = format!("{} batches kept, {} under way", self.retain_batches, self.lane_window);
            return refused("protocol.retain_batches", "protocol.lane_window", found);
        }
        if let Some(member) = members.iter().find(|member| member.stake != 1) {
            let found =
                format!("{} has stake {}; {} counts members", member.name, member.stake, cluster.protocol);
            return refused("member.stake", "cluster.protocol", found);
        }
        if self.registrars.is_empty() {
            return refused("registrar.member", "cluster.protocol", "nobody may issue money".to_owned());
        }
        let mut seen = BTreeSet::new();
        for registrar in &self.registrars {
            if Self::number(registrar, members).is_none() {
                let found = format!("no member is named {}", registrar.member);
                return refused("registrar.member", "member.name", found);
            }
            if !seen.insert(&registrar.member) {
                let found = format!("{} is a registrar twice", registrar.member);
                return refused("registrar.member", "registrar.member", found);
            }
        }
        Ok(())
    }

    /// Checks what members that come and go need.
    fn check_views(&self, members: &[Member], operators: &[Operator]) -> Result<(), SynError> {
        if !self.has_views() {
            return Ok(());
        }
        let founders = usize::try_from(self.founders).unwrap_or(usize::MAX);
        let (there, known) = (members.len(), operators.len());
        let checks = [
            (founders > there, "member.name", format!("{founders} founders of {there} members")),
            (
                self.has_cuts(),
                "protocol.cut_every",
                format!(
                    "a cut every {}; members that come and go make none",
                    format_duration(self.cut_every)
                ),
            ),
            (known == 0, "operator.name", "nobody endorses that members join or leave".to_owned()),
            (known > OPERATORS_MAX, "operator.name", format!("{known} operators; {OPERATORS_MAX} at most")),
            (
                self.lane_window > LANE_WINDOW_MAX,
                "protocol.lane_window",
                format!("{} batches under way; {LANE_WINDOW_MAX} at most", self.lane_window),
            ),
        ];
        let wrong = checks.into_iter().find(|(is_wrong, ..)| *is_wrong);
        wrong.map_or(Ok(()), |(_, key, found)| Err(broken("protocol.founders", key, &found)))
    }

    /// Checks what several shards need.
    fn check_shards(&self, members: &[Member]) -> Result<(), SynError> {
        if !self.has_shards() {
            return Ok(());
        }
        let (there, shards) = (members.len(), usize::try_from(self.shards).unwrap_or(usize::MAX));
        let checks = [
            (
                there.checked_rem(shards) != Some(0) || there < shards,
                "member.name",
                format!("{shards} shards of {there} members; each shard has as many as any other"),
            ),
            (
                self.has_views(),
                "protocol.founders",
                "members of several shards are there for good".to_owned(),
            ),
            (
                self.has_cuts(),
                "protocol.cut_every",
                format!("a cut every {}; several shards make none", format_duration(self.cut_every)),
            ),
        ];
        let wrong = checks.into_iter().find(|(is_wrong, ..)| *is_wrong);
        wrong.map_or(Ok(()), |(_, key, found)| Err(broken("protocol.shards", key, &found)))
    }

    /// Writes every value in the order of the fields; the number of founders, that of shards, or the time between cuts in nanoseconds,
    /// stands behind the rest where the first byte says so. No genesis has two of them.
    pub(super) fn encode(&self, out: &mut Writer) {
        out.byte(match (self.profile, self.has_views(), self.has_cuts()) {
            (Profile::Funded, false, false) if self.has_shards() => 4,
            (Profile::Funded, false, false) => 1,
            (Profile::Funded, true, _) => 2,
            (Profile::Funded, false, true) => 3,
        });
        for number in [self.batch_max, self.batch_bytes, self.window, self.lane_window, self.retain_batches] {
            out.varint(u64::from(number));
        }
        out.count(self.registrars.len());
        for registrar in &self.registrars {
            out.count(registrar.member.len());
            out.bytes(registrar.member.as_bytes());
            out.varint(u64::from(registrar.ledger));
            out.varint(registrar.cap);
        }
        if self.has_views() {
            out.varint(u64::from(self.founders));
        }
        if self.has_shards() {
            out.varint(u64::from(self.shards));
        }
        if self.has_cuts() {
            out.varint(u64::try_from(self.cut_every.as_nanos()).expect("a day at most, by the table"));
        }
    }
}
