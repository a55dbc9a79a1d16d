//! Money that its owner spends twice at once, and what proves the payment that happened.

use super::scenes::{all_of, first_of};
use crate::bench::{Books, Payment, Processes, pay_asked, pay_body, pay_places};
use crate::demo::Scene;
use crate::exit::bug;
use crate::proof::Proof;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Instant;
use synod_config::{Address, SynError};
use synod_host::pay::check;
use synod_wire::Bytes;

/// Ids that no customer of the load uses.
const FIRST: u128 = 1 << 120;

fn results(place: &Address, books: &Books, payments: &[Payment]) -> Result<Vec<Value>, SynError> {
    let line = "POST /v1/pay/create_transfers?until=stable";
    let told = pay_asked(place, line, &pay_body(books, payments))?;
    let mut told: Value = serde_json::from_str(&told).map_err(|error| bug("demo", &error))?;
    match told["results"].take() {
        Value::Array(results) if results.len() == payments.len() => Ok(results),
        _ => Err(bug("demo", &"another number of results than of payments")),
    }
}

/// A customer of the first institution pays all that he has to two others, in two requests at once, and then under the id of the one that
/// was paid to somebody else. Gives the payment that happened, with its place.
pub(super) fn spend(cluster: &Processes, books: &Books) -> Result<(Scene, Payment, u64), SynError> {
    let begun = Instant::now();
    let places = pay_places(cluster);
    let place = places.first().ok_or_else(|| bug("demo", &"no institution"))?;
    let from = first_of(books, 0)?;
    let twice = [(FIRST, first_of(books, 1)?), (FIRST + 1, first_of(books, 2)?)];
    let twice = twice.map(|(id, to)| all_of(books, id, (from, to)));
    let told = std::thread::scope(|scope| {
        let threads = twice.map(|payment| scope.spawn(move || results(place, books, &[payment])));
        threads.map(|thread| thread.join().unwrap_or_else(|_| Err(bug("demo", &"a thread panicked"))))
    });
    let mut paid = Vec::new();
    let mut short = 0;
    for (payment, told) in twice.into_iter().zip(told) {
        let told = told?.pop().unwrap_or_default();
        short += u64::from(told["code"] == "SYN-3115");
        paid.extend(told["n"].as_str().and_then(|n| n.parse().ok()).map(|n: u64| (payment, n)));
    }
    let [(payment, n)] = paid.as_slice() else {
        return Err(bug("demo", &format!("{} of two payments of the same money happened", paid.len())));
    };
    let other = Payment { to: first_of(books, 3)?, amount: 1, ..*payment };
    let again = results(place, books, &[other, *payment])?;
    let is_one = again[0]["code"] == "SYN-3116"
        && again[1]["n"].as_str().and_then(|again| again.parse().ok()) == Some(*n);
    let note = format!(
        "all that {} has, spent twice at once: one is paid, one refused (SYN-3115); under its id nothing else (SYN-3116)",
        books.id(from)
    );
    let ok = short == 1 && is_one;
    let shown = Scene { name: "double", ok, operations: 4, took: begun.elapsed(), gap_ms: None, note };
    Ok((shown, *payment, *n))
}

/// Takes the receipt of a payment, which the genesis alone proves, and changes bytes of it, which prove nothing.
pub(super) fn receipt(
    cluster: &Processes,
    books: &Books,
    (payment, n): (&Payment, u64),
) -> Result<(Scene, PathBuf), SynError> {
    let begun = Instant::now();
    let places = pay_places(cluster);
    let place = places.first().ok_or_else(|| bug("demo", &"no institution"))?;
    let (id, from) = (payment.id, books.id(payment.from));
    let text = pay_asked(place, &format!("GET /v1/pay/transfers/{id}/receipt?from={from}"), "")?;
    let proof = Proof::parse(&text, Path::new("the receipt"))?;
    let file = cluster.directory().join(format!("{id}.receipt"));
    proof.write(&file)?;
    let bytes = proof.bytes()?;
    let proved = check(bytes.clone(), &cluster.genesis)?;
    let entry = &proved.entry;
    let is_it = entry.transfer == id && entry.id.spender == from && entry.id.n == n;
    let mut refused = 0_u64;
    let step = (bytes.len() / 16).max(1);
    let places: Vec<usize> = (0..bytes.len()).step_by(step).collect();
    for at in &places {
        let mut changed = bytes.to_vec();
        changed[*at] ^= 1;
        refused += u64::from(check(Bytes::from(changed), &cluster.genesis).is_err());
    }
    let note = format!(
        "its receipt ({} bytes) is checked with the genesis alone: {:?}; with one bit changed in {} places it proves nothing",
        bytes.len(),
        proved.level,
        places.len()
    );
    let ok = is_it && refused == places.len() as u64;
    let shown =
        Scene { name: "receipt", ok, operations: refused + 1, took: begun.elapsed(), gap_ms: None, note };
    Ok((shown, file))
}
