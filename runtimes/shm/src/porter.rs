//! How nodes of several processes come to share memory: each shows the other its rings, over a Unix socket whose other
//! side runs under the user that was agreed on.
//!
//! *How.* Whoever has a door of a neighbour calls there until a link stands, and again once it has ended. Both say
//! who they are, and show their status page, a cord of their bell, the page of the link and its rings, each once and
//! in the size that both know from their plan. The socket stays open as long as both live: its end is the link's.
//!
//! *Who is who.* A caller is a member if it says so and runs under that member's user. Members that share a user could
//! pass for one another: only users of their own isolate them. Guests are let in where a plan has machines for them,
//! under names in the order in which they came.
//!
//! *Bounds.* [`CALLS_MAX`] hand-overs at once, each on a thread of its own for [`WAIT_MAX`](crate::hand::WAIT_MAX) a
//! message; [`GUESTS_MAX`] guests at once.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use synod_quorum::NodeId;

use crate::connector::Observer;
use crate::doorbell::{Button, Ropes};
use crate::error::Error;
use crate::flag::STATUS_WORDS;
use crate::hand::{Door, Hand, Kind, Label};
use crate::line::{Line, PAGE_WORDS, Parts, Seen, Shape, Spot, make, named};
use crate::mailbox::{Mail, Mailbox};
use crate::memfd::{Agreed, see};
use crate::station::{Plan, Station};

/// Hand-overs under way at once.
pub const CALLS_MAX: u32 = 16;
/// Guests at once.
pub const GUESTS_MAX: u32 = 64;
/// How long it takes until a neighbour is called again, in nanoseconds.
const AGAIN_NS: i64 = 20_000_000;

/// A member as this node reaches it.
#[derive(Clone, Debug)]
pub struct Neighbour {
    /// Which.
    pub node: NodeId,
    /// The user it runs under.
    pub uid: u32,
    /// Where it is called; none where it calls here.
    pub door: Option<PathBuf>,
}

/// What a porter knows.
pub struct Neighbourhood {
    /// How often this node was started.
    pub incarnation: u64,
    /// Where others call this node.
    pub door: Option<Door>,
    /// The other members.
    pub neighbours: Vec<Neighbour>,
}

struct Office {
    own: NodeId,
    incarnation: u64,
    uids: BTreeMap<NodeId, u32>,
    plan: Arc<Plan>,
    mailbox: Arc<Mailbox>,
    ropes: Ropes,
    observer: Arc<dyn Observer>,
    calls: AtomicU32,
    guests: AtomicU32,
    /// The links that were made, while they stand.
    links: Mutex<BTreeMap<NodeId, Arc<AtomicBool>>>,
}

