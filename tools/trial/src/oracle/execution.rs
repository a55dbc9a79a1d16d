//! H-S3, H-S10 and X9 at the application: what was executed was asked for, once, in one order, with one state; and what
//! clients believe is what was executed.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;

use super::{Verdict, breach};

/// One command, as an application executed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutedSeen {
    /// Where in the order its item stands.
    pub position: u64,
    /// The session.
    pub session: u64,
    /// Its number there.
    pub sequence: u64,
    /// Digest of the command.
    pub body: Hash,
    /// Digest of the reply.
    pub reply: Hash,
    /// The application's digest of everything it executed, this command included.
    pub state: Hash,
    /// How many commands it had executed then, this command included.
    pub index: u64,
}

/// Watches applications and clients.
#[derive(Default)]
pub struct Execution {
    commands: BTreeMap<(u64, u64), ExecutedSeen>,
    roots: BTreeMap<u64, (Hash, u32)>,
    reached: BTreeMap<(u32, u32), u64>,
    sessions: BTreeMap<u64, (u32, u32)>,
    asked: BTreeMap<(u32, u32), BTreeSet<Hash>>,
    never: BTreeSet<(u64, u64)>,
    /// The most commands executed by any honest node.
    highest: u64,
    /// The most commands that some client knows to be executed.
    known: u64,
    /// Reads under way by tag, with what was known when they were asked.
    reads: BTreeMap<u64, u64>,
}

impl Execution {
    /// The client `guest` in its `life`-th life asked for a command with this digest.
    pub fn asked(&mut self, guest: u32, life: u32, body: Hash) {
        self.asked.entry((guest, life)).or_default().insert(body);
    }

    /// A client opened a session.
    ///
    /// # Errors
    /// H-S3 when somebody else has that session.
    pub fn opened(&mut self, guest: u32, life: u32, session: u64) -> Verdict {
        match self.sessions.insert(session, (guest, life)) {
            Some(other) if other != (guest, life) => {
                breach("H-S3", format!("session {session} is of two clients: {} and {guest}", other.0))
            }
            _ => Ok(()),
        }
    }

    /// An honest node executed a command.
    ///
    /// # Errors
    /// The property that does not hold.
    pub fn executed(&mut self, node: u32, life: u32, seen: &ExecutedSeen) -> Verdict {
        let ExecutedSeen { position, session, sequence, .. } = *seen;
        self.highest = self.highest.max(seen.index);
        if self.reached.insert((node, life), position).is_some_and(|last| last > position) {
            return breach("H-S10", format!("n{node} executed position {position} after a later one"));
        }
        let Some(owner) = self.sessions.get(&session) else {
            return breach(
                "H-S3",
                format!("n{node} executed a command of session {session}, which nobody opened"),
            );
        };
        if !self.asked.get(owner).is_some_and(|bodies| bodies.contains(&seen.body)) {
            return breach(
                "H-S3",
                format!("n{node} executed {session}.{sequence}, which its client never asked for"),
            );
        }
        if self.never.contains(&(session, sequence)) {
            return breach(
                "J4",
                format!("n{node} executed {session}.{sequence}, which was finally rejected"),
            );
        }
        match self.commands.get(&(session, sequence)) {
            None => drop(self.commands.insert((session, sequence), seen.clone())),
            Some(first) if first.position != position || first.body != seen.body => {
                let at = first.position;
                return breach(
                    "H-S3",
                    format!("{session}.{sequence} was executed at {at} and by n{node} at {position}"),
                );
            }
            Some(first) if first != seen => {
                return breach(
                    "X9",
                    format!("n{node} has another state or reply after {session}.{sequence} at {position}"),
                );
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// An honest node reported the root of its state at a position.
    ///
    /// # Errors
    /// X9 when another honest node reported another one.
    pub fn root(&mut self, node: u32, position: u64, root: Hash) -> Verdict {
        let (first, by) = *self.roots.entry(position).or_insert((root, node));
        if first == root {
            return Ok(());
        }
        breach("X9", format!("position {position}: n{node} has root {root}, n{by} {first}"))
    }

    /// A client believes that its command `body` was executed and gave this reply.
    ///
    /// # Errors
    /// J4 when no honest node executed it, or with another reply.
    pub fn believed(&mut self, guest: u32, name: (u64, u64), body: Hash, reply: Hash) -> Verdict {
        let (session, sequence) = name;
        match self.commands.get(&name) {
            None => {
                breach("J4", format!("client {guest} believes {session}.{sequence}, which nobody executed"))
            }
            Some(first) if first.body != body => breach(
                "J4",
                format!("client {guest} believes an answer of {session}.{sequence} for another command"),
            ),
            Some(first) if first.reply != reply => {
                breach("J4", format!("client {guest} believes a false answer of {session}.{sequence}"))
            }
            Some(first) => {
                self.known = self.known.max(first.index);
                Ok(())
            }
        }
    }

    /// A client asked how many commands were executed.
    pub fn asked_read(&mut self, tag: u64) {
        self.reads.insert(tag, self.known);
    }

    /// A client believes the answer `value` to its read.
    ///
    /// # Errors
    /// TK9 when the reads and commands of all clients have no one order in time: more was known when the read was asked,
    /// or nobody had executed that much.
    pub fn believed_read(&mut self, guest: u32, tag: u64, value: &[u8]) -> Verdict {
        let (Some(floor), Ok(count)) = (self.reads.remove(&tag), value.try_into().map(u64::from_le_bytes))
        else {
            return breach("TK9", format!("client {guest} believes an answer that is no count of commands"));
        };
        if !(floor..=self.highest).contains(&count) {
            return breach(
                "TK9",
                format!(
                    "client {guest} read {count} executed commands; {floor} were known before it asked, {} is the most \
                     that anybody executed",
                    self.highest
                ),
            );
        }
        self.known = self.known.max(count);
        Ok(())
    }

    /// A client believes that its command will never be executed.
    ///
    /// # Errors
    /// J4 when it was.
    pub fn rejected(&mut self, guest: u32, name: (u64, u64)) -> Verdict {
        if self.commands.contains_key(&name) {
            return breach(
                "J4",
                format!("client {guest} was told that {}.{} was not executed", name.0, name.1),
            );
        }
        self.never.insert(name);
        Ok(())
    }

    /// Commands executed by anybody.
    #[must_use]
    pub fn count(&self) -> usize {
        self.commands.len()
    }
}
