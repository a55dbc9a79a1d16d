//! A memory node of one host: it hands regions of registers out, and whoever maps them writes and reads in place (uBFT,
//! section 6.1; docs/papers/ubft.md).
//!
//! *What it gives.* The owner of a region gets it for writing, once; everybody else for reading, whether the owner has
//! come or not. Once the owner says that it has mapped it, or has gone, nobody can map it for writing any more. It
//! knows members by the users they run under, and neither values nor protocols.
//!
//! *Epochs.* `oldest` is the (f + 1)-th highest epoch that members asked about. It and the next are handed out; below,
//! a caller is told that they are over, never given empty memory (E37); above, nothing is given, so that a liar alone
//! retires nothing. What a member has mapped of an epoch that is over stays as it was written.
//!
//! *Crash.* Memory lives as long as somebody maps it; a memory node that comes back is empty and has a larger boot
//! number, which its journal holds before it answers anybody.
//!
//! *Bounds.* 2 n regions, made when first asked for. [`CALLS_MAX`] connections; one connection of a member at a time, on a thread of its own; a
//! newer one of the same member is refused while it stands.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use synod_machine::register::Region;
use synod_quorum::{Epoch, Model, Quorums};

use crate::error::Error;
use crate::hand::{Door, Hand, Kind, Label};
use crate::map::{Shown, Written};
use crate::memfd::{Agreed, Memfd, see};
use crate::registers::{Registers, RegistersConfig, layout};

/// Connections at once, those that have not said who they are included.
pub const CALLS_MAX: u32 = 256;

/// What a memory node must know.
#[derive(Clone, Debug)]
pub struct RegionsConfig {
    /// The users of the members, by their numbers.
    pub uids: Vec<u32>,
    /// How many of them may be faulty.
    pub faulty: u32,
    /// Registers of a region.
    pub registers: u32,
    /// The tail t.
    pub tail: u32,
    /// How often it was started, this time included: recorded before it is given here.
    pub boot: u64,
}

/// A region that was made.
struct Made {
    memory: Memfd,
    owner: Owner,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// Has not come.
    Away,
    /// Was given the region.
    Given,
}

/// What a memory node holds.
struct Table {
    wanted: Vec<Epoch>,
    oldest: Epoch,
    regions: BTreeMap<Region, Made>,
    /// Members that are connected.
    here: Vec<bool>,
}

struct Office {
    config: RegionsConfig,
    quorums: Quorums,
    words: u32,
    table: Mutex<Table>,
    /// Connections, whether they said who they are or not.
    calls: AtomicU32,
}

/// What a memory node says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionsStatus {
    /// How often it was started.
    pub boot: u64,
    /// The oldest epoch that is handed out.
    pub oldest: Epoch,
    /// Regions it holds.
    pub regions: usize,
    /// Bytes of them, in whole pages.
    pub bytes: u64,
    /// Members that are connected.
    pub members: usize,
}

/// A memory node that hands regions out. Dropping it lets nobody in any more; what was handed out stays.
pub struct Regions {
    office: Arc<Office>,
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Regions {
    /// Starts handing out behind a door.
    ///
    /// # Errors
    /// A configuration that cannot work, or what the system said.
    pub fn start(config: RegionsConfig, door: Door) -> Result<Self, Error> {
        let members = u32::try_from(config.uids.len()).unwrap_or(u32::MAX);
        let quorums = Quorums::with_faults(Model::Majority, members, config.faulty)
            .map_err(|_| Error::Plan("2f + 1 members at least use a memory node"))?;
        let words = layout(config.registers, config.tail).map(|layout| layout.words());
        let words = words.ok_or(Error::Plan("registers are a multiple of the tail"))?;
        let count = config.uids.len();
        let table = Table {
            wanted: vec![Epoch(0); count],
            oldest: Epoch(0),
            regions: BTreeMap::new(),
            here: vec![false; count],
        };
        let office =
            Arc::new(Office { config, quorums, words, table: Mutex::new(table), calls: AtomicU32::new(0) });
        let (stop, stopped) = crate::hand::pair()?;
        let own = Arc::clone(&office);
        let thread = std::thread::Builder::new()
            .name("synod-regions".to_owned())
            .spawn(move || serve(&own, &door, &stopped))
            .map_err(|error| Error::Thread(error.to_string()))?;
        Ok(Self { office, stop: Some(stop), thread: Some(thread) })
    }

    /// What it holds now.
    #[must_use]
    pub fn status(&self) -> RegionsStatus {
        self.office.status()
    }
}

impl Drop for Regions {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed by the thread.
            let _ = thread.join();
        }
    }
}

fn serve(office: &Arc<Office>, door: &Door, stopped: &OwnedFd) {
    loop {
        let mut polled = [PollFd::new(stopped, PollFlags::IN), PollFd::new(door, PollFlags::IN)];
        if poll(&mut polled, None).is_err() {
            continue;
        }
        let [stop, call] = polled.map(|one| !one.revents().is_empty());
        if stop {
            return;
        }
        if !call {
            continue;
        }
        match door.accept() {
            Ok((hand, uid)) => let_in(office, hand, uid),
            Err(error) => tracing::warn!(%error, "a caller was not let in"),
        }
    }
}

