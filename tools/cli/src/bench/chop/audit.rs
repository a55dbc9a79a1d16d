//! No figure without proof that the batches are genuine and that forged ones are refused.

use serde_json::{Value, json};
use synod_chopchop::batch::{Refusal, Sealed};
use synod_chopchop::config::Cluster;
use synod_config::{SynError, code};
use synod_load::chop::{Forged, Witness};

/// What was found.
#[derive(Clone, Debug, Default)]
pub(super) struct Audit {
    /// Genuine batches that the jobs of a store were given, before the clock ran.
    pub(super) genuine: u64,
    /// Batches with one wrong message, or one wrong signature of a straggler, that they were given.
    pub(super) forged: u64,
    /// Genuine ones that were refused, under the clock or before.
    pub(super) refused: u64,
    /// Forged ones that were taken, or refused for a reason that is not theirs.
    pub(super) taken: u64,
}

impl Audit {
    /// Has every batch of `pool` witnessed, and forgeries of the first one refused. With `planted` the forgeries are not
    /// forged.
    pub(super) fn of(witness: &Witness<'_>, cluster: &Cluster, pool: &[Sealed], planted: bool) -> Self {
        let mut audit = Self::default();
        for batch in pool {
            audit.genuine += 1;
            audit.count(witness.check(batch).is_ok());
        }
        let Some(first) = pool.first() else { return audit };
        let count = first.header.count;
        for index in [0, count / 2, count - 1] {
            let Some(mut forged) = Forged::of(cluster, first, index) else {
                audit.taken += 1;
                continue;
            };
            if planted {
                forged.rerooted = first.clone();
            }
            let signatures = [Err(Refusal::Aggregate), Err(Refusal::Straggler)];
            let told = signatures.contains(&witness.check(&forged.rerooted));
            let rooted = witness.check(&forged.swapped) == Err(Refusal::Root);
            audit.forged += 2;
            audit.taken += u64::from(!told) + u64::from(!rooted);
            if let Some(resigned) = forged.resigned {
                audit.forged += 1;
                audit.taken += u64::from(witness.check(&resigned) != Err(Refusal::Straggler));
            }
        }
        audit
    }

    /// Counts a genuine batch.
    pub(super) fn count(&mut self, taken: bool) {
        self.refused += u64::from(!taken);
    }

    fn ok(&self) -> bool {
        self.refused == 0 && self.taken == 0 && self.genuine > 0 && self.forged > 0
    }

    /// Nothing, if nothing is wrong.
    ///
    /// # Errors
    /// SYN-6009 with what is wrong.
    pub(super) fn passed(&self) -> Result<(), SynError> {
        if self.ok() {
            return Ok(());
        }
        let Self { genuine, forged, refused, taken } = self;
        let found = format!(
            "of {genuine} genuine batches and those measured {refused} were refused; of {forged} with one wrong \
             message or signature {taken} were not refused for it"
        );
        let values = [("lost", &*refused.to_string()), ("duplicated", &*taken.to_string())];
        Err(SynError::of(code::AUDIT_FAILED, &values).because(found))
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "genuine": self.genuine, "forged": self.forged,
            "genuine_refused": self.refused, "forged_taken": self.taken, "ok": self.ok(),
        })
    }
}