/// The thread that calls and is called. Dropping it closes the door and leaves the links.
pub struct Porter {
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Porter {
    /// Starts calling and letting in for a station that the poller of this bell polls.
    ///
    /// # Errors
    /// What the system said.
    pub fn start(station: &Station, ropes: &Ropes, known: Neighbourhood) -> Result<Self, Error> {
        let Neighbourhood { incarnation, door, neighbours } = known;
        let office = Arc::new(Office {
            own: station.own(),
            incarnation,
            uids: neighbours.iter().map(|neighbour| (neighbour.node, neighbour.uid)).collect(),
            plan: Arc::clone(station.plan()),
            mailbox: Arc::clone(station.mailbox()),
            ropes: ropes.clone(),
            observer: Arc::clone(station.observer()),
            calls: AtomicU32::new(0),
            guests: AtomicU32::new(0),
            links: Mutex::default(),
        });
        let (stop, stopped) = crate::hand::pair()?;
        let thread = std::thread::Builder::new()
            .name("synod-porter".to_owned())
            .spawn(move || serve(&office, door.as_ref(), &neighbours, &stopped))
            .map_err(|error| Error::Thread(error.to_string()))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Porter {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed by the thread.
            let _ = thread.join();
        }
    }
}

/// A neighbour that is called, and whether it is being called.
struct Called {
    neighbour: Neighbour,
    busy: Arc<AtomicBool>,
}

fn serve(office: &Arc<Office>, door: Option<&Door>, neighbours: &[Neighbour], stopped: &OwnedFd) {
    let called: Vec<Called> = neighbours
        .iter()
        .filter(|neighbour| neighbour.door.is_some())
        .map(|neighbour| Called { neighbour: neighbour.clone(), busy: Arc::default() })
        .collect();
    let again = Timespec { tv_sec: 0, tv_nsec: AGAIN_NS };
    loop {
        for one in &called {
            if !office.stands(one.neighbour.node) && !one.busy.swap(true, Ordering::AcqRel) {
                call(office, one);
            }
        }
        let mut polled = vec![PollFd::new(stopped, PollFlags::IN)];
        polled.extend(door.map(|door| PollFd::new(door, PollFlags::IN)));
        let waits = if called.is_empty() { None } else { Some(&again) };
        if poll(&mut polled, waits).is_err() {
            continue;
        }
        if polled.first().is_some_and(|stop| !stop.revents().is_empty()) {
            return;
        }
        if let Some(door) = door.filter(|_| polled.get(1).is_some_and(|door| !door.revents().is_empty())) {
            match door.accept() {
                Ok((hand, uid)) => let_in(office, hand, uid),
                Err(error) => {
                    office.observer.refused(&error);
                    // Such as no descriptor left: whoever waits at the door is not to be looked at without a pause.
                    let _ = poll(&mut [PollFd::new(stopped, PollFlags::IN)], Some(&again));
                }
            }
        }
    }
}

/// Runs a hand-over on a thread of its own, if there is room for one more.
fn aside(office: &Arc<Office>, work: impl FnOnce(&Office) -> Result<(), Error> + Send + 'static) {
    let taken = office
        .calls
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |calls| (calls < CALLS_MAX).then_some(calls + 1));
    if taken.is_err() {
        return;
    }
    let own = Arc::clone(office);
    let spawned = std::thread::Builder::new().name("synod-call".to_owned()).spawn(move || {
        if let Err(error) = work(&own) {
            own.observer.refused(&error);
        }
        own.calls.fetch_sub(1, Ordering::AcqRel);
    });
    if spawned.is_err() {
        office.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Clears a flag however its holder ends.
struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn call(office: &Arc<Office>, one: &Called) {
    let (neighbour, busy) = (one.neighbour.clone(), Busy(Arc::clone(&one.busy)));
    aside(office, move |office| {
        let _busy = busy;
        let Neighbour { node, uid, door: Some(door) } = neighbour else { return Ok(()) };
        let hand = Hand::connect(&door, uid)?;
        hand.say(&office.label(Kind::Hello))?;
        let (hello, _) = hand.take()?;
        if hello.kind != Kind::Hello || hello.node != node.0 {
            return Err(Error::Stranger { node: hello.node, uid });
        }
        office.exchange(hand, &Peer { node, uid }, Turn::First)
    });
}

fn let_in(office: &Arc<Office>, hand: Hand, uid: u32) {
    aside(office, move |office| {
        let (hello, _) = hand.take()?;
        if hello.kind != Kind::Hello {
            return Err(Error::Unexpected);
        }
        let peer = office.caller(NodeId(hello.node), uid)?;
        hand.say(&office.label(Kind::Hello))?;
        office.exchange(hand, &peer, Turn::Second)
    });
}

/// Who is at the other side.
struct Peer {
    node: NodeId,
    uid: u32,
}

/// Who gives first: the caller, so that no two wait for room in a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    First,
    Second,
}

/// What a peer gave.
struct Given {
    button: Button,
    page: crate::map::Shown,
    rings: Vec<Seen>,
}

impl Office {
    fn label(&self, kind: Kind) -> Label {
        Label { kind, node: self.own.0, queue: 0, epoch: 0, words: 0, boot: self.incarnation }
    }

    /// Whether a link to this peer was made and stands.
    fn stands(&self, node: NodeId) -> bool {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.get(&node).is_some_and(|alive| alive.load(Ordering::Acquire))
    }

