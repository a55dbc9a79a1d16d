//! Commands for a replicated Redis server: any that it allows, and a pipelined burst as one request.
//!
//! A burst is executed as far as its replies have room in one result; what was not executed is asked again, before what came later. A
//! transaction is a request of its own. Nothing is asked past the order, for the server is one.

use bytes::Bytes;
use synod_redis_adapter::{COMMANDS_MAX, Command, OPERATION_BYTES_MAX, Operation, check};
use synod_wire::{Limits, List, Wire};

use crate::resp::{
    connection::Core,
    exchange::{Answer, Ask, encode},
    local::error,
    parser::Arguments,
    render::end_of_value,
    replies::{Purpose, Slot},
};

/// Most bytes of the commands of one request: with what is around them they fit an operation of uBFT.
const BURST_BYTES_MAX: usize = 15 << 10;

/// The command of an operation that is just one.
fn alone(operation: &Bytes) -> Option<Command> {
    let limits = Limits { frame_max: OPERATION_BYTES_MAX };
    match Operation::decode(operation.clone(), &limits) {
        Ok(Operation::One(command)) => Some(command),
        _ => None,
    }
}

/// How many operations of a burst make one request together; at least one if there are any.
pub(super) fn one_request(burst: &[Ask]) -> usize {
    let mut bytes = 0;
    let fits = |(at, ask): &(usize, &Ask)| {
        bytes += ask.operation.len();
        *at == 0 || (bytes <= BURST_BYTES_MAX && *at < COMMANDS_MAX && alone(&ask.operation).is_some())
    };
    let is_joined = burst.first().is_some_and(|first| alone(&first.operation).is_some());
    if is_joined { burst.iter().enumerate().take_while(fits).count() } else { burst.len().min(1) }
}

/// The operation of several commands in their order; `None` where they are none, or one.
fn joined(asks: &[Ask]) -> Option<Bytes> {
    let commands: Vec<Command> = asks.iter().map(|ask| alone(&ask.operation)).collect::<Option<_>>()?;
    let burst = List::try_from(commands).ok().filter(|commands| commands.len() > 1)?;
    Some(Operation::Burst(burst).encode())
}

/// The values of an array; `None` when it is none.
fn values(reply: &Bytes) -> Option<Vec<Bytes>> {
    let header = reply.iter().position(|byte| *byte == b'\n')? + 1;
    if !reply.starts_with(b"*") || reply.starts_with(b"*-") {
        return None;
    }
    let mut rest = reply.slice(header..);
    let mut values = Vec::new();
    while !rest.is_empty() {
        values.push(rest.split_to(end_of_value(&rest)?));
    }
    Some(values)
}

impl Core {
    /// Takes a command for the server, or queues it.
    pub(super) fn foreign(&mut self, arguments: &Arguments<'_>) {
        if let Err(why) = check(arguments.from(0)) {
            let why = why.strip_prefix("ERR ").unwrap_or(why);
            return self.refuse(&error(format!("ERR SYN-3003 {why}")));
        }
        let words: Vec<&[u8]> = arguments.from(0).collect();
        let Some(command) = Command::of(&words) else {
            return self.refuse(&error("ERR SYN-3002 the command is too long"));
        };
        let bytes: usize = words.iter().map(|word| word.len() + 4).sum();
        match &mut self.multi {
            Some(multi) => {
                let queued = multi.queue_foreign(command, bytes, COMMANDS_MAX);
                self.queued(queued);
            }
            None => {
                self.ask(Operation::One(command).encode().to_vec(), Purpose::Reply, true);
            }
        }
    }

    /// Makes one request of operations that leave together.
    pub(super) fn join(&mut self, asks: Vec<Ask>) -> Vec<Ask> {
        let Some(operation) = joined(&asks) else { return asks };
        let slots: Vec<Slot> = asks.iter().map(|ask| ask.slot).collect();
        let Some(first) = slots.first().copied() else { return asks };
        self.joined_bytes += asks.iter().map(|ask| ask.operation.len()).sum::<usize>();
        self.replies.purpose(first, Purpose::Burst(asks));
        vec![Ask { slot: first, operation, ordered: true }]
    }

    /// Gives each command of a burst its reply; those that were not executed leave again, before all others.
    pub(super) fn spread(&mut self, asks: Vec<Ask>, answer: Answer) {
        self.joined_bytes -= asks.iter().map(|ask| ask.operation.len()).sum::<usize>();
        let reply = answer.into_reply();
        let fits = |values: &Vec<Bytes>| (1..=asks.len()).contains(&values.len());
        let Some(values) = values(&reply).filter(fits) else {
            let reply = if reply.starts_with(b"-") {
                reply
            } else {
                encode(&error("ERR SYN-9001 the result is not that of a burst"))
            };
            return asks.iter().for_each(|ask| self.fill(ask.slot, reply.clone()));
        };
        let rest = asks.get(values.len()..).unwrap_or_default().to_vec();
        for (ask, value) in asks.iter().zip(values) {
            self.fill(ask.slot, value);
        }
        self.burst_bytes += rest.iter().map(|ask| ask.operation.len()).sum::<usize>();
        self.burst.splice(..0, rest);
    }

    fn fill(&mut self, slot: Slot, reply: Bytes) {
        // Of the first one it was taken already.
        drop(self.replies.take(slot));
        self.replies.fill(slot, reply);
    }

    /// Ends MULTI: one request, of commands that were looked at.
    pub(super) fn exec_foreign(&mut self, commands: Vec<Command>, known: Vec<Option<Vec<u8>>>) {
        let Ok(all) = List::try_from(commands) else {
            return self.reply(&error("ERR SYN-3002 the transaction is too large"));
        };
        self.ask(Operation::Whole(all).encode().to_vec(), Purpose::Transaction(known), true);
    }
}
