//! Faults of all kinds in a drawn order, for as long as a run lasts.

use super::breakage::Breakage;
use super::hurt::Hurt;
use super::plan::Plan;
use super::schedule::Stage;
use std::time::{Duration, Instant};
use synod_chaos::Draw;
use synod_config::SynError;

/// How long a follower is stopped at most.
const STOP: Duration = Duration::from_secs(8);

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Card {
    Kill,
    Link,
    Stop,
    Disk,
    RestartAll,
}

/// The faults of twenty events; every deck has them all, in an order of its own.
const DECK: [(Card, usize); 5] =
    [(Card::Kill, 11), (Card::Link, 6), (Card::Stop, 1), (Card::Disk, 1), (Card::RestartAll, 1)];

fn deck(draw: &mut Draw) -> Vec<Card> {
    let mut cards: Vec<Card> =
        DECK.iter().flat_map(|(card, times)| std::iter::repeat_n(*card, *times)).collect();
    for at in (1..cards.len()).rev() {
        cards.swap(at, draw.below(at + 1));
    }
    cards
}

impl Stage<'_> {
    /// Plays faults of all kinds until the span of the plan is over.
    ///
    /// # Errors
    /// That a member ended by itself or did not come back in time.
    pub(super) fn mix(&mut self, plan: &Plan, begun: Instant) -> Result<(), SynError> {
        let (mut cards, mut links, mut disks) = (Vec::new(), 0_usize, 0_usize);
        while begun.elapsed() < plan.span {
            let pause = self.draw.pause(plan.kill_mean);
            std::thread::sleep(pause.min(plan.span.saturating_sub(begun.elapsed())));
            if cards.is_empty() {
                cards = deck(&mut self.draw);
            }
            match cards.pop().unwrap_or(Card::Kill) {
                Card::Kill => self.kill_leader()?,
                Card::Link => {
                    let turn = links % plan.hurts.len().max(1);
                    self.hurt(plan.hurts.get(turn).copied().unwrap_or(Hurt::Split))?;
                    links += 1;
                }
                Card::Stop => {
                    let span =
                        STOP.mul_f64(f64::from(u16::try_from(self.draw.below(1_000)).unwrap_or(0)) / 1_000.0);
                    self.stop_follower(span.max(Duration::from_millis(100)))?;
                }
                Card::Disk if self.disks.is_some() => {
                    self.break_disk(if disks.is_multiple_of(2) {
                        Breakage::Failing
                    } else {
                        Breakage::Full
                    })?;
                    disks += 1;
                }
                Card::Disk => self.kill_leader()?,
                Card::RestartAll => self.restart_all()?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Card, deck};
    use synod_chaos::Draw;

    #[test]
    fn every_deck_has_every_kind_and_an_order_of_its_own() {
        let mut draw = Draw::new(3);
        let (first, second) = (deck(&mut draw), deck(&mut draw));
        assert_ne!(first, second);
        for cards in [first, second] {
            assert_eq!(cards.len(), 20);
            for (card, times) in [(Card::Kill, 11), (Card::Link, 6), (Card::Disk, 1)] {
                assert_eq!(cards.iter().filter(|other| **other == card).count(), times);
            }
        }
    }
}
