//! A member that says as much as a node takes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use synod_crypto::Seed;
use synod_net::foreign::Role;

use super::thread::Crew;
use crate::poison::{Input, Way, learned};
use crate::stranger::{Card, draw_seed, link, member_link};

/// How long one read or write may wait.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause before the next connection.
const AGAIN: Duration = Duration::from_millis(50);
/// Frames that are prepared and said again and again.
const FRAMES: u64 = 2_000;
/// Frames of one write.
const BURST: usize = 64;
/// The header of a frame of 4 GiB for the executor.
const OVERSIZED: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0];

/// What a flood said so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames of the member.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Links of the member.
    pub links: u64,
    /// Oversized frames of guests, one per connection.
    pub oversized: u64,
}

#[derive(Default)]
struct Shared {
    frames: AtomicU64,
    bytes: AtomicU64,
    links: AtomicU64,
    oversized: AtomicU64,
}

/// A faulty member at line rate towards several nodes, and guests with oversized frames; ends when dropped.
pub struct Byzantine {
    shared: Arc<Shared>,
    _crew: Crew,
}

impl Byzantine {
    /// Floods the members' listeners with the key `member`, and the guests' listeners with drawn keys.
    ///
    /// # Errors
    /// The system gives no threads, or the first node does not introduce itself.
    pub fn start(nodes: &[(SocketAddr, SocketAddr)], member: &Seed, seed: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut crew = Crew::new();
        let frames = Arc::new(frames(seed));
        for (peers, guests) in nodes.iter().copied() {
            let card = learned(peers, member)?;
            let (own, frames, told) = (member.clone(), frames.clone(), shared.clone());
            let as_member = card.of(member.public(), seed);
            crew.start("byzantine", move |stop| {
                while !stop.load(Ordering::Relaxed) {
                    // Whatever ended it, the next link may last.
                    let _ = blast(peers, &as_member, &own, (&frames, &told), stop);
                    std::thread::sleep(AGAIN);
                }
            })?;
            let (as_guest, told) = (card.as_role(Role::Guest), shared.clone());
            crew.start("oversized", move |stop| {
                while !stop.load(Ordering::Relaxed) {
                    if oversized(guests, &as_guest).is_ok_and(|said| said) {
                        told.oversized.fetch_add(1, Ordering::Relaxed);
                    }
                    std::thread::sleep(AGAIN);
                }
            })?;
        }
        Ok(Self { shared, _crew: crew })
    }

    /// What was said so far.
    #[must_use]
    pub fn sent(&self) -> Sent {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Sent {
            frames: of(&self.shared.frames),
            bytes: of(&self.shared.bytes),
            links: of(&self.shared.links),
            oversized: of(&self.shared.oversized),
        }
    }
}

/// Well-formed messages, in bursts of one write each.
fn frames(seed: u64) -> Vec<Vec<u8>> {
    let whole: Vec<Vec<u8>> = (0..FRAMES)
        .map(|index| Input::draw(Way::Member, seed, index))
        .filter(|input| input.whole)
        .map(|input| input.bytes)
        .collect();
    whole.chunks(BURST).map(<[Vec<u8>]>::concat).collect()
}

/// Says the bursts over one link until it ends.
fn blast(
    to: SocketAddr,
    card: &Card,
    own: &Seed,
    (bursts, told): (&[Vec<u8>], &Shared),
    stop: &AtomicBool,
) -> io::Result<()> {
    let Ok([mut line, _bulk]) = member_link(to, card, own, PATIENCE)? else { return Ok(()) };
    told.links.fetch_add(1, Ordering::Relaxed);
    for burst in bursts.iter().cycle() {
        if stop.load(Ordering::Relaxed) || line.say(burst).is_err() || line.is_deaf() {
            break;
        }
        told.frames.fetch_add(BURST as u64, Ordering::Relaxed);
        told.bytes.fetch_add(burst.len() as u64, Ordering::Relaxed);
        if line.drain().is_err() {
            break;
        }
    }
    Ok(())
}

/// Says one header that is too large, as a guest; whether it was said.
fn oversized(to: SocketAddr, card: &Card) -> io::Result<bool> {
    let seed = draw_seed()?;
    let Ok(mut line) = link(to, &card.of(seed.public(), 1), &seed, PATIENCE)? else { return Ok(false) };
    let said = line.say(&OVERSIZED).is_ok();
    if said {
        line.end();
    }
    Ok(said)
}
