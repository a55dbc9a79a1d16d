//! A directed run.

use std::cell::{Ref, RefCell};
use std::rc::Rc;
use std::time::Instant;

use synod_machine::{Span, Time};
use synod_quorum::{NodeId, NodeSet};
use synod_service::{ClientInput, ReadMode};
use synod_sim::{Loss, Scenario, World};
use synod_wire::Bytes;

use super::diary::{Diary, Event, Writer};
use super::direct::{Directed, Fate, Pen, Rules, Sent, Tally};
use crate::book::{Book, GUESTS};
use crate::params::pack_of;
use crate::report::RunReport;
use crate::run::{liveness, report};
use crate::strategy::Secrets;
use crate::systems::hotstuff::{Trial, build_watched, cluster};
use crate::workload::CLIENT;

/// Between two looks for what a test waits for.
const LOOK: Span = Span::micros(100);

/// Tags of reads begin here, beyond those of commands.
const READS: u64 = 1 << 40;

/// A world under direction.
pub struct Stage {
    trial: Trial,
    scenario: Scenario,
    token: String,
    diary: Rc<RefCell<Diary>>,
    rules: Rules,
    directed: bool,
    killed: NodeSet,
    asked: u64,
    started: Instant,
}

impl Stage {
    /// Builds the world of a scenario; nothing happens yet.
    ///
    /// # Errors
    /// The scenario is not one its system can run.
    pub fn new(scenario: &Scenario) -> Result<Self, String> {
        let token = format!("{}:{:x}:directed", scenario.system, scenario.seed);
        let diary = Rc::new(RefCell::new(Diary::default()));
        let writer = Box::new(Writer(diary.clone()));
        let trial = build_watched(scenario, &token, false, vec![writer])?;
        Ok(Self {
            trial,
            scenario: scenario.clone(),
            token,
            diary,
            rules: Rules::default(),
            directed: false,
            killed: NodeSet::EMPTY,
            asked: 0,
            started: Instant::now(),
        })
    }

