//! What single pieces of work cost on this machine now: the prices of the model that a run is compared with.
//!
//! Each is the very work that a replica or a wallet does, timed on one thread.

use super::bank::{Bank, Place};
use super::owners::Owners;
use super::plan::{Ownership, PayPlan, Workload};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use synod_astro::{Batches, Content, Job, Line, Made, Profile, Recalled, Signer, Verify, Work};
use synod_broadcast::SignedBroadcast;
use synod_crypto::{Hash, PublicKey};
use synod_machine::broadcast::Lot;
use synod_machine::{Job as _, Machine};

type Own = Job<<SignedBroadcast<Batches> as Machine>::Job>;

/// Entries that are signed and checked.
const COUNT: u32 = 1_024;
/// Who signs them.
const OWNERS: u32 = 64;

/// See the module. Times are of one piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// An owner signs an entry.
    pub sign: Duration,
    /// One signature of an owner is checked alone.
    pub verify: Duration,
    /// One is checked among those of a batch of 1,024.
    pub batch_verify: Duration,
    /// 64 bytes are hashed.
    pub hash64: Duration,
}

impl Prices {
    /// Measures them with a few owners, who sign as all do and as members do; `None` where a signature is found bad, which none is.
    #[must_use]
    pub fn measure() -> Option<Self> {
        let plan = PayPlan {
            ahead: 0,
            profile: Profile::Funded,
            shards: 1,
            nodes: 1,
            accounts: OWNERS,
            ownership: Ownership::SelfSigned,
            verify: Verify::All,
            workload: Workload::Pay,
            cross: None,
            batch: COUNT,
            inflight: COUNT,
            warmup: Duration::ZERO,
            span: Duration::ZERO,
        };
        let (bank, at) = (Bank::new(plan).ok()?, Place { shard: 0, id: 0 });
        let shared = Arc::clone(bank.view(0)?);
        let mut owners = Owners::new(&bank, at);
        let (lines, sign) = timed(|| (0..COUNT).map_while(|_| owners.next()).collect::<Vec<Line>>());
        let keys: Vec<PublicKey> =
            lines.iter().map(|line| Bank::owner(line.entry.id.spender).public()).collect();
        let member = Bank::keys(at);
        let view = || Arc::clone(&shared);
        let admits = lines.iter().zip(&keys).map(|(line, key)| {
            Own::from(Work::Admit { view: view(), orders: vec![(0, line.clone(), *key)] })
        });
        let admits: Vec<Own> = admits.collect();
        let (admitted, verify) = timed(|| admits.into_iter().map(|job| job.run(&member)).collect::<Vec<_>>());
        let is_good = |done: &_| match done {
            synod_astro::Done::Own(made) => match &**made {
                Made::Admitted { orders } => orders.iter().all(|(.., key)| key.is_some()),
                _ => false,
            },
            synod_astro::Done::Broadcast(_) => false,
        };
        let content = Content { lines, ..Content::default() };
        let (lot, prev) = (Lot { source: 0, sequence: 1 }, Hash::ZERO);
        let build = Work::Build { shard: at.shard, lot, prev, content, withs: None };
        let synod_astro::Done::Own(built) = Own::from(build).run(&member) else { return None };
        let Made::Built(opened, _) = *built else { return None };
        let wanted = keys.into_iter().map(|single| Some(Signer { single, multi: None })).collect();
        let points = BTreeMap::new();
        let check = Own::from(Work::Check {
            opened,
            view: view(),
            keys: wanted,
            points,
            recalled: Recalled::default(),
        });
        let (checked, batch_verify) = timed(|| check.run(&member));
        let synod_astro::Done::Own(checked) = checked else { return None };
        let Made::Checked { keys, .. } = *checked else { return None };
        let all_good = admitted.iter().all(is_good) && keys.iter().all(Option::is_some);
        let block = [7; 64];
        let (_, hash64) =
            timed(|| (0..COUNT).map(|_| Hash::of(std::hint::black_box(&block))).collect::<Vec<_>>());
        let each = |all: Duration| all / COUNT;
        let prices = Self {
            sign: each(sign),
            verify: each(verify),
            batch_verify: each(batch_verify),
            hash64: each(hash64),
        };
        all_good.then_some(prices)
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let made = work();
    (made, begun.elapsed())
}
