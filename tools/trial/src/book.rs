//! What one run knows about itself: who asked for what, who delivered what. The workload and the checker share it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use synod_crypto::Hash;
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_service::{ClientInput, Command, ReadMode};
use synod_wire::Bytes;

use crate::app::COUNT;

/// The first id of a guest.
pub const GUESTS: u32 = 128;
/// A deadline beyond every run, but within what timers can count.
const FOREVER: Span = Span::secs(1_000_000);

/// One command of one client.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Its client.
    pub guest: u32,
    /// The client's life at that time.
    pub life: u32,
    /// When it was asked for, as far as the clock of the notes knows.
    pub at: Time,
    /// Digest of the command.
    pub body: Hash,
    /// Whether an outcome is still due.
    pub open: bool,
    /// Whether it must be accepted in the end: its deadline lies beyond the run.
    pub patient: bool,
    /// Whether it is a read.
    pub read: bool,
}

/// How far one member got.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reach {
    /// The last position delivered in the present life.
    pub delivered: u64,
    /// The last position applied in the present life.
    pub applied: u64,
    /// Virtual nanoseconds of the last vote.
    pub voted: u64,
}

/// The shared notes of a run.
#[derive(Default)]
pub struct Book {
    /// Virtual time of the last request.
    pub clock: Time,
    /// Commands by tag.
    pub asked: Vec<Asked>,
    /// Lives of the guests.
    pub lives: BTreeMap<u32, u32>,
    /// Members.
    pub reach: BTreeMap<u32, Reach>,
    /// The highest position an honest member delivered, and when it rose last.
    pub highest: (u64, u64),
    /// Commands accepted by their clients.
    pub accepted: u64,
    /// The highest view an honest member entered.
    pub view: u64,
    /// Different commands executed by honest members.
    pub executed: u64,
    /// Different headers seen.
    pub blocks: u64,
    /// Bytes all machines held half way through the safety phase, and at its end.
    pub bytes: [u64; 2],
    /// Whether the script of the run was played to its end.
    pub complete: bool,
}

/// The notes, as both sides hold them.
pub type Shared = Rc<RefCell<Book>>;

impl Book {
    /// Registers commands of a guest and gives the input that asks for them.
    pub fn ask(&mut self, guest: NodeId, bodies: Vec<Bytes>, deadline: Option<Span>) -> ClientInput {
        let life = self.lives.get(&guest.0).copied().unwrap_or(0);
        let mut commands = Vec::with_capacity(bodies.len());
        for body in bodies {
            let tag = self.asked.len() as u64;
            let asked = Asked {
                guest: guest.0,
                life,
                at: self.clock,
                body: Hash::of(&body),
                open: true,
                patient: deadline.is_none(),
                read: false,
            };
            self.asked.push(asked);
            commands.push(Command { tag, body });
        }
        ClientInput::Submit { commands, deadline: deadline.unwrap_or(FOREVER) }
    }

    /// Registers a read of a guest and gives the input that asks for it; `ordered` lets the order answer it in the end.
    pub fn ask_count(&mut self, guest: NodeId, ordered: bool, deadline: Option<Span>) -> ClientInput {
        let life = self.lives.get(&guest.0).copied().unwrap_or(0);
        let tag = self.asked.len() as u64;
        let (body, at) = (Hash::of(COUNT), self.clock);
        let patient = deadline.is_none();
        self.asked.push(Asked { guest: guest.0, life, at, body, open: true, patient, read: true });
        ClientInput::Query {
            tag,
            question: Bytes::from_static(COUNT),
            mode: ReadMode::Quorum,
            fallback: ordered.then(|| Bytes::from_static(COUNT)),
            deadline: deadline.unwrap_or(FOREVER),
        }
    }

    /// The command of this tag.
    #[must_use]
    pub fn get(&self, tag: u64) -> Option<Asked> {
        self.asked.get(usize::try_from(tag).ok()?).copied()
    }

    /// An outcome came, or none will come.
    pub fn close(&mut self, tag: u64) {
        if let Some(asked) = usize::try_from(tag).ok().and_then(|at| self.asked.get_mut(at)) {
            asked.open = false;
        }
    }

    /// A guest begins a life: nothing its former lives asked for is answered.
    pub fn born(&mut self, guest: u32, life: u32) {
        self.lives.insert(guest, life);
        for asked in self.asked.iter_mut().filter(|asked| asked.guest == guest && asked.life < life) {
            asked.open = false;
        }
    }

    /// When the oldest command was asked for whose outcome is due.
    #[must_use]
    pub fn oldest(&self) -> Option<Time> {
        self.asked.iter().find(|asked| asked.open).map(|asked| asked.at)
    }

    /// Commands whose outcome is due.
    #[must_use]
    pub fn open(&self) -> usize {
        self.asked.iter().filter(|asked| asked.open).count()
    }
}

#[cfg(test)]
mod tests {
    use super::{Book, GUESTS};
    use synod_machine::{Span, Time};
    use synod_quorum::NodeId;
    use synod_wire::Bytes;

    #[test]
    fn each_command_is_waited_for_from_when_it_was_asked() {
        let mut book = Book::default();
        for second in 1..4 {
            book.clock = Time(Span::secs(second).0);
            let _input = book.ask(NodeId(GUESTS), vec![Bytes::from_static(b"a")], None);
        }
        book.close(1);
        assert_eq!((book.oldest(), book.open()), (Some(Time(Span::secs(1).0)), 2));
        book.close(0);
        assert_eq!(book.oldest(), Some(Time(Span::secs(3).0)));
        book.born(GUESTS, 1);
        assert_eq!((book.oldest(), book.open()), (None, 0), "nothing of a former life is answered");
    }
}
