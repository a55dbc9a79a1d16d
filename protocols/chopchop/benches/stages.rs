//! What the stages of a server cost per message on one core, keys apart: `cargo bench -p synod-chopchop`. Budgets (chopchop 8.2):
//! digest 2.5 ns, decode 2, entry tree 7, deduplication 6.5 at a million clients and 11 at 16 million.

use std::hint::black_box;
use std::time::Duration;

use synod_chopchop::Domains;
use synod_chopchop::batch::{Batch, OwnedEntry, Plan, Seal, Sealed};
use synod_chopchop::dedup::{Runs, Table};
use synod_chopchop::statement::BlsSignatureBytes;
use synod_crypto::Hash;
use synod_quorum::Epoch;
use synod_wire::Drawn;

/// Messages of a batch.
const COUNT: u32 = 65_536;
/// Batches of the pool. In every round of it clients send with the other parity, so that no message is the last one again.
const POOL: u32 = 16;
/// Rounds of a measurement.
const ROUNDS: u64 = 12;

#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark measures time")]
fn timed(run: impl FnOnce()) -> Duration {
    let start = std::time::Instant::now();
    run();
    start.elapsed()
}

fn print(what: &str, clients: u32, time: Duration, batches: u64) {
    let ns_per_100 = time.as_nanos() * 100 / u128::from(batches * u64::from(COUNT));
    println!("{clients:>10} clients, {what:<14} {:>4}.{:02} ns", ns_per_100 / 100, ns_per_100 % 100);
}

/// A batch of clients spread evenly, each drawn from its share.
fn batch(at: u32, domains: &Domains, clients: u32, parity: bool) -> Sealed {
    let mut draw = Drawn::new(u64::from(at));
    let share = clients / COUNT;
    let mut entry = |at: u32| OwnedEntry {
        id: at * share + u32::try_from(draw.below(u64::from(share))).expect("below a 32-bit number"),
        message: draw.below(u64::MAX).to_le_bytes().to_vec().into(),
        parity,
    };
    let plan = Plan { broker: 0, msg_size: 8, epoch: Epoch(0), k: 1, expiry: 9, directory: clients };
    let seal = Seal::new(plan, (0..COUNT).map(&mut entry).collect());
    seal.seal(domains, Some(BlsSignatureBytes([1; 96]))).expect("it is sound")
}

fn measure(clients: u32) {
    let domains = Domains::of(&Hash::of(b"bench"));
    let pool = |parity| (0..POOL).map(|at| batch(at, &domains, clients, parity)).collect::<Vec<Sealed>>();
    let [even, odd] = [false, true].map(pool);
    let rounds = |work: &dyn Fn(&Sealed)| timed(|| (0..ROUNDS).for_each(|_| even.iter().for_each(work)));
    let batches = ROUNDS * u64::from(POOL);
    let time = rounds(&|sealed| {
        black_box(sealed.digest(&domains));
    });
    print("digest", clients, time, batches);
    let time = rounds(&|sealed| {
        let batch = Batch::open(sealed).expect("well formed");
        assert!(black_box(batch.check()).is_ok());
        drop(batch);
    });
    print("decode", clients, time, batches);
    let opened: Vec<Batch> = even.iter().map(|sealed| Batch::open(sealed).expect("well formed")).collect();
    let time = timed(|| {
        for batch in (0..ROUNDS).flat_map(|_| &opened) {
            assert!(batch.check_root(&domains).is_ok());
        }
    });
    print("tree", clients, time, batches);
    let mut table = Table::new(16);
    table.grow(clients);
    let (mut time, mut undelivered) = (Duration::ZERO, 0);
    // The first round only touches the memory of the table.
    for round in 0..=ROUNDS {
        let mut split = Vec::new();
        for (at, sealed) in (1..).zip(if round % 2 == 0 { &even } else { &odd }) {
            let mut sealed = sealed.clone();
            sealed.header.k = round * u64::from(POOL) + at;
            let batch = Batch::open(&sealed).expect("well formed");
            split.push(Runs::split(batch, &table).expect("ids of the table"));
        }
        let spent =
            timed(|| undelivered += split.iter().map(|runs| runs.apply(&mut table).exc_count()).sum::<u32>());
        time += if round == 0 { Duration::ZERO } else { spent };
    }
    print("deduplication", clients, time, batches);
    println!("{clients:>10} clients, {undelivered} messages were the last ones of their clients again");
}

fn main() {
    for clients in [1 << 20, 1 << 24] {
        measure(clients);
    }
}
