//! The rig over the shared-memory runtime: a poller for each node, rings handed over Unix sockets as between processes,
//! the journal in a directory, real threads and time.

mod node;

use core::any::Any;
use core::fmt::Debug;
use std::sync::Arc;

use synod_quorum::NodeId;

use crate::net::{Board, Scratch};
use crate::{Disk, Log, Plan, Rig};
use node::{Ground, Member};

/// Nodes that share memory.
pub struct ShmRig<T> {
    plan: Arc<Plan<T>>,
    board: Arc<Board<T>>,
    members: Vec<Member<T>>,
    guests: Vec<Member<T>>,
    /// Where doors are.
    _doors: Scratch,
}

impl<T: Clone + Debug + Send + 'static> ShmRig<T> {
    fn node(&mut self, place: usize) -> &mut Member<T> {
        let members = self.members.len();
        let node = match place.checked_sub(members) {
            Some(guest) => self.guests.get_mut(guest),
            None => self.members.get_mut(place),
        };
        node.expect("a node of the plan")
    }

    fn id(&self, place: usize) -> NodeId {
        self.plan.seats[place].id
    }
}

impl<T: Clone + Debug + Send + 'static> Rig<T> for ShmRig<T> {
    fn start(plan: Plan<T>) -> Self {
        let plan = Arc::new(plan);
        let board = Arc::new(Board::new(plan.seats.len()));
        let doors = Scratch::new();
        std::fs::create_dir_all(doors.path()).expect("the directory for temporary files can be written");
        let path = Arc::new(doors.path().to_owned());
        let ground = |place| Ground { plan: plan.clone(), board: board.clone(), place, doors: path.clone() };
        let members: Vec<Member<T>> = (0..plan.members()).map(|place| Member::start(ground(place))).collect();
        let guests = (plan.members()..plan.seats.len()).map(|place| Member::start(ground(place))).collect();
        let links: Vec<usize> = (0..plan.seats.len()).map(|place| plan.links(place)).collect();
        let mut rig = Self { plan, board, members, guests, _doors: doors };
        rig.until("every link comes up", |logs| logs.iter().zip(&links).all(|(log, n)| log.up.len() == *n));
        rig
    }

    fn input<I: Any + Send>(&mut self, place: usize, machine: u8, input: I) {
        let id = self.id(place);
        let taken = self.node(place).handle().input(machine, input);
        assert!(taken.is_ok(), "machine {machine} of {id} has room");
    }

    fn until(&mut self, what: &str, done: impl Fn(&[Log<T>]) -> bool) {
        self.board.until(what, done);
    }

    fn log(&self, place: usize) -> Log<T> {
        self.board.log(place)
    }

    fn syncs(&self, place: usize) -> u64 {
        self.members[place].gate().syncs()
    }

    fn break_link(&mut self, a: usize, b: usize) {
        let peer = self.id(b);
        self.node(a).handle().reset(peer);
    }

    fn crash(&mut self, place: usize) {
        self.node(place).crash();
    }

    fn restart(&mut self, place: usize) {
        self.crash(place);
        self.node(place).boot();
    }

    fn disk(&mut self, place: usize, disk: Disk) {
        self.node(place).gate().set(disk);
    }

    fn hold_jobs(&mut self, place: usize) {
        self.node(place).jobs().set(true);
    }

    fn corrupt(&mut self, _: usize) {}

    fn stop(self) {
        for node in self.guests.into_iter().chain(self.members) {
            node.stop();
        }
    }
}