/// Serves a caller on a thread of its own, if it runs under a member's user and there is room.
fn let_in(office: &Arc<Office>, hand: Hand, uid: u32) {
    let own = Arc::clone(office);
    let may_ask = uid == rustix::process::geteuid().as_raw();
    if !may_ask && !office.config.uids.contains(&uid) {
        tracing::warn!(uid, "a caller that is no member");
        return;
    }
    if office.calls.fetch_add(1, Ordering::AcqRel) >= CALLS_MAX {
        office.calls.fetch_sub(1, Ordering::AcqRel);
        return;
    }
    let serve = move || {
        let _call = Call(&own.calls);
        if let Err(error) = own.meet(&hand, uid)
            && !matches!(error, Error::Closed)
        {
            tracing::warn!(%error, uid, "a member was sent away");
        }
    };
    if let Err(error) = std::thread::Builder::new().name("synod-region".to_owned()).spawn(serve) {
        office.calls.fetch_sub(1, Ordering::AcqRel);
        tracing::warn!(%error, "no thread for a member");
    }
}

/// A connection, counted until it ends.
struct Call<'a>(&'a AtomicU32);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A member's place, free again however its thread ends.
struct Here<'a>(&'a Office, usize);

impl Drop for Here<'_> {
    fn drop(&mut self) {
        if let Some(here) = self.0.table().here.get_mut(self.1) {
            *here = false;
        }
    }
}

impl Office {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn label(&self, kind: Kind, region: Region) -> Label {
        let Region { epoch, owner } = region;
        Label {
            kind,
            node: u32::from(owner),
            queue: 0,
            epoch: epoch.0,
            words: self.words,
            boot: self.config.boot,
        }
    }

    fn status(&self) -> RegionsStatus {
        let page = rustix::param::page_size() as u64;
        let table = self.table();
        let each = (u64::from(self.words) * 8).next_multiple_of(page);
        RegionsStatus {
            boot: self.config.boot,
            oldest: table.oldest,
            regions: table.regions.len(),
            bytes: each * table.regions.len() as u64,
            members: table.here.iter().filter(|here| **here).count(),
        }
    }

    fn meet(&self, hand: &Hand, uid: u32) -> Result<(), Error> {
        let (hello, _) = hand.take()?;
        let stranger = Error::Stranger { node: hello.node, uid };
        let member = usize::try_from(hello.node).ok().filter(|_| hello.kind == Kind::Hello);
        let Some(member) = member.filter(|member| self.config.uids.get(*member) == Some(&uid)) else {
            return Err(stranger);
        };
        let was = self.table().here.get_mut(member).is_none_or(|here| core::mem::replace(here, true));
        if was {
            return Err(stranger);
        }
        let _here = Here(self, member);
        hand.say(&self.label(Kind::Hello, Region { epoch: Epoch(0), owner: 0 }))?;
        hand.patient()?;
        loop {
            let (label, _) = hand.take()?;
            let owner =
                u8::try_from(label.node).ok().filter(|owner| usize::from(*owner) < self.config.uids.len());
            let (Kind::Want, Some(owner)) = (label.kind, owner) else { return Err(Error::Unexpected) };
            self.give(hand, member, Region { epoch: Epoch(label.epoch), owner })?;
        }
    }

    fn give(&self, hand: &Hand, member: usize, region: Region) -> Result<(), Error> {
        let mut table = self.table();
        table.want(member, region.epoch, &self.quorums);
        let oldest = table.oldest;
        if region.epoch < oldest {
            drop(table);
            return hand.say(&Label { epoch: oldest.0, ..self.label(Kind::Retired, region) });
        }
        if region.epoch.0 > oldest.0.saturating_add(1) {
            drop(table);
            return hand.say(&Label { epoch: oldest.0, ..self.label(Kind::Refused, region) });
        }
        let made = match table.regions.entry(region) {
            std::collections::btree_map::Entry::Occupied(made) => made.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                let memory = Memfd::create("synod-region", self.words)?;
                place.insert(Made { memory, owner: Owner::Away })
            }
        };
        if usize::from(region.owner) != member {
            let reader = made.memory.reader()?;
            drop(table);
            return hand.give(&self.label(Kind::Region, region), reader.as_fd());
        }
        if made.owner == Owner::Given {
            drop(table);
            return hand.say(&Label { epoch: oldest.0, ..self.label(Kind::Refused, region) });
        }
        made.owner = Owner::Given;
        let own = made.memory.as_fd().try_clone_to_owned();
        drop(table);
        let own = own.map_err(|source| Error::System { call: "dup", source })?;
        let mapped = hand.give(&self.label(Kind::Own, region), own.as_fd()).and_then(|()| hand.take());
        drop(own);
        // Whatever the owner said: nobody maps it for writing any more.
        let closed = self.table().regions.get(&region).map_or(Ok(()), |made| made.memory.close());
        let (label, _) = mapped?;
        closed?;
        if label.kind == Kind::Mapped { Ok(()) } else { Err(Error::Unexpected) }
    }
}

