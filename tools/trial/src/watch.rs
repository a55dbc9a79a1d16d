//! The checker of a HotStuff run: shows every moment to every oracle and writes down how far each node got.

use synod_crypto::Hash;
use synod_machine::broadcast::Submit;
use synod_service::{ClientOutput, ExecutorOutput, Outcome};
use synod_sim::{Checker, Deed, Moment, Violation};

use crate::app::Executions;
use crate::book::{GUESTS, Shared};
use crate::evidence::{Broke, Evidence};
use crate::oracle::{
    Agreement, Blocks, Breach, Commits, Execution, Oracle, Pack, Promises, Seen, Sighting, Verdict, Views,
    Votes,
};
use crate::sight::{REPLICA, Sight};

/// All oracles of one run.
pub struct Watch {
    blocks: Blocks,
    oracles: Vec<Box<dyn Oracle>>,
    execution: Execution,
    executions: Executions,
    book: Shared,
    asked: usize,
    sightings: Vec<Sighting>,
    over_budget: bool,
    forks_only: bool,
    /// What later observations may contradict; kept with whole traces.
    evidence: Option<Evidence>,
    broke: Option<Broke>,
}

/// What still holds when more members are faulty than allowed: what each honest member promises, writes and accepts by
/// itself. Agreement, execution and what clients believe are waived.
const KEPT: [&str; 5] = ["X3", "H-S5", "H-S6", "H-S8", "H-S9"];

/// What is judged in runs that are looked at for forks alone.
const FORKS: [&str; 1] = ["H-S1"];

fn violation(breach: Breach) -> Violation {
    Violation::new(breach.checker, breach.what)
}

fn waived(over_budget: bool, forks_only: bool, checker: &str) -> bool {
    over_budget && !KEPT.contains(&checker) || forks_only && !FORKS.contains(&checker)
}

impl Watch {
    /// Watches a cluster of `members` under `pack`.
    #[must_use]
    pub fn new(pack: Pack, members: u32, executions: Executions, book: Shared) -> Self {
        let oracles: Vec<Box<dyn Oracle>> = vec![
            Box::new(Agreement::default()),
            Box::new(Votes::new(members)),
            Box::new(Promises::new(pack)),
            Box::new(Commits::new(pack, members)),
            Box::new(Views::new(members)),
        ];
        Self {
            blocks: Blocks::default(),
            oracles,
            execution: Execution::default(),
            executions,
            book,
            asked: 0,
            sightings: Vec::new(),
            over_budget: false,
            forks_only: false,
            evidence: None,
            broke: None,
        }
    }

    /// As it is, naming the earlier observation that a broken property contradicts.
    #[must_use]
    pub fn with_evidence(self, wanted: bool) -> Self {
        Self { evidence: wanted.then(Evidence::default), ..self }
    }

    /// As it is for a run that is looked at for forks alone: only agreement is judged.
    #[must_use]
    pub fn forks_only(self, forks_only: bool) -> Self {
        Self { forks_only, ..self }
    }

    /// As it is for a run in which more members are faulty than allowed.
    #[must_use]
    pub fn over_budget(self, over_budget: bool) -> Self {
        Self { over_budget, ..self }
    }

    fn replica(&mut self, moment: &Moment<'_>) -> Verdict {
        let mut sightings = core::mem::take(&mut self.sightings);
        sightings.clear();
        Sight::of(moment, &mut sightings);
        let verdict = sightings.iter().try_for_each(|sighting| {
            self.blocks.learn(sighting);
            self.reach(sighting);
            let verdict = self.judged(sighting);
            if let Some(evidence) = &mut self.evidence {
                evidence.learn(moment.event, sighting);
            }
            verdict.inspect_err(|_| self.broke = Some(Broke::Seen(*sighting)))
        });
        self.sightings = sightings;
        verdict
    }

    /// What the oracles say. All are heard, whichever objects: what one says may not be judged in this run.
    fn judged(&mut self, sighting: &Sighting) -> Verdict {
        let mut first = Ok(());
        for oracle in &mut self.oracles {
            if let Err(breach) = oracle.see(sighting, &self.blocks)
                && first.is_ok()
                && !waived(self.over_budget, self.forks_only, breach.checker)
            {
                first = Err(breach);
            }
        }
        first
    }

    fn is_waived(&self, checker: &str) -> bool {
        waived(self.over_budget, self.forks_only, checker)
    }

