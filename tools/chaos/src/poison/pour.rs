//! Giving a node its inputs.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use synod_crypto::Seed;
use synod_net::foreign::Role;

use super::{Input, Way};
use crate::stranger::{Card, Line, Shown, TLS13, client, draw_seed, link, member_link};

/// How long one read or write may wait.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause before a member that was refused dials again.
const AGAIN: Duration = Duration::from_millis(100);
/// Frames of one guest's connection.
const GUEST_FRAMES: u64 = 32;
/// Frames between two looks at what the node says.
const LOOK_EVERY: usize = 16;
/// Pause at such a look, so that few frames are under way when the node ends the link.
const PACE: Duration = Duration::from_millis(2);
/// How long the node has for the last frames of a link: it forgets what waits when the link ends.
const LAST: Duration = Duration::from_millis(100);

/// A node, and where it can be reached.
#[derive(Clone, Copy, Debug)]
pub struct Victim {
    /// The members' listener.
    pub peers: SocketAddr,
    /// The guests' listener.
    pub guests: SocketAddr,
    /// The Redis gateway.
    pub resp: SocketAddr,
    /// The HTTP gateway.
    pub http: SocketAddr,
}

/// What is given to a node.
#[derive(Clone)]
pub struct Dose {
    /// What inputs are drawn from.
    pub seed: u64,
    /// Inputs by each way.
    pub each: u64,
    /// The faulty member's key.
    pub member: Seed,
    /// How long a faulty member that is locked out is waited for in all, before the rest of its frames is given up.
    pub wait: Duration,
}

/// What a node was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Inputs written, by [`Way::ALL`].
    pub sent: [u64; 4],
    /// Connections opened.
    pub connections: u64,
    /// Connections that the node ended.
    pub cut: u64,
    /// Inputs given up, for the node let nobody in.
    pub skipped: u64,
}

impl Tally {
    /// All inputs.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.sent.iter().sum()
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.sent.iter_mut().zip(other.sent).for_each(|(sum, more)| *sum += more);
        self.connections += other.connections;
        self.cut += other.cut;
        self.skipped += other.skipped;
    }
}

/// Gives a node the inputs of one way. A node that ends a connection gets the next input over a new one.
///
/// # Errors
/// The node does not listen any more.
pub fn pour(victim: &Victim, way: Way, dose: &Dose) -> io::Result<Tally> {
    match way {
        Way::Member => members(victim, dose),
        Way::Guest => guests(victim, dose),
        Way::Resp => requests(victim.resp, way, dose),
        Way::Http => requests(victim.http, way, dose),
    }
}

/// What a sound Hello of the node's cluster looks like.
///
/// # Errors
/// The node does not introduce itself to the member.
pub(crate) fn learned(to: SocketAddr, seed: &Seed) -> io::Result<Card> {
    let mut line = Line::dial(to, client(&Shown::own(seed), TLS13)?, PATIENCE)?;
    Card::learn(&mut line, seed)
        .map_err(|end| io::Error::other(format!("the node does not introduce itself: {end}")))
}

/// The frames that decode go over one link if they can; then the others, each third of which costs the key its penalty.
fn members(victim: &Victim, dose: &Dose) -> io::Result<Tally> {
    let card = learned(victim.peers, &dose.member)?.of(dose.member.public(), dose.seed);
    let inputs = (0..dose.each).map(|index| Input::draw(Way::Member, dose.seed, index));
    let (whole, rest): (Vec<Input>, Vec<Input>) = inputs.partition(|input| input.whole);
    let (mut tally, mut waited) = (Tally::default(), Duration::ZERO);
    for mut left in [whole.as_slice(), rest.as_slice()] {
        while !left.is_empty() {
            let Ok([mut line, _bulk]) = member_link(victim.peers, &card, &dose.member, PATIENCE)? else {
                if waited >= dose.wait {
                    tally.skipped += left.len() as u64;
                    break;
                }
                std::thread::sleep(AGAIN);
                waited += AGAIN;
                continue;
            };
            tally.connections += 1;
            let sent = stream(&mut line, left);
            tally.sent[0] += sent as u64;
            tally.cut += u64::from(sent < left.len());
            // At least one more is given up, or a frame that always cuts would be sent for ever.
            left = left.get(sent.max(1)..).unwrap_or_default();
        }
    }
    Ok(tally)
}

fn guests(victim: &Victim, dose: &Dose) -> io::Result<Tally> {
    let card = learned(victim.peers, &dose.member)?.as_role(Role::Guest);
    let (mut tally, mut index) = (Tally::default(), 0);
    while index < dose.each {
        let seed = draw_seed()?;
        let Ok(mut line) = link(victim.guests, &card.of(seed.public(), index), &seed, PATIENCE)? else {
            std::thread::sleep(AGAIN);
            tally.skipped += 1;
            index += 1;
            continue;
        };
        tally.connections += 1;
        let end = (index + GUEST_FRAMES).min(dose.each);
        let inputs: Vec<Input> = (index..end).map(|at| Input::draw(Way::Guest, dose.seed, at)).collect();
        let sent = stream(&mut line, &inputs);
        tally.sent[1] += sent as u64;
        tally.cut += u64::from(sent < inputs.len());
        index += (sent as u64).max(1);
    }
    Ok(tally)
}

/// Writes frames until the node ends the link; how many.
fn stream(line: &mut Line, inputs: &[Input]) -> usize {
    let mut sent = 0;
    for input in inputs {
        if line.say(&input.bytes).is_err() || line.is_deaf() {
            return sent;
        }
        sent += 1;
        if sent % LOOK_EVERY == 0 {
            std::thread::sleep(PACE);
            if line.drain().is_err() {
                return sent;
            }
        }
    }
    std::thread::sleep(LAST);
    // Whether the node ended the link meanwhile says the next one.
    let _ = line.drain();
    sent
}

/// One connection per request: it is written, the writing side is closed, and what comes back is read.
fn requests(to: SocketAddr, way: Way, dose: &Dose) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let at = if way == Way::Resp { 2 } else { 3 };
    for index in 0..dose.each {
        let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        tally.connections += 1;
        let written = stream.write_all(&Input::draw(way, dose.seed, index).bytes).is_ok();
        tally.sent[at] += u64::from(written);
        tally.cut += u64::from(!written);
        // A gateway may have closed already; then there is nothing to end.
        let _ = stream.shutdown(Shutdown::Write);
        let (mut part, until) = ([0; 4096], Instant::now() + PATIENCE);
        while Instant::now() < until && matches!(stream.read(&mut part), Ok(1..)) {}
    }
    Ok(tally)
}
