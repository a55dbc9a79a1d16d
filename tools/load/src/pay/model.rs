//! What a payment would cost if replicas did nothing but sign, check signatures and keep books (specification, section 8): counts of
//! signatures by profile, at the prices of this machine.

use super::plan::{Ownership, PayPlan};
use super::prices::Prices;
use synod_astro::{Profile, Verify};

/// Signatures that a plan's replicas need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Made for a full batch, by all members.
    pub made: u32,
    /// Checked for a full batch, by all members.
    pub checked: u32,
    /// Members who check an owner's signature on a payment, among those of its batch.
    pub owners: u32,
}

impl Counts {
    /// Those of the specification's table, which has them for four members: 8 and 15 of II-F, 20 and 55 of II, none of I. Where owners
    /// sign, the table counts theirs alone.
    #[must_use]
    pub fn of(plan: &PayPlan) -> Self {
        let n = u32::from(plan.nodes);
        let f = n.saturating_sub(1) / 3;
        let q = (n + f + 1).div_ceil(2);
        // The batch, its endorsements at its representative, the certificate without one's own, the receipts.
        let ordered = n.saturating_sub(1) * (q + 2);
        let owners = match (plan.ownership, plan.verify) {
            (Ownership::Custodial, _) => 0,
            (Ownership::SelfSigned, Verify::All) => n,
            // Alone to its representative, which takes the word of nobody; what is signed together costs a batch next to nothing.
            (Ownership::Distilled, _) => 1,
            (Ownership::SelfSigned, Verify::Witness { margin }) => f + 1 + u32::from(margin),
        };
        let (made, checked) = match plan.profile {
            Profile::I => (0, 0),
            // Members vouch for the payments of a batch to each representative's customers; f + 1 words are checked by it, and by all
            // with the entry that spends them.
            Profile::II => (n + n * n, ordered + n * (f + 1) + n * n * (f + 1)),
            Profile::Funded if owners > 0 => (0, 0),
            Profile::Funded => (2 * n, ordered),
        };
        Self { made, checked, owners }
    }
}

/// Payments a second that so many processors could do at these prices, if the ledger alone does so many on one; the load has to sign what
/// owners sign, unless it did before the clock ran. The members' signatures are priced one by one in II-F, where few share a batch, and as many at once in II, as in the table.
#[must_use]
pub fn model(plan: &PayPlan, reference: f64, prices: &Prices, cores: u64) -> f64 {
    let Counts { made, checked, owners } = Counts::of(plan);
    let many = prices.batch_verify.as_secs_f64();
    let check = if plan.profile == Profile::II { many } else { prices.verify.as_secs_f64() };
    let batch = f64::from(made) * prices.sign.as_secs_f64() + f64::from(checked) * check;
    let signed = if owners > 0 && plan.ahead == 0 { prices.sign.as_secs_f64() } else { 0.0 };
    let books = if reference > 0.0 { f64::from(plan.nodes) / reference } else { 0.0 };
    let each = batch / f64::from(plan.batch.max(1)) + signed + f64::from(owners) * many + books;
    let cores = u32::try_from(cores).map_or(1.0, f64::from);
    if each > 0.0 { cores / each } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{Counts, model};
    use crate::pay::tests::plan;
    use crate::pay::{Ownership, PayPlan, Prices, Profile, Verify};
    use std::time::Duration;

    fn counts(profile: Profile, ownership: Ownership, verify: Verify) -> (u32, u32, u32) {
        let Counts { made, checked, owners } = Counts::of(&PayPlan { profile, ownership, verify, ..plan() });
        (made, checked, owners)
    }

    #[test]
    fn four_members_sign_and_check_as_often_as_the_table_says() {
        let (custodial, signed) = (Ownership::Custodial, Ownership::SelfSigned);
        let witnesses = Verify::Witness { margin: 0 };
        assert_eq!(counts(Profile::Funded, custodial, Verify::All), (8, 15, 0));
        assert_eq!(counts(Profile::Funded, signed, witnesses), (0, 0, 2));
        assert_eq!(counts(Profile::Funded, signed, Verify::All), (0, 0, 4));
        assert_eq!(counts(Profile::II, custodial, Verify::All), (20, 55, 0));
        assert_eq!(counts(Profile::I, custodial, Verify::All), (0, 0, 0));
        // Seven members: quorums of five.
        let seven = PayPlan { nodes: 7, ..plan() };
        assert_eq!((Counts::of(&seven).made, Counts::of(&seven).checked), (14, 42));
    }

    #[test]
    fn the_ceilings_of_the_table_come_out_at_its_prices() {
        let micros = |us: f64| Duration::from_secs_f64(us / 1e6);
        let prices = Prices {
            sign: micros(16.5),
            verify: micros(30.5),
            batch_verify: micros(11.6),
            hash64: micros(0.07),
        };
        let row = |profile, ownership, verify, batch| {
            let plan = PayPlan { profile, ownership, verify, batch, ..plan() };
            // Microseconds of signatures alone.
            2e6 / model(&plan, 0.0, &prices, 2)
        };
        let near = |got: f64, told: f64| assert!((got - told).abs() < 0.05 * told, "{got} for {told}");
        near(row(Profile::Funded, Ownership::Custodial, Verify::All, 4_096), 0.144);
        near(row(Profile::II, Ownership::Custodial, Verify::All, 256), 3.8);
        // The table counts checks; the load's own signature comes on top.
        near(row(Profile::Funded, Ownership::SelfSigned, Verify::Witness { margin: 0 }, 4_096), 23.2 + 16.5);
        let ahead = PayPlan {
            ownership: Ownership::SelfSigned,
            verify: Verify::Witness { margin: 0 },
            ahead: 1,
            ..plan()
        };
        near(2e6 / model(&ahead, 0.0, &prices, 2), 23.2);
        assert!(model(&PayPlan { profile: Profile::I, ..plan() }, 4e6, &prices, 2) > 1.9e6);
        assert!(model(&PayPlan { profile: Profile::I, ..plan() }, 0.0, &prices, 2) == 0.0);
    }
}
