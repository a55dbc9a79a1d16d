//! Customers: threads that pay at random through the institution of the payer, many payments in one request.
//!
//! A request that is lost, refused as busy or of unknown outcome is sent again with the same ids until every payment has its outcome.

use super::books::{Books, Payment};
use super::plan::ProcessPlan;
use crate::exit::bug;
use crate::http::{Answer, Request, ask};
use serde::Deserialize;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use synod_config::{Address, SynError};

/// How long a node may take to answer, and to say that it will not.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a thread waits before it sends again.
const PAUSE: Duration = Duration::from_millis(20);
/// Longest answer.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Most that one payment pays.
pub(crate) const AMOUNT_MAX: u32 = 9;

/// So many payments of an institution's customers had settled then, all of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    pub(crate) at: Instant,
    pub(crate) institution: usize,
    pub(crate) payments: u64,
}

/// What all threads share.
struct Shared {
    places: Vec<Address>,
    customers: u32,
    chunk: u64,
    /// Payments that nobody has begun.
    left: AtomicU64,
    settled: AtomicU64,
    events: Mutex<Vec<Settled>>,
    /// Requests that were sent again.
    again: AtomicU64,
    failed: Mutex<Option<SynError>>,
    ended: AtomicBool,
}

/// The threads.
pub(crate) struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Books>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Load {
    /// Begins to pay.
    ///
    /// # Errors
    /// SYN-9001 if the system gives no thread.
    pub(crate) fn start(plan: &ProcessPlan, places: Vec<Address>) -> Result<Self, SynError> {
        let institutions = places.len();
        let shared = Arc::new(Shared {
            places,
            customers: plan.customers(),
            chunk: u64::from(plan.chunk),
            left: AtomicU64::new(plan.payments),
            settled: AtomicU64::new(0),
            events: Mutex::default(),
            again: AtomicU64::new(0),
            failed: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let mut threads = Vec::new();
        for number in 0..institutions * usize::try_from(plan.requests).unwrap_or(1) {
            let shared = Arc::clone(&shared);
            let work = move || Customers::new(&shared, number % institutions, number as u64).pay();
            let thread = std::thread::Builder::new().name("customers".to_owned()).spawn(work);
            threads.push(thread.map_err(|error| bug("customers", &error))?);
        }
        Ok(Self { shared, threads })
    }

    /// Payments that settled so far.
    ///
    /// # Errors
    /// Why customers gave up.
    pub(crate) fn settled(&self) -> Result<u64, SynError> {
        let failed = locked(&self.shared.failed).clone();
        failed.map_or_else(|| Ok(self.shared.settled.load(Ordering::Relaxed)), Err)
    }

    /// Requests that were sent again.
    pub(crate) fn again(&self) -> u64 {
        self.shared.again.load(Ordering::Relaxed)
    }

    /// When which payments settled, so far.
    pub(crate) fn events(&self) -> Vec<Settled> {
        locked(&self.shared.events).clone()
    }

    /// Waits for the last payment; the books of all.
    ///
    /// # Errors
    /// Why customers gave up.
    pub(crate) fn end(mut self) -> Result<Books, SynError> {
        let mut books = Books::new(self.shared.places.len(), self.shared.customers);
        for thread in self.threads.drain(..) {
            books.add(thread.join().map_err(|_| bug("customers", &"a thread panicked"))?);
        }
        self.settled()?;
        Ok(books)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
    }
}

/// Customers of one institution.
struct Customers<'a> {
    shared: &'a Shared,
    institution: usize,
    /// Makes ids and draws differ from those of other threads.
    number: u64,
    drawn: u64,
    books: Books,
}

/// What a node answers to each payment; other fields are passed over.
#[derive(Deserialize)]
struct Told<'a> {
    state: Option<&'a str>,
    n: Option<&'a str>,
    code: Option<&'a str>,
    outcome: Option<&'a str>,
}

#[derive(Deserialize)]
struct Results<'a> {
    #[serde(borrow)]
    results: Vec<Told<'a>>,
}

impl<'a> Customers<'a> {
    fn new(shared: &'a Shared, institution: usize, number: u64) -> Self {
        let books = Books::new(shared.places.len(), shared.customers);
        Self { shared, institution, number, drawn: 0, books }
    }

