//! Payments over four replicas on one thread, for whoever counts instructions: `valgrind --tool=callgrind .../pay_count 4000 16384 40000`.
//!
//! A fourth number, 1 or 2, is for profiles I and II. Two counts with different numbers of payments differ by what those cost: opening the replicas costs the same in both.

use std::time::Duration;
use synod_load::pay::{Bank, Ownership, PayPlan, Profile, Verify, Workload, counted};

fn main() -> Result<(), String> {
    let args: Vec<u32> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let arg = |at: usize, usual: u32| args.get(at).copied().unwrap_or(usual);
    let profile = match arg(3, 0) {
        0 => Profile::Funded,
        1 => Profile::I,
        _ => Profile::II,
    };
    let batch = profile.batch_max();
    let plan = PayPlan {
        profile,
        shards: 1,
        nodes: 4,
        accounts: arg(0, 4_000),
        ownership: Ownership::Custodial,
        verify: Verify::All,
        workload: Workload::Pay,
        cross: None,
        ahead: 0,
        batch,
        inflight: arg(1, 16_384),
        warmup: Duration::ZERO,
        span: Duration::ZERO,
    };
    let bank = Bank::new(plan).map_err(|why| why.to_string())?;
    let paid = counted(&bank, u64::from(arg(2, 40_000)))?;
    let batches = paid.signed / 8;
    let line = format!(
        "{} payments, about {batches} batches, {} bytes, {} signatures checked, {:?}; sound: {}\n",
        paid.payments,
        paid.bytes,
        paid.checked,
        paid.wall,
        paid.sound()
    );
    std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes()).map_err(|why| why.to_string())
}