impl Table {
    /// Notes how far a member is, and lets go of what f + 1 have left behind.
    fn want(&mut self, member: usize, epoch: Epoch, quorums: &Quorums) {
        let Some(wanted) = self.wanted.get_mut(member).filter(|wanted| **wanted < epoch) else { return };
        *wanted = epoch;
        let mut all = self.wanted.clone();
        all.sort_unstable_by(|a, b| b.cmp(a));
        // One of the f + 1 that are at least so far is correct.
        let place = usize::try_from(quorums.one_correct()).unwrap_or(usize::MAX).saturating_sub(1);
        if let Some(oldest) = all.get(place).filter(|oldest| **oldest > self.oldest) {
            self.oldest = *oldest;
            self.regions.retain(|region, _| region.epoch >= *oldest);
        }
    }
}

/// A member at a memory node's door.
#[derive(Debug)]
pub struct Tenant {
    hand: Hand,
    me: u8,
    uid: u32,
    words: u32,
    boot: u64,
}

impl Tenant {
    /// Calls a memory node that runs under `uid`, for regions of this layout.
    ///
    /// # Errors
    /// What the system said; [`Error::Size`] when the memory node has other regions.
    pub fn connect(door: &Path, uid: u32, me: u8, measures: (u32, u32)) -> Result<Self, Error> {
        let (registers, tail) = measures;
        let words = layout(registers, tail).map(|layout| layout.words());
        let words = words.ok_or(Error::Plan("registers are a multiple of the tail"))?;
        let hand = Hand::connect(door, uid)?;
        hand.say(&Label { kind: Kind::Hello, node: u32::from(me), queue: 0, epoch: 0, words, boot: 0 })?;
        let (hello, _) = hand.take()?;
        if hello.kind != Kind::Hello {
            return Err(Error::Unexpected);
        }
        if hello.words != words {
            return Err(Error::Size { wanted: u64::from(words) * 8, found: u64::from(hello.words) * 8 });
        }
        Ok(Self { hand, me, uid, words, boot: hello.boot })
    }

    /// How often the memory node was started.
    #[must_use]
    pub const fn boot(&self) -> u64 {
        self.boot
    }

    fn want(&self, region: Region) -> Result<(Label, Option<OwnedFd>), Error> {
        let Region { epoch, owner } = region;
        let node = u32::from(owner);
        self.hand.say(&Label {
            kind: Kind::Want,
            node,
            queue: 0,
            epoch: epoch.0,
            words: self.words,
            boot: 0,
        })?;
        let (label, descriptor) = self.hand.take()?;
        match label.kind {
            Kind::Retired | Kind::Refused => Err(Error::NoRegion { oldest: label.epoch }),
            _ if label.node != node || label.epoch != epoch.0 => Err(Error::Unexpected),
            _ => Ok((label, descriptor)),
        }
    }

    /// The own region of an epoch, all zero, once.
    ///
    /// # Errors
    /// [`Error::NoRegion`] when it is not given.
    pub fn own(&self, epoch: Epoch) -> Result<Written, Error> {
        let (label, descriptor) = self.want(Region { epoch, owner: self.me })?;
        let (Kind::Own, Some(descriptor)) = (label.kind, descriptor) else { return Err(Error::Unexpected) };
        let written = Memfd::adopt(descriptor, Agreed { words: self.words, uid: self.uid })?.map()?;
        self.hand.say(&Label { kind: Kind::Mapped, ..label })?;
        Ok(written)
    }

    /// Another member's region.
    ///
    /// # Errors
    /// [`Error::NoRegion`] when it is not given.
    pub fn show(&self, region: Region) -> Result<Shown, Error> {
        let (label, descriptor) = self.want(region)?;
        let (Kind::Region, Some(descriptor)) = (label.kind, descriptor) else {
            return Err(Error::Unexpected);
        };
        see(descriptor, Agreed { words: self.words, uid: self.uid })
    }

    /// The registers of this memory node with all regions of an epoch.
    ///
    /// # Errors
    /// [`Error::NoRegion`] when one is not given.
    pub fn registers(
        &self,
        config: RegistersConfig,
        epoch: Epoch,
    ) -> Result<Registers<Arc<Written>, Shown>, Error> {
        let config = RegistersConfig { boot: self.boot, me: self.me, ..config };
        let mut registers =
            Registers::new(config).ok_or(Error::Plan("registers are a multiple of the tail"))?;
        let taken = registers.own(epoch, Arc::new(self.own(epoch)?));
        assert!(taken, "registers without regions take one");
        for owner in (0..config.members).filter(|owner| *owner != self.me) {
            let region = Region { epoch, owner };
            let taken = registers.show(region, self.show(region)?);
            assert!(taken, "each region is taken once");
        }
        Ok(registers)
    }
}