    /// A number below `bound`, which is not 0, the same in each run.
    fn draw(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        let mut mixed = self.drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (self.number << 48);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let wide = u128::from(mixed ^ (mixed >> 31)) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    fn payment(&mut self) -> Payment {
        let all = self.books.accounts.len() as u64;
        let customers = u64::from(self.shared.customers);
        let first = self.institution as u64 * customers;
        let from = first + self.draw(customers);
        let to = self.draw(all);
        // Nobody pays himself.
        let to = if to == from { (to + 1) % all } else { to };
        let amount = u128::from(1 + self.draw(AMOUNT_MAX.into()));
        let index = |number| usize::try_from(number).unwrap_or(usize::MAX);
        let id = (u128::from(self.number) << 64) + u128::from(self.drawn);
        Payment { id, from: index(from), to: index(to), amount }
    }

    /// Pays until nothing is left; gives the books.
    fn pay(mut self) -> Books {
        loop {
            let take = |left: u64| Some(left - left.min(self.shared.chunk));
            let before = self.shared.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
            let count = before.unwrap_or(0).min(self.shared.chunk);
            if count == 0 {
                return self.books;
            }
            let mut payments: Vec<Payment> = (0..count).map(|_| self.payment()).collect();
            let mut is_first = true;
            while !payments.is_empty() {
                if self.shared.ended.load(Ordering::Relaxed) {
                    return self.books;
                }
                if !is_first {
                    self.shared.again.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(PAUSE);
                }
                is_first = false;
                payments = match self.once(payments) {
                    Ok(left) => left,
                    Err(why) => {
                        locked(&self.shared.failed).get_or_insert(why);
                        return self.books;
                    }
                };
            }
        }
    }

    /// Sends payments once; gives those without an outcome.
    fn once(&mut self, payments: Vec<Payment>) -> Result<Vec<Payment>, SynError> {
        let Some(place) = self.shared.places.get(self.institution) else { return Ok(Vec::new()) };
        let headers = [format!("Synod-Deadline-Ms: {}", PATIENCE.as_millis())];
        let body = body(&self.books, &payments);
        let line = "POST /v1/pay/create_transfers";
        let patience = PATIENCE + Duration::from_secs(1);
        let request =
            Request { line, headers: &headers, body: &body, patience, answer_bytes_max: ANSWER_BYTES_MAX };
        match ask(place, &request) {
            Ok(Answer { status: 200, body }) => self.told(payments, &body),
            // A node that stops or starts: everybody is asked again.
            Ok(Answer { status: 429 | 503 | 504, .. }) | Err(_) => Ok(payments),
            Ok(Answer { status, body }) => Err(bug("customers", &format!("status {status}: {body}"))),
        }
    }

    fn told(&mut self, payments: Vec<Payment>, body: &str) -> Result<Vec<Payment>, SynError> {
        let told: Results<'_> = serde_json::from_str(body).map_err(|error| bug("customers", &error))?;
        if told.results.len() != payments.len() {
            return Err(bug("customers", &"another number of results than of payments"));
        }
        let (mut left, mut settled) = (Vec::new(), 0);
        for (payment, told) in payments.into_iter().zip(told.results) {
            let n = told.n.and_then(|n| n.parse().ok());
            match (told.state, n) {
                (Some("settled" | "stable"), Some(n)) => {
                    self.books.paid(&payment, n);
                    settled += 1;
                }
                _ if told.outcome == Some("unknown") || told.code == Some("SYN-3402") => left.push(payment),
                _ => {
                    let code = told.code.unwrap_or("no code");
                    return Err(bug("customers", &format!("{payment:?} was refused: {code}")));
                }
            }
        }
        let event = Settled { at: Instant::now(), institution: self.institution, payments: settled };
        locked(&self.shared.events).push(event);
        self.shared.settled.fetch_add(settled, Ordering::Relaxed);
        Ok(left)
    }
}

/// Payments as the body of a request.
pub(crate) fn body(books: &Books, payments: &[Payment]) -> String {
    let mut body = String::with_capacity(payments.len() * 96);
    for Payment { id, from, to, amount } in payments {
        let (from, to) = (books.id(*from), books.id(*to));
        let separator = if body.is_empty() { '[' } else { ',' };
        // A string takes whatever is written.
        let _ = write!(
            body,
            "{separator}{{\"id\":\"{id}\",\"from\":\"{from}\",\"to\":\"{to}\",\"amount\":\"{amount}\"}}"
        );
    }
    body.push(']');
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_an_array_of_payments() {
        let books = Books::new(2, 1);
        let payments = [7, 8].map(|id| Payment { id, from: 0, to: 1, amount: 5 });
        let text = body(&books, &payments);
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read[1], serde_json::json!({ "id": "8", "from": "0-0-2", "to": "0-1-2", "amount": "5" }));
    }
}