    fn reach(&self, sighting: &Sighting) {
        let mut book = self.book.borrow_mut();
        book.blocks = self.blocks.count() as u64;
        let reach = book.reach.entry(sighting.node).or_default();
        match sighting.seen {
            Seen::Reopened => *reach = crate::book::Reach { voted: reach.voted, ..Default::default() },
            Seen::Voted(..) => reach.voted = sighting.at,
            Seen::Entered(view) if sighting.honest => book.view = book.view.max(view),
            Seen::Jumped(position) | Seen::Delivered { position, .. } => {
                reach.delivered = position;
                if sighting.honest && position > book.highest.0 {
                    book.highest = (position, sighting.at);
                }
            }
            _ => {}
        }
    }

    fn executor(&mut self, moment: &Moment<'_>) -> Verdict {
        let (node, life) = (moment.node.0, moment.incarnation);
        let executed = match self.executions.lock() {
            Ok(mut executed) => core::mem::take(&mut *executed),
            Err(_) => unreachable!("a run has one thread"),
        };
        if !moment.honest {
            return Ok(());
        }
        for seen in &executed {
            let verdict = self.execution.executed(node, life, seen);
            verdict.inspect_err(|_| self.broke = Some(Broke::Executed(seen.clone())))?;
            if let Some(evidence) = &mut self.evidence {
                evidence.executed(moment.event, seen);
            }
        }
        self.book.borrow_mut().executed = self.execution.count() as u64;
        for deed in moment.deeds {
            let Deed::Output(output) = deed else { continue };
            let Some(ExecutorOutput::Submit(submit)) = output.downcast_ref::<ExecutorOutput>() else {
                continue;
            };
            let Submit::Applied { position, root } = submit else { continue };
            self.book.borrow_mut().reach.entry(node).or_default().applied = position.0;
            if let Some(root) = root {
                let verdict = self.execution.root(node, position.0, *root);
                verdict.inspect_err(|_| self.broke = Some(Broke::Root(position.0, *root)))?;
                if let Some(evidence) = &mut self.evidence {
                    evidence.root(moment.event, position.0, *root);
                }
            }
        }
        Ok(())
    }

    fn client(&mut self, moment: &Moment<'_>) -> Verdict {
        let (guest, life) = (moment.node.0, moment.incarnation);
        for deed in moment.deeds {
            let Deed::Output(output) = deed else { continue };
            let Some(output) = output.downcast_ref::<ClientOutput>() else { continue };
            match output {
                ClientOutput::Ready { session } => self.execution.opened(guest, life, *session)?,
                ClientOutput::Outcome { tag, id, outcome } => {
                    let Some(asked) = self.book.borrow().get(*tag) else { continue };
                    let name = (id.session, id.sequence);
                    match outcome {
                        Outcome::Accepted { value, .. } => {
                            self.book.borrow_mut().accepted += 1;
                            if asked.read {
                                self.execution.believed_read(guest, *tag, value)?;
                            }
                            if id.sequence > 0 {
                                self.execution.believed(guest, name, asked.body, Hash::of(value))?;
                            }
                        }
                        Outcome::Rejected(_) if id.sequence > 0 => self.execution.rejected(guest, name)?,
                        Outcome::Rejected(_) | Outcome::Unknown(..) => {}
                    }
                }
                ClientOutput::Closed => {}
            }
        }
        Ok(())
    }

    /// Hands new commands of clients to the execution oracle.
    fn learn_asked(&mut self) {
        let book = self.book.borrow();
        for (asked, tag) in book.asked.iter().zip(0..).skip(self.asked) {
            self.execution.asked(asked.guest, asked.life, asked.body);
            if asked.read {
                self.execution.asked_read(tag);
            }
        }
        self.asked = book.asked.len();
    }
}

impl Checker for Watch {
    fn see(&mut self, moment: &Moment<'_>) -> Result<(), Violation> {
        self.learn_asked();
        let verdict = match (moment.node.0, moment.machine) {
            (GUESTS.., _) => self.client(moment),
            (node, machine) => {
                if !moment.honest {
                    self.blocks.fault(node);
                }
                if machine == REPLICA { self.replica(moment) } else { self.executor(moment) }
            }
        };
        let Err(breach) = verdict else { return Ok(()) };
        let broke = self.broke.take();
        if self.is_waived(breach.checker) {
            return Ok(());
        }
        let earlier =
            broke.zip(self.evidence.as_ref()).and_then(|(broke, of)| of.earlier(breach.checker, &broke));
        Err(violation(breach).resting_on(earlier))
    }
}
