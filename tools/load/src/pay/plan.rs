//! What is measured: how many replicas of which payment system, whose customers pay each other how.

use super::smallbank::Share;
use std::time::Duration;
use synod_astro::{Profile, Verify};

/// Who signs for customers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Their institution: a batch is its word.
    Custodial,
    /// They themselves, each payment.
    SelfSigned,
    /// They themselves, each payment alone and all payments of a batch together.
    Distilled,
}

impl Ownership {
    /// Whether customers sign.
    #[must_use]
    pub const fn signs(self) -> bool {
        !matches!(self, Self::Custodial)
    }
}

/// What customers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Each payment is of one unit, from anybody to anybody.
    Pay,
    /// See [`super::smallbank`]: each customer has two accounts, each institution a till.
    Smallbank,
}

/// How payments are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayPlan {
    /// Which payment system.
    pub profile: Profile,
    /// Shards, each with so many replicas.
    pub shards: u16,
    /// Replicas of a shard, 3f + 1.
    pub nodes: u8,
    /// Customers of all institutions of all shards.
    pub accounts: u32,
    /// Who signs for them.
    pub ownership: Ownership,
    /// Who checks what they sign.
    pub verify: Verify,
    /// What they do.
    pub workload: Workload,
    /// How many of their transactions are between shards; as it comes if nothing is asked for.
    pub cross: Option<Share>,
    /// Payments that customers who sign have signed before the clock runs, of all institutions together.
    pub ahead: u32,
    /// Most payments of a batch.
    pub batch: u32,
    /// Payments on their way at each replica.
    pub inflight: u32,
    /// Time before measuring.
    pub warmup: Duration,
    /// Time measured.
    pub span: Duration,
}

impl PayPlan {
    /// Customers of each institution, one at least.
    #[must_use]
    pub fn customers(&self) -> u64 {
        let institutions = u64::from(self.shards.max(1)) * u64::from(self.nodes.max(1));
        (u64::from(self.accounts) / institutions).max(1)
    }

    /// What no system does, in words.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        let (is_funded, is_alone) = (self.profile == Profile::Funded, self.shards == 1);
        let is_drawn_abroad = self.cross.is_some_and(|share| share.0 > 0);
        let checks = [
            (self.shards == 0, "there is a shard at least"),
            (!is_alone && !is_funded, "shards pay each other in profile II-F alone"),
            (self.verify != Verify::All && !is_funded, "profiles I and II have no witnesses"),
            (
                self.ownership.signs() && self.profile == Profile::II,
                "in profile II what a payment names as the one before it is known once that one has its money: customers sign none ahead",
            ),
            (
                self.ownership == Ownership::Distilled && !(is_funded && is_alone),
                "customers sign together in profile II-F of one shard",
            ),
            (!self.ownership.signs() && self.ahead > 0, "customers of institutions sign nothing"),
            (is_alone && is_drawn_abroad, "of one shard no payment crosses a border"),
            (
                self.workload == Workload::Smallbank && !is_funded,
                "what is not funded waits or is rejected in profiles I and II: Smallbank is of profile II-F",
            ),
            (
                self.workload == Workload::Smallbank && self.ownership.signs(),
                "customers of Smallbank pay all that is there, which their institution knows: they do not sign",
            ),
        ];
        checks.into_iter().find(|(is_wrong, _)| *is_wrong).map(|(_, why)| why)
    }
}
