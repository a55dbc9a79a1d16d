//! Rules about messages, and the strategies that carry them out.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use synod_crypto::Signature;
use synod_hotstuff::{Message, Statement};
use synod_machine::{Span, Time, To};
use synod_quorum::NodeId;
use synod_sim::{Act, Deed, Strategy};

use crate::sight::{REPLICA, opened};
use crate::strategy::{Secrets, sealed, signed};

/// A message of a replica on its way to one member.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// Now.
    pub at: Time,
    /// Whose it is.
    pub from: NodeId,
    /// Whom it is for.
    pub to: NodeId,
    /// What it says.
    pub message: &'a Message,
}

/// What becomes of a message.
#[derive(Clone, Debug)]
pub enum Fate {
    /// It goes its way; the next rule decides.
    Pass,
    /// It is lost.
    Drop,
    /// It leaves so much later.
    Delay(Span),
    /// These leave in its place. Only corrupted members can.
    Say(Vec<Message>),
}

/// How often a rule did anything but let pass.
#[derive(Clone, Debug, Default)]
pub struct Tally(Rc<Cell<u64>>);

impl Tally {
    /// The count so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.get()
    }

    fn add(&self) {
        self.0.set(self.0.get() + 1);
    }
}

/// Signs as a corrupted member.
pub struct Pen<'a>(&'a dyn Fn(Statement) -> Option<Signature>);

impl Pen<'_> {
    /// The member's signature over a statement.
    ///
    /// # Panics
    /// When the member is not corrupted: only liars are given pens.
    #[must_use]
    pub fn sign(&self, statement: Statement) -> Signature {
        (self.0)(statement).expect("a corrupted member's key is known")
    }
}

type Rule = (Tally, Box<dyn FnMut(&Sent<'_>) -> Fate>);
type Lie = Box<dyn FnMut(&Sent<'_>, &Pen<'_>) -> Fate>;

/// The rules of a run, the same at every member.
#[derive(Clone, Default)]
pub(super) struct Rules(Rc<RefCell<Vec<Rule>>>);

impl Rules {
    pub(super) fn add(&self, rule: impl FnMut(&Sent<'_>) -> Fate + 'static) -> Tally {
        let tally = Tally::default();
        self.0.borrow_mut().push((tally.clone(), Box::new(rule)));
        tally
    }

    /// What the first rule that minds says.
    fn judge(&self, sent: &Sent<'_>) -> Fate {
        for (tally, rule) in self.0.borrow_mut().iter_mut() {
            match rule(sent) {
                Fate::Pass => {}
                fate => {
                    tally.add();
                    return fate;
                }
            }
        }
        Fate::Pass
    }
}

/// Carries out the rules at one member; with a lie, that member is corrupted.
pub(super) struct Directed {
    pub(super) rules: Rules,
    pub(super) lie: Option<(Tally, Secrets, Lie)>,
}

impl Directed {
    fn fate(&mut self, act: &Act<'_>, sent: &Sent<'_>) -> Fate {
        if let Some((tally, secrets, lie)) = &mut self.lie {
            let secrets = *secrets;
            match lie(sent, &Pen(&|statement| signed(secrets, act, statement))) {
                Fate::Pass => {}
                fate => {
                    tally.add();
                    return fate;
                }
            }
        }
        self.rules.judge(sent)
    }
}

impl Strategy for Directed {
    fn name(&self) -> &'static str {
        "directed"
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        if act.machine != REPLICA {
            return false;
        }
        act.split_sends();
        let deeds = core::mem::take(act.deeds);
        let mut kept = Vec::with_capacity(deeds.len());
        for deed in deeds {
            let Deed::Send { to: To::Node(to), queue, body } = &deed else {
                kept.push(deed);
                continue;
            };
            let Some(message) = opened(body).filter(|_| to.is_member()) else {
                kept.push(deed);
                continue;
            };
            let sent = Sent { at: act.now, from: act.node, to: *to, message: &message };
            match self.fate(act, &sent) {
                Fate::Pass => kept.push(deed),
                Fate::Drop => {}
                Fate::Delay(span) => act.later.push((span, deed)),
                Fate::Say(messages) => {
                    let send = |m: &Message| Deed::Send { to: To::Node(*to), queue: *queue, body: sealed(m) };
                    kept.extend(messages.iter().map(send));
                }
            }
        }
        *act.deeds = kept;
        self.lie.is_some()
    }

    fn keeps_faith(&self) -> bool {
        self.lie.is_none()
    }
}
