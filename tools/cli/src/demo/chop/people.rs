//! The people: real clients, each with keys, a journal and links of its own.
//!
//! Each paints a column of its own, one pixel below the other, so that the board shows every stroke ever delivered.

use super::cluster::ChopCluster;
use crate::exit::bug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use synod_chopchop::client::Parameters;
use synod_chopchop::receipt::Receipt;
use synod_config::{NodeKey, SynError};
use synod_host::chop::client::{ChopClient, ChopClientSetup};
use synod_machine::Span;
use synod_wire::Bytes;

/// How many there are.
pub(super) const PEOPLE: u32 = 8;
/// Silence after which the next broker is asked.
pub(super) const TURN: Span = Span::secs(1);
/// How long a stroke or a sign-up may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The column of the first of them: beside the crowd's picture.
const COLUMN: u32 = 300;

/// One of them.
pub(super) struct Person {
    client: ChopClient,
    number: u32,
    /// Its number in the directory.
    pub(super) id: u32,
    /// Strokes that are delivered.
    pub(super) strokes: u32,
    /// Their receipts; none of those that only the servers' word says are delivered.
    pub(super) receipts: Vec<Receipt>,
    /// When each was known to be delivered.
    heard: Vec<Instant>,
}

/// The operation of a person's stroke, from 0.
pub(super) fn stroke(number: u32, stroke: u32) -> Option<u64> {
    let colour = 0xff_0000 | (stroke & 0xff) << 8 | number;
    synod_pixels::operation(COLUMN + number, stroke, colour)
}

impl Person {
    /// Which of them it is.
    pub(super) const fn number(&self) -> u32 {
        self.number
    }

    /// Makes keys and a journal, and signs up.
    ///
    /// # Errors
    /// What kept it from an id.
    async fn sign_up(setup: ChopClientSetup, number: u32) -> Result<Self, SynError> {
        let client = ChopClient::open(setup)?;
        let id = client.sign_up(PATIENCE).await?;
        Ok(Self { client, number, id, strokes: 0, receipts: Vec::new(), heard: Vec::new() })
    }

    /// Paints one pixel after the other until `stopped` is said, and finishes the last.
    ///
    /// # Errors
    /// A stroke without an outcome.
    async fn paint(mut self, stopped: Arc<AtomicBool>) -> Result<Self, SynError> {
        while !stopped.load(Ordering::Relaxed) {
            let Some(operation) = stroke(self.number, self.strokes) else { break };
            let payload = Bytes::copy_from_slice(&operation.to_le_bytes());
            let delivered = self.client.submit(payload, PATIENCE).await?;
            self.strokes += 1;
            self.heard.push(Instant::now());
            // Whoever hears of its delivery from servers, because its broker went, has their word and no receipt.
            self.receipts.extend(delivered.receipt.map(|receipt| *receipt));
        }
        Ok(self)
    }
}

/// All of them.
pub(super) struct People(pub(super) Vec<Person>);

/// What they did while something happened.
pub(super) struct Under {
    /// Strokes that were delivered.
    pub(super) strokes: u64,
    /// The longest time without any delivery from what happened on.
    pub(super) gap: Duration,
}

impl People {
    /// Has all of them sign up, at once.
    ///
    /// # Errors
    /// What kept one of them from an id.
    pub(super) async fn sign_up(cluster: &ChopCluster) -> Result<Self, SynError> {
        let mut joining = Vec::new();
        for number in 0..PEOPLE {
            let setup = ChopClientSetup {
                cluster_name: cluster.genesis().cluster().name.clone(),
                cluster: cluster.known.clone(),
                class: cluster.class,
                brokers: cluster.brokers.clone(),
                id: None,
                key: NodeKey::generate()?,
                data: cluster.home(usize::try_from(number).unwrap_or(usize::MAX)),
                parameters: Parameters { submit: TURN, ..Parameters::default() },
            };
            joining.push(tokio::spawn(Person::sign_up(setup, number)));
        }
        let mut all = Vec::new();
        for person in joining {
            all.push(person.await.map_err(|error| bug("person", &error))??);
        }
        Ok(Self(all))
    }

    /// Has all of them paint for `before`, then does something, then has them paint for `after`.
    ///
    /// # Errors
    /// A stroke without an outcome; what `act` gives.
    pub(super) async fn under(
        &mut self,
        (before, after): (Duration, Duration),
        act: impl FnOnce() -> Result<(), SynError>,
    ) -> Result<Under, SynError> {
        let stopped = Arc::new(AtomicBool::new(false));
        let known: u64 = self.strokes();
        let people = std::mem::take(&mut self.0);
        let painting: Vec<_> =
            people.into_iter().map(|person| tokio::spawn(person.paint(stopped.clone()))).collect();
        tokio::time::sleep(before).await;
        let happened = Instant::now();
        let acted = act();
        tokio::time::sleep(after).await;
        stopped.store(true, Ordering::Relaxed);
        for person in painting {
            self.0.push(person.await.map_err(|error| bug("person", &error))??);
        }
        acted?;
        let heard = self.0.iter().flat_map(|person| person.heard.iter().copied()).collect();
        Ok(Under { strokes: self.strokes() - known, gap: gap(heard, happened) })
    }

    /// Strokes delivered so far.
    pub(super) fn strokes(&self) -> u64 {
        self.0.iter().map(|person| u64::from(person.strokes)).sum()
    }

    /// Ends all of them.
    ///
    /// # Errors
    /// What ended a thread or a journal.
    pub(super) fn stop(self) -> Result<(), SynError> {
        self.0.into_iter().try_for_each(|person| person.client.stop())
    }
}

/// The longest time between two deliveries of which the second is after `happened`.
fn gap(mut heard: Vec<Instant>, happened: Instant) -> Duration {
    heard.sort_unstable();
    let pairs = heard.windows(2).filter(|pair| pair[1] > happened);
    pairs.map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_begins_before_what_happened_and_is_none_of_the_time_before() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let heard = vec![at(0), at(900), at(950), at(1_400), at(1_450)];
        assert_eq!(gap(heard, at(1_000)), Duration::from_millis(450));
        assert_eq!(gap(vec![at(0)], at(1)), Duration::ZERO);
    }

    #[test]
    fn no_two_strokes_of_people_are_at_one_place_nor_in_the_crowds_picture() {
        let mut places = std::collections::BTreeSet::new();
        for number in 0..PEOPLE {
            for at in 0..2_048 {
                let operation = stroke(number, at).expect("on the board");
                assert!(operation & 0x7ff >= 256, "beside the picture");
                assert!(places.insert(operation & 0x3f_ffff));
            }
        }
        assert_eq!(stroke(0, 2_048), None, "the column is full");
    }
}
