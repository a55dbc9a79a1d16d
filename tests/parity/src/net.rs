//! The rig over the network runtime: loopback sockets with TLS, the journal in a directory, real threads and time.

mod disk;
mod ears;
mod node;
mod switch;

use core::any::Any;
use core::fmt::Debug;
use std::sync::Arc;

use crate::{Disk, Log, Plan, Rig};
pub(crate) use disk::{Gate, Gated, Scratch};
pub(crate) use ears::{Board, Ears, Listening};
pub(crate) use node::lane_log;
use node::{Ground, Member, guest};
use switch::Switch;

/// Nodes on loopback.
pub struct NetRig<T> {
    plan: Arc<Plan<T>>,
    board: Arc<Board<T>>,
    switch: Switch,
    members: Vec<Member<T>>,
    guests: Vec<synod_net::Node>,
}

impl<T: Clone + Debug + Send + 'static> NetRig<T> {
    fn member(&mut self, place: usize) -> &mut Member<T> {
        self.members.get_mut(place).expect("a member of the plan")
    }
}

impl<T: Clone + Debug + Send + 'static> Rig<T> for NetRig<T> {
    fn start(plan: Plan<T>) -> Self {
        let plan = Arc::new(plan);
        let board = Arc::new(Board::new(plan.seats.len()));
        let switch = Switch::start(plan.members());
        let ground = |place| Ground { plan: plan.clone(), board: board.clone(), place };
        let members: Vec<Member<T>> =
            (0..plan.members()).map(|place| Member::start(ground(place), &switch)).collect();
        let doors: Vec<_> = members.iter().map(Member::door).collect();
        let guests = (plan.members()..plan.seats.len()).map(|place| guest(&ground(place), &doors)).collect();
        let links: Vec<usize> = (0..plan.seats.len()).map(|place| plan.links(place)).collect();
        let mut rig = Self { plan, board, switch, members, guests };
        rig.until("every link comes up", |logs| logs.iter().zip(&links).all(|(log, n)| log.up.len() == *n));
        rig
    }

    fn input<I: Any + Send>(&mut self, place: usize, machine: u8, input: I) {
        let node = match place.checked_sub(self.members.len()) {
            Some(guest) => self.guests.get(guest),
            None => self.members[place].node(),
        };
        let taken = node.expect("the node runs").handle().input(machine, input);
        assert!(taken.is_ok(), "machine {machine} of {} has room", self.plan.seats[place].id);
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
        self.switch.cut(a, b);
    }

    fn crash(&mut self, place: usize) {
        let Self { switch, members, .. } = self;
        members.get_mut(place).expect("a member of the plan").crash(switch);
    }

    fn restart(&mut self, place: usize) {
        self.crash(place);
        let Self { switch, members, .. } = self;
        members.get_mut(place).expect("a member of the plan").boot(switch);
    }

    fn disk(&mut self, place: usize, disk: Disk) {
        self.member(place).gate().set(disk);
    }

    fn hold_jobs(&mut self, place: usize) {
        self.member(place).jobs().set(true);
    }

    fn corrupt(&mut self, _: usize) {}

    fn stop(self) {
        for guest in self.guests {
            guest.stop().expect("no thread of a guest panicked");
        }
        for member in self.members {
            member.stop();
        }
    }
}
