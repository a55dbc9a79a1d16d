//! All clients of a run.

use super::book::Book;
use super::client::{self, Way};
use crate::chaos::load::connect;
use crate::exit::bug;
use std::net::SocketAddr;
use std::sync::Arc;
use synod_chaos::linear::Tally;
use synod_config::{Genesis, SynError};

/// Verified clients.
const VERIFIED: usize = 2;

/// Clients that run.
pub(crate) struct Histories {
    book: Arc<Book>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Histories {
    /// Starts the clients: verified ones, and one per address of a server that speaks RESP.
    ///
    /// # Errors
    /// SYN-9001 if the system gives no thread; the errors of a client's setup.
    pub(crate) fn start(genesis: &Genesis, servers: &[SocketAddr], seed: u64) -> Result<Self, SynError> {
        let mut ways = servers.iter().map(|server| Way::resp(*server)).collect::<Vec<_>>();
        for at in 0..VERIFIED {
            ways.push(Way::verified(connect(genesis, at)?)?);
        }
        let book = Arc::new(Book::new(ways.len()));
        let mut threads = Vec::new();
        for (number, way) in (0_u32..).zip(ways) {
            let book = book.clone();
            let work = move || client::run(number, way, &book, seed);
            let thread = std::thread::Builder::new().name("chaos-history".to_owned()).spawn(work);
            threads.push(thread.map_err(|error| bug("histories", &error))?);
        }
        Ok(Self { book, threads })
    }

    /// Stops the clients and judges what is left.
    ///
    /// # Errors
    /// SYN-9001 if a client panicked.
    pub(crate) fn finish(self) -> Result<Tally, SynError> {
        self.book.stop();
        for thread in self.threads {
            thread.join().map_err(|_| bug("histories", &"a client panicked"))?;
        }
        Ok(self.book.close())
    }
}
