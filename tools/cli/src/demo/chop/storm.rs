//! The crowd: clients of the genesis who paint a picture through both brokers.

use super::cluster::{BROKERS, ChopCluster};
use crate::exit::bug;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use synod_chopchop::receipt::Receipt;
use synod_config::{SynError, code};
use synod_host::chop::client::ChopBroker;
use synod_load::chop::client::{Crowd, Input, LoadNode, LoadSetup, Pace, Stats};

/// Strokes of each.
pub(crate) const STROKES: u32 = 8;
/// How often it is looked how far things are.
const LOOK: Duration = Duration::from_millis(20);
/// How long an answer of the crowd may take.
const ANSWER: Duration = Duration::from_secs(30);
/// How long links and strokes may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// The crowd, a part of it at each broker.
pub(super) struct Storm {
    parts: Vec<LoadNode>,
    painters: u32,
    receipts: mpsc::Receiver<Box<Receipt>>,
}

/// What brokers sealed meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sealed {
    pub(super) batches: u64,
    pub(super) messages: u64,
    pub(super) stragglers: u64,
    pub(super) bytes: u64,
}

impl Sealed {
    /// What both brokers say.
    pub(super) fn look(cluster: &ChopCluster) -> Result<Self, SynError> {
        let mut all = Self::default();
        for number in 0..BROKERS {
            let one = cluster.broker(number)?;
            all.batches += one.batches;
            all.messages += one.messages;
            all.stragglers += one.stragglers;
            all.bytes += one.bytes;
        }
        Ok(all)
    }

    pub(super) const fn since(self, before: Self) -> Self {
        Self {
            batches: self.batches.saturating_sub(before.batches),
            messages: self.messages.saturating_sub(before.messages),
            stragglers: self.stragglers.saturating_sub(before.stragglers),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }

    /// Messages under a multi-signature, of ten thousand.
    pub(super) const fn distilled(self) -> u64 {
        match self.messages {
            0 => 0,
            messages => messages.saturating_sub(self.stragglers) * 10_000 / messages,
        }
    }
}

impl Storm {
    /// Starts the crowd and shakes hands: one link for each of its clients.
    ///
    /// # Errors
    /// SYN-2003 when links do not come up.
    pub(super) async fn start(cluster: &ChopCluster) -> Result<Self, SynError> {
        let (to, receipts) = mpsc::channel();
        let each = cluster.painters / u32::from(BROKERS);
        let mut parts = Vec::new();
        for (number, broker) in (0_u32..).zip(&cluster.brokers) {
            parts.push(part(cluster, broker, (number * each, each), to.clone())?);
        }
        let storm = Self { parts, painters: each * u32::from(BROKERS), receipts };
        let wanted = u64::from(storm.painters);
        let until = Instant::now() + PATIENCE;
        loop {
            let links: u64 = storm.parts.iter().map(|part| part.wire().links).sum();
            if links >= wanted {
                return Ok(storm);
            }
            if Instant::now() >= until {
                let values = [("address", "a broker"), ("stage", "link")];
                let found = format!("{links} of {wanted} links are up");
                return Err(SynError::of(code::NO_ANSWER, &values).because(found));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Has every client make its strokes; how long it took until all were known to be delivered.
    ///
    /// # Errors
    /// SYN-2003 when some are not delivered in time.
    pub(super) async fn paint(&self) -> Result<Duration, SynError> {
        let begun = Instant::now();
        for part in &self.parts {
            part.tell(Input::Paint(STROKES));
            part.tell(Input::Broadcast(STROKES));
        }
        let wanted = self.strokes();
        let until = begun + PATIENCE;
        loop {
            let confirmed: u64 = self.stats()?.iter().map(|stats| stats.confirmed).sum();
            if confirmed >= wanted {
                return Ok(begun.elapsed());
            }
            if Instant::now() >= until {
                let values = [("address", "a broker"), ("stage", "delivery of every stroke")];
                let found = format!("{confirmed} of {wanted} are delivered");
                return Err(SynError::of(code::NO_ANSWER, &values).because(found));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Strokes of all.
    pub(super) fn strokes(&self) -> u64 {
        u64::from(self.painters) * u64::from(STROKES)
    }

    fn stats(&self) -> Result<Vec<Stats>, SynError> {
        let ask = |part: &LoadNode| part.stats(ANSWER).ok_or_else(|| bug("crowd", &"it does not answer"));
        self.parts.iter().map(ask).collect()
    }

    /// Ends the crowd; the receipts of its strokes.
    ///
    /// # Errors
    /// What ended a thread.
    pub(super) fn stop(self) -> Result<Vec<Receipt>, SynError> {
        for part in self.parts {
            part.stop().map_err(|error| bug("crowd", &error))?;
        }
        Ok(self.receipts.try_iter().map(|receipt| *receipt).collect())
    }
}

fn part(
    cluster: &ChopCluster,
    broker: &ChopBroker,
    (first, count): (u32, u32),
    to: mpsc::Sender<Box<Receipt>>,
) -> Result<LoadNode, SynError> {
    let crowd = Crowd {
        family: cluster.family.clone(),
        members: (first, count),
        ids: Some(first),
        cluster: cluster.known.clone(),
        class: cluster.class,
        brokers: 1,
        silent: 0,
        invalid: 0,
        receipts: true,
        payee: 0,
        pace: Pace::default(),
    };
    let to = std::sync::Mutex::new(to);
    let setup = LoadSetup {
        crowd,
        cluster_name: cluster.genesis().cluster().name.clone(),
        brokers: vec![(broker.address, broker.key)],
        sockets: 4,
        threads: 1,
        receipts: Some(Box::new(move |receipt| {
            if let Ok(to) = to.lock() {
                // Nobody wants it once the demo ends.
                let _ = to.send(receipt);
            }
        })),
    };
    LoadNode::start(setup).map_err(|error| bug("crowd", &error))
}
