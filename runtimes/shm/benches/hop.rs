//! `hop_p50_ns`: from one machine's send to the other's event, hosts, codec and pollers included: half of a rally's
//! round. Two machines at one poller (`cooperative`), at a poller each in two threads, and in two processes that share
//! cores (`isolated`). `cargo bench -p synod-shm --bench hop`
//!
//! The figure is of the development profile's optimisation where it is run by `cargo test`; quote it with its command.

#[path = "../tests/echo/mod.rs"]
#[expect(dead_code, reason = "the bench plays rallies alone")]
mod echo;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use echo::{Play, Told, hosted};
use synod_machine::Link;
use synod_quorum::NodeId;
use synod_shm::{
    Builder, Deliveries, Door, Doorbell, Hosting, Monotonic, Neighbour, Neighbourhood, Placement, Poller,
    Porter, Rest, Ropes, Running, Station, cores, introduce, poller,
};

const BALLS: u64 = 100_000;
const WARM: usize = 2_000;
/// Set in the other process, to the folder of the doors.
const OTHER: &str = "SYNOD_SHM_BENCH_DOORS";

type Times = Arc<Mutex<Vec<Instant>>>;

/// A player that writes down when balls come back, and whether its link is up.
fn player(own: u32, bell: &Ropes) -> (Station, Times) {
    let times = Times::default();
    let told = Arc::clone(&times);
    let connector = move |_: u8, output: Box<dyn core::any::Any + Send>, _: &mut Deliveries<'_>| {
        let output = output.downcast::<Told>();
        if output.is_ok_and(|told| matches!(*told, Told::Back(_) | Told::Linked(_, Link::Up))) {
            told.lock().expect("no panic").push(Instant::now());
        }
    };
    let builder = Builder::new(NodeId(own)).machine(Hosting::new(0, hosted(own))).connector(connector);
    (builder.build(bell).expect("a sound plan").0, times)
}

fn count(times: &Times) -> usize {
    times.lock().expect("no panic").len()
}

/// Plays and shows the median and the 99th percentile of a hop.
fn rally(poller: &mut Poller<Station, Monotonic>, times: &Times, placement: &str, rest: Rest) {
    while count(times) == 0 {
        poller.pass().expect("it polls");
    }
    assert!(poller.items()[0].input(0, Play::Rally { peer: NodeId(1), balls: BALLS }));
    while count(times) as u64 <= BALLS {
        poller.pass().expect("it polls");
    }
    let times = times.lock().expect("no panic");
    let rounds = times.windows(2).skip(WARM).map(|two| (two[1] - two[0]).as_nanos());
    let mut hops: Vec<u128> = rounds.map(|round| round / 2).collect();
    hops.sort_unstable();
    let (p50, p99) = (hops[hops.len() / 2], hops[hops.len() * 99 / 100]);
    let cores = cores().expect("cores");
    println!(
        "{{\"cores\":{cores},\"placement\":\"{placement}\",\"rest\":\"{rest:?}\",\"hop_p50_ns\":{p50},\"hop_p99_ns\":{p99}}}"
    );
}

fn cooperative() {
    let bell = Doorbell::new().expect("a bell");
    let (mut one, times) = player(0, bell.ropes());
    let (mut other, _) = player(1, bell.ropes());
    introduce(&mut one, &mut other, None).expect("alike");
    let mut poller = poller(vec![one, other], Rest::Yield, bell);
    rally(&mut poller, &times, "cooperative: two nodes at one poller", Rest::Yield);
}

fn two_threads(rest: Rest) {
    let bells = [Doorbell::new().expect("a bell"), Doorbell::new().expect("a bell")];
    let (mut one, times) = player(0, bells[0].ropes());
    let (mut other, _) = player(1, bells[1].ropes());
    introduce(&mut one, &mut other, Some((bells[0].ropes(), bells[1].ropes()))).expect("alike");
    let [bell, far] = bells;
    let _far = Running::start(poller(vec![other], rest, far), None).expect("a thread");
    rally(&mut poller(vec![one], rest, bell), &times, "two pollers in one process", rest);
}

fn neighbour(node: u32, doors: &Path) -> Neighbour {
    let uid = rustix::process::geteuid().as_raw();
    // The lower one calls.
    let door = (node == 1).then(|| doors.join("one"));
    Neighbour { node: NodeId(node), uid, door }
}

/// The other process: gives balls back until it is ended.
fn other(doors: &Path) {
    let bell = Doorbell::new().expect("a bell");
    let ropes = bell.ropes().clone();
    let (station, _) = player(1, &ropes);
    let door = Some(Door::bind(&doors.join("one")).expect("a door"));
    let known = Neighbourhood { incarnation: 1, door, neighbours: vec![neighbour(0, doors)] };
    let _porter = Porter::start(&station, &ropes, known).expect("a thread");
    let mut poller = poller(vec![station], Rest::Yield, bell);
    loop {
        poller.pass().expect("it polls");
    }
}

struct Ended(Child, PathBuf);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself, and its folder may be gone.
        let _ = (self.0.kill(), self.0.wait(), std::fs::remove_dir_all(&self.1));
    }
}

fn two_processes() {
    let doors = std::env::temp_dir().join(format!("synod-shm-bench-{}", std::process::id()));
    std::fs::create_dir_all(&doors).expect("a folder");
    let own = std::env::current_exe().expect("this bench");
    let child = Command::new(own).env(OTHER, &doors).spawn().expect("it starts");
    let _ended = Ended(child, doors.clone());
    let bell = Doorbell::new().expect("a bell");
    let ropes = bell.ropes().clone();
    let (station, times) = player(0, &ropes);
    let known = Neighbourhood { incarnation: 1, door: None, neighbours: vec![neighbour(1, &doors)] };
    let _porter = Porter::start(&station, &ropes, known).expect("a thread");
    rally(&mut poller(vec![station], Rest::Yield, bell), &times, "isolated: two processes", Rest::Yield);
}

fn main() {
    if let Some(doors) = std::env::var_os(OTHER) {
        return other(Path::new(&doors));
    }
    cooperative();
    two_threads(Rest::Yield);
    match Placement::Dedicated.rest(2, cores().expect("cores")) {
        (Rest::Spin, _) => two_threads(Rest::Spin),
        (Rest::Yield, why) => {
            println!("dedicated: skipped, {}", why.map_or_else(String::new, |why| why.to_string()))
        }
    }
    two_processes();
}