    fn members(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.scenario.nodes).map(NodeId)
    }

    /// Adds a rule about the messages of honest members, behind those already there. It ends with the healing.
    pub fn direct(&mut self, rule: impl FnMut(&Sent<'_>) -> Fate + 'static) -> Tally {
        if !self.directed {
            self.directed = true;
            let honest: Vec<NodeId> = self.members().filter(|id| self.trial.world.honest(*id)).collect();
            for id in honest {
                let directed = Directed { rules: self.rules.clone(), lie: None };
                self.trial.world.corrupt_node(id, Box::new(directed));
            }
        }
        self.rules.add(rule)
    }

    /// Makes a member faulty for good; `lie` decides about its messages before any rule does.
    ///
    /// # Panics
    /// When the scenario's system is unknown, which its building would have said.
    pub fn corrupt(&mut self, node: NodeId, lie: impl FnMut(&Sent<'_>, &Pen<'_>) -> Fate + 'static) -> Tally {
        let tally = Tally::default();
        let pack = pack_of(&self.scenario.system).expect("the world of this system was built");
        let secrets = Secrets {
            cluster: cluster(),
            pack,
            members: self.scenario.nodes,
            over_budget: false,
            turns: None,
        };
        let lie = Some((tally.clone(), secrets, Box::new(lie) as Box<_>));
        let directed = Directed { rules: self.rules.clone(), lie };
        self.trial.world.corrupt_node(node, Box::new(directed));
        tally
    }

    /// The world, for faults.
    pub const fn world(&mut self) -> &mut World {
        &mut self.trial.world
    }

    /// Virtual time.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.trial.world.now()
    }

    /// What happened so far.
    #[must_use]
    pub fn diary(&self) -> Ref<'_, Diary> {
        self.diary.borrow()
    }

    /// Who asked for what, and who got how far.
    #[must_use]
    pub fn book(&self) -> Ref<'_, Book> {
        self.trial.book.borrow()
    }

    /// The highest view that anybody is in.
    #[must_use]
    pub fn view(&self) -> u64 {
        let diary = self.diary();
        self.members().filter_map(|id| diary.entry(id)).map(|entry| entry.view).max().unwrap_or(0)
    }

    /// The leader of the highest view that anybody is in, as that member knows it.
    #[must_use]
    pub fn leader(&self) -> Option<NodeId> {
        let diary = self.diary();
        let entries = self.members().filter_map(|id| diary.entry(id));
        entries.max_by_key(|entry| (entry.view, entry.leader.is_some())).and_then(|entry| entry.leader)
    }

    /// Kills a member for good, losing nothing that it wrote.
    pub fn kill(&mut self, node: NodeId) {
        self.killed = self.killed.with(node);
        self.trial.world.crash(node, Loss::Nothing, None);
    }

    /// Lets so much time pass.
    ///
    /// # Panics
    /// When an oracle finds a property broken.
    pub fn run(&mut self, lasts: Span) {
        let until = self.now() + lasts;
        let verdict = self.trial.world.run(until, &mut self.trial.workload);
        if let Err(violation) = verdict {
            unreachable!("{}: {violation}\n{}", self.token, self.trial.world.trace().columns());
        }
    }

    /// Runs until an event is of this kind, `most` at the longest; whether one was.
    ///
    /// # Panics
    /// When an oracle finds a property broken.
    pub fn until(&mut self, most: Span, mut wanted: impl FnMut(&Event) -> bool) -> bool {
        let deadline = self.now() + most;
        let mut read = self.diary().events().len();
        while self.now() < deadline {
            self.run(LOOK);
            let diary = self.diary.borrow();
            if diary.events()[read..].iter().any(&mut wanted) {
                return true;
            }
            read = diary.events().len();
        }
        false
    }

    /// A guest, counted from 0, asks for one command more.
    pub fn ask(&mut self, guest: u32) {
        self.asked += 1;
        self.ask_for(guest, Bytes::from(format!("directed {}", self.asked)));
    }

    /// A guest, counted from 0, asks for this command.
    pub fn ask_for(&mut self, guest: u32, body: Bytes) {
        let guest = NodeId(GUESTS + guest);
        let input = self.trial.book.borrow_mut().ask(guest, vec![body], None);
        self.trial.world.input(guest, CLIENT, Span::ZERO, Box::new(input));
    }

    /// A guest, counted from 0, reads how many commands were executed, from a quorum; gives the tag of the answer. Nobody
    /// waits for it: see [`Diary::accepted`].
    pub fn read_count(&mut self, guest: u32) -> u64 {
        self.asked += 1;
        let tag = READS + self.asked;
        let question = Bytes::from_static(b"count");
        let deadline = Span::secs(1_000);
        let query = ClientInput::Query { tag, question, mode: ReadMode::Quorum, fallback: None, deadline };
        self.trial.world.input(NodeId(GUESTS + guest), CLIENT, Span::ZERO, Box::new(query));
        tag
    }

    /// Lets time pass until every command has its outcome, `most` at the longest; whether all have.
    ///
    /// # Panics
    /// When an oracle finds a property broken.
    pub fn answered(&mut self, most: Span) -> bool {
        let deadline = self.now() + most;
        while self.book().open() > 0 && self.now() < deadline {
            self.run(LOOK);
        }
        self.book().open() == 0
    }

    /// Heals the honest members that were not killed, and all guests, demands what every scenario demands afterwards, and
    /// reports.
    #[must_use]
    pub fn settle(mut self) -> RunReport {
        let well = |id: &NodeId| self.trial.world.honest(*id) && !self.killed.contains(*id);
        let core: Vec<NodeId> = self.members().filter(well).collect();
        let guests = (0..self.scenario.guests).map(|id| NodeId(GUESTS + id));
        let whole: Vec<NodeId> = core.iter().copied().chain(guests).collect();
        self.trial.world.heal(&whole);
        let verdict = liveness(&mut self.trial, &self.scenario, &core);
        let verdict = verdict.and_then(|()| self.trial.world.finish());
        report(&self.trial, &self.scenario, &self.token, (verdict.err(), self.started))
    }
}