    /// Who a caller is, by what it says and the user it runs under.
    fn caller(&self, said: NodeId, uid: u32) -> Result<Peer, Error> {
        let stranger = Error::Stranger { node: said.0, uid };
        if said.is_member() {
            let known = self.uids.get(&said) == Some(&uid);
            return if known { Ok(Peer { node: said, uid }) } else { Err(stranger) };
        }
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|node, alive| node.is_member() || alive.load(Ordering::Acquire));
        let there = links.keys().filter(|node| !node.is_member()).count();
        if self.plan.for_guests.is_empty() || there >= GUESTS_MAX as usize {
            return Err(stranger);
        }
        let number = self.guests.fetch_add(1, Ordering::AcqRel);
        let node = NodeId::GUESTS.0.checked_add(number).map(NodeId).ok_or(stranger)?;
        Ok(Peer { node, uid })
    }

    /// Shows the peer this side's memory, maps the peer's, and hands the link to the station.
    fn exchange(&self, hand: Hand, peer: &Peer, turn: Turn) -> Result<(), Error> {
        let hears = |machine| self.plan.hears(peer.node, machine);
        let made = make(self.own.0, self.incarnation, &self.plan.outgoing, hears)?;
        let give = || -> Result<(), Error> {
            hand.give(&self.label(Kind::Status), self.ropes.status().as_fd())?;
            hand.give(&self.label(Kind::Cord), self.ropes.cord()?.as_fd())?;
            made.give.iter().try_for_each(|(label, descriptor)| hand.give(label, descriptor.as_fd()))?;
            hand.say(&self.label(Kind::Done))
        };
        let spots: Vec<Spot> =
            self.plan.incoming.iter().filter(|spot| hears(spot.machine)).copied().collect();
        let given = match turn {
            Turn::First => {
                give()?;
                self.take(&hand, peer.uid, &spots)?
            }
            Turn::Second => {
                let given = self.take(&hand, peer.uid, &spots)?;
                give()?;
                given
            }
        };
        let Given { button, page, rings } = given;
        let line = Line::new(Parts {
            peer: peer.node,
            made,
            theirs: page,
            rings,
            spots: &self.plan.incoming,
            button: Some(button),
            life: Some(hand.into_life()),
        })?;
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.insert(peer.node, line.alive());
        drop(links);
        self.mailbox.push(Mail::Joined(Box::new(line)));
        Ok(())
    }

    /// Takes what the peer gives, in the order in which it is given.
    fn take(&self, hand: &Hand, uid: u32, spots: &[Spot]) -> Result<Given, Error> {
        let of = |kind: Kind, words: u32| -> Result<OwnedFd, Error> {
            match hand.take()? {
                (label, Some(descriptor)) if label.kind == kind && (words == 0 || label.words == words) => {
                    Ok(descriptor)
                }
                _ => Err(Error::Unexpected),
            }
        };
        let status = see(of(Kind::Status, 0)?, Agreed { words: STATUS_WORDS, uid })?;
        let button = Button::new(status, of(Kind::Cord, 0)?);
        let page = see(of(Kind::Page, PAGE_WORDS)?, Agreed { words: PAGE_WORDS, uid })?;
        let mut rings: Vec<Seen> = Vec::new();
        loop {
            let (label, descriptor) = hand.take()?;
            let (machine, queue) = named(label.queue);
            let descriptor = match (label.kind, descriptor) {
                (Kind::Done, None) => return Ok(Given { button, page, rings }),
                (Kind::Ring, Some(descriptor)) => descriptor,
                _ => return Err(Error::Unexpected),
            };
            let spot = spots.iter().find(|spot| spot.machine == machine && spot.queue == queue);
            let (Some(spot), Ok(order)) = (spot, u32::try_from(rings.len())) else {
                return Err(Error::Queue { machine, queue });
            };
            if rings.len() >= spots.len() {
                return Err(Error::Queue { machine, queue });
            }
            let words = see(descriptor, Agreed { words: Shape::of(spot)?.words(), uid })?;
            rings.push(Seen { machine, queue, order, words });
        }
    }
}
