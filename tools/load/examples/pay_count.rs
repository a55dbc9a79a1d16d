//! Payments over four replicas on one thread, for whoever counts instructions or samples where time goes.
//!
//! ```text
//! pay_count accounts=16000 inflight=16384 payments=40000 profile=II|I|II-F owners=custodial|self|distilled verify=all|witness batch=4096
//! ```
//!
//! Under callgrind, `--toggle-collect='*counted*step*'` leaves out what opens replicas and what owners sign; two counts with different numbers
//! of payments differ by what those cost.

use std::collections::BTreeMap;
use std::time::Duration;
use synod_load::pay::{Bank, Ownership, Paid, PayPlan, Profile, Verify, Workload, counted};

/// What is counted if nothing else is said.
fn usual() -> PayPlan {
    PayPlan {
        profile: Profile::Funded,
        shards: 1,
        nodes: 4,
        accounts: 4_000,
        ownership: Ownership::Custodial,
        verify: Verify::All,
        workload: Workload::Pay,
        cross: None,
        ahead: 0,
        batch: 0,
        inflight: 16_384,
        warmup: Duration::ZERO,
        span: Duration::ZERO,
    }
}

fn number(said: &BTreeMap<String, String>, name: &str, usual: u32) -> Result<u32, String> {
    said.get(name).map_or(Ok(usual), |text| text.parse().map_err(|_| format!("{name} is a number")))
}

/// What is to be counted, and how many payments.
fn asked() -> Result<(PayPlan, u32), String> {
    let pair = |arg: String| arg.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let said: Option<BTreeMap<String, String>> = std::env::args().skip(1).map(pair).collect();
    let said = said.ok_or("each argument is NAME=VALUE")?;
    let word = |name: &str| said.get(name).map(String::as_str);
    let profile = match word("profile") {
        None | Some("II-F") => Profile::Funded,
        Some("I") => Profile::I,
        Some("II") => Profile::II,
        Some(other) => return Err(format!("{other} is no profile")),
    };
    let ownership = match word("owners") {
        None | Some("custodial") => Ownership::Custodial,
        Some("self") => Ownership::SelfSigned,
        Some("distilled") => Ownership::Distilled,
        Some(other) => return Err(format!("{other} is no kind of owners")),
    };
    let verify = match word("verify") {
        None | Some("all") => Verify::All,
        Some("witness") => Verify::Witness { margin: 0 },
        Some(other) => return Err(format!("{other} checks nothing")),
    };
    let usual = usual();
    let plan = PayPlan {
        profile,
        ownership,
        verify,
        accounts: number(&said, "accounts", usual.accounts)?,
        inflight: number(&said, "inflight", usual.inflight)?,
        batch: number(&said, "batch", profile.batch_max())?,
        ..usual
    };
    Ok((plan, number(&said, "payments", 40_000)?))
}

fn told(paid: &Paid) -> String {
    let cpu: Duration = paid.cpu.iter().sum();
    let payments = paid.payments.max(1);
    let nanos = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX) / payments;
    format!(
        "{} payments, {} signatures made, {} checked, {} of many owners, {} bytes each, {nanos} ns of CPU each, {:?} of its clock; sound: {}\n",
        paid.payments,
        paid.signed,
        paid.checked,
        paid.sums,
        paid.bytes / payments,
        paid.wall,
        paid.sound()
    )
}

fn main() -> Result<(), String> {
    let (plan, payments) = asked()?;
    let bank = Bank::new(plan).map_err(|why| why.to_string())?;
    let paid = counted(&bank, u64::from(payments))?;
    std::io::Write::write_all(&mut std::io::stdout(), told(&paid).as_bytes()).map_err(|why| why.to_string())
}
