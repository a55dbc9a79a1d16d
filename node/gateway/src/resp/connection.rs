//! One connection: bytes in, operations out; results in, bytes out.

use std::sync::Arc;

use bytes::Bytes;
use synod_kv::{COMMANDS_MAX, Denied, OPERATION_BYTES_MAX, Reply, Verb, operation};
use synod_service::QUESTION_MAX;

use crate::resp::{
    exchange::{Answer, Ask, Now, Overdue, Settings, Store, encode},
    foreign,
    local::{self, Local, LocalCommand, Session, error, shown, status},
    multi::{Multi, Watches, versions, weave},
    parser::{Arguments, Parser},
    replies::{Purpose, Replies, Slot},
};

/// The state of one connection.
#[derive(Debug)]
pub struct Connection {
    parser: Parser,
    core: Core,
    /// Since when a command has been arriving.
    command_since: Option<u64>,
    /// Since when more output waits than should.
    full_since: Option<u64>,
}

impl Connection {
    /// A connection that was just accepted; `id` is what CLIENT ID answers.
    #[must_use]
    pub fn new(settings: Arc<Settings>, id: u64) -> Self {
        let core = Core {
            session: Session::new(id, &settings),
            settings,
            replies: Replies::default(),
            multi: None,
            watches: Watches::default(),
            burst: Vec::new(),
            burst_bytes: 0,
            joined_bytes: 0,
            asks: Vec::new(),
            unanswered: Unanswered::default(),
            barrier: None,
            ending: false,
        };
        Self { parser: Parser::new(core.settings.limits), core, command_since: None, full_since: None }
    }

    /// Takes what the client sent; one call is one burst. To be called only while [`Self::wants_input`], so that
    /// what is kept stays bounded.
    pub fn receive(&mut self, bytes: &[u8], now: Now) {
        if !self.core.ending {
            self.parser.feed(bytes);
            self.advance(now);
        }
    }

    /// Takes the result of an operation; results of unknown slots are ignored.
    pub fn answer(&mut self, slot: Slot, answer: Answer, now: Now) {
        self.core.answer(slot, answer);
        self.advance(now);
    }

    /// The operations to be performed, in order; at most `pipeline_max`. Ordered ones fit one frame together, and the
    /// next come when these are answered.
    pub fn take_asks(&mut self) -> Vec<Ask> {
        core::mem::take(&mut self.core.asks)
    }

    /// The bytes to be sent.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.core.replies.output()
    }

    /// Reports that the first `count` bytes of the output were sent.
    pub fn sent(&mut self, count: usize, now: Now) {
        self.core.replies.sent(count);
        self.advance(now);
    }

    /// Whether more bytes should be received.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.core.takes_commands()
    }

    /// Whether everything owed was sent and the connection is to be closed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.core.ending && self.core.replies.owed() == 0 && self.core.replies.output().is_empty()
    }

    /// Whether a time limit has passed at `now`.
    #[must_use]
    pub fn overdue(&self, now: Now) -> Option<Overdue> {
        let limits = &self.core.settings.limits;
        let passed = |since: Option<u64>, most: u64| {
            since.is_some_and(|since| now.monotonic_ms.saturating_sub(since) > most)
        };
        if passed(self.command_since, limits.command_ms_max) {
            Some(Overdue::Command)
        } else if passed(self.full_since, limits.output_ms_max) {
            Some(Overdue::Output)
        } else {
            None
        }
    }

    /// Memory held, in bytes: what `limits.gateway_bytes` is compared with.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.parser.bytes() + self.core.bytes()) as u64
    }

    /// Executes what has arrived, as far as it may.
    fn advance(&mut self, now: Now) {
        let mut whole = false;
        let mut starved = false;
        while self.core.takes_commands() && !starved {
            match self.parser.next(self.core.session.authenticated) {
                Ok(Some(arguments)) => {
                    whole = true;
                    self.core.command(&arguments, now);
                }
                Ok(None) => starved = true,
                Err(refused) => {
                    self.core.reply(&error(refused.0));
                    self.core.ending = true;
                }
            }
        }
        self.core.release();
        self.command_since = match (starved && self.parser.pending() > 0, whole) {
            (true, true) => Some(now.monotonic_ms),
            (true, false) => self.command_since.or(Some(now.monotonic_ms)),
            (false, _) => None,
        };
        self.full_since = if self.core.replies.output().len() >= self.core.settings.limits.output_bytes_max {
            self.full_since.or(Some(now.monotonic_ms))
        } else {
            None
        };
    }
}

/// How many operations have no answer yet.
#[derive(Debug, Default)]
struct Unanswered {
    ordered: usize,
    unordered: usize,
}

/// Everything but the parser, so that borrowed arguments and changes of state meet.
#[derive(Debug)]
pub(super) struct Core {
    settings: Arc<Settings>,
    session: Session,
    pub(super) replies: Replies,
    pub(super) multi: Option<Multi>,
    watches: Watches,
    /// Operations of the present burst, not released yet, and their bytes.
    pub(super) burst: Vec<Ask>,
    pub(super) burst_bytes: usize,
    /// Bytes of the operations that left as one.
    pub(super) joined_bytes: usize,
    /// Operations to be taken.
    asks: Vec<Ask>,
    unanswered: Unanswered,
    /// The WATCH whose versions must be known before anything follows.
    barrier: Option<Slot>,
    ending: bool,
}

/// What a name stands for.
enum Found {
    Data(Verb),
    Local(Local),
    /// Whatever it is to the replicated server.
    Foreign,
}

impl Found {
    /// What the command of this name is, whether its elements fit, and its name as it is known.
    fn of(store: Store, arguments: &Arguments<'_>) -> Option<(Self, bool, &'static str)> {
        let name = arguments.at(0);
        let local = LocalCommand::find(name);
        if store == Store::Redis {
            let local = local.filter(|row| !matches!(row.local, Local::Time | Local::Watch));
            let found = local.map(|row| (Self::Local(row.local), row.fits(arguments.len()), row.name));
            return Some(found.unwrap_or((Self::Foreign, true, "")));
        }
        if let Some(verb) = Verb::find(name) {
            let command = verb.command();
            return Some((Self::Data(verb), command.fits(arguments.len() - 1), command.name));
        }
        local.map(|row| (Self::Local(row.local), row.fits(arguments.len()), row.name))
    }
}

impl Core {
    fn takes_commands(&self) -> bool {
        let limits = &self.settings.limits;
        // Behind unordered reads nothing is gathered; behind ordered operations one frame is.
        let held = self.unanswered.unordered > 0 && self.burst.iter().any(|ask| ask.ordered);
        let full = self.burst.len() >= COMMANDS_MAX || self.burst_bytes >= OPERATION_BYTES_MAX;
        !self.ending
            && !held
            && !full
            && self.barrier.is_none()
            && self.replies.owed() < limits.pipeline_max
            && self.replies.bytes() < limits.output_bytes_max
    }

    fn bytes(&self) -> usize {
        let asks = self.burst.iter().chain(&self.asks).map(|ask| ask.operation.len());
        self.replies.memory()
            + self.multi.as_ref().map_or(0, Multi::bytes)
            + self.watches.bytes()
            + self.joined_bytes
            + asks.sum::<usize>()
    }

    /// Decides for the burst as a whole whether its reads are ordered, and lets it go if nothing is in its way. Frames in
    /// flight together are executed in any order, so the next ordered one leaves when the one before it is answered.
    fn release(&mut self) {
        let ordered = self.burst.iter().any(|ask| ask.ordered);
        if ordered && self.unanswered.ordered + self.unanswered.unordered > 0 {
            return;
        }
        let is_joined = self.settings.store == Store::Redis;
        let count = match ordered {
            true if is_joined => foreign::one_request(&self.burst),
            true => self.one_frame(),
            false => self.burst.len(),
        };
        if ordered {
            for ask in &mut self.burst {
                ask.ordered = true;
                self.replies.order(ask.slot);
            }
            self.unanswered.ordered += if is_joined { count.min(1) } else { count };
        } else {
            self.unanswered.unordered += count;
        }
        let rest = self.burst.split_off(count);
        self.burst_bytes = rest.iter().map(|ask| ask.operation.len()).sum();
        if is_joined {
            let together = core::mem::take(&mut self.burst);
            self.burst = self.join(together);
        }
        if self.asks.is_empty() {
            // The list goes with the operations: a burst of a thousand leaves no memory behind.
            self.asks = core::mem::replace(&mut self.burst, rest);
        } else {
            self.asks.append(&mut self.burst);
            self.burst = rest;
        }
        assert!(
            self.unanswered.ordered == 0 || self.unanswered.unordered == 0,
            "reads and writes do not mix"
        );
    }

    /// How many operations of the burst fit one frame together; at least one if there are any.
    fn one_frame(&self) -> usize {
        let mut bytes = 0;
        let fits = |(at, ask): &(usize, &Ask)| {
            bytes += ask.operation.len();
            *at == 0 || (bytes <= OPERATION_BYTES_MAX && *at < COMMANDS_MAX)
        };
        self.burst.iter().enumerate().take_while(fits).count()
    }

    fn answer(&mut self, slot: Slot, answer: Answer) {
        let Some(waiting) = self.replies.take(slot) else { return };
        let count =
            if waiting.ordered { &mut self.unanswered.ordered } else { &mut self.unanswered.unordered };
        *count -= 1;
        if self.barrier == Some(slot) {
            self.barrier = None;
        }
        if let Purpose::Burst(asks) = waiting.purpose {
            return self.spread(asks, answer);
        }
        let reply = answer.into_reply();
        let reply = match waiting.purpose {
            Purpose::Reply | Purpose::Burst(_) => reply,
            Purpose::Watch(keys) => self.watched(keys, reply),
            Purpose::Transaction(known) => weave(&reply, known)
                .unwrap_or_else(|| encode(&error("ERR SYN-9001 the result is not that of a transaction"))),
        };
        self.replies.fill(slot, reply);
    }

    /// Remembers versions; the reply to WATCH.
    fn watched(&mut self, keys: Vec<Bytes>, reply: Bytes) -> Bytes {
        match versions(&reply, keys.len()) {
            Some(versions) => {
                keys.into_iter().zip(versions).for_each(|(key, version)| self.watches.add(key, version));
                encode(&status("OK"))
            }
            None => {
                self.watches.failed = true;
                reply
            }
        }
    }

    pub(super) fn reply(&mut self, reply: &Reply) {
        self.replies.ready(self.session.protocol, &encode(reply));
    }

    /// Answers a command that cannot be queued: the transaction it stands in is void.
    pub(super) fn refuse(&mut self, reply: &Reply) {
        if let Some(multi) = &mut self.multi {
            multi.broken = true;
        }
        self.reply(reply);
    }

    fn command(&mut self, arguments: &Arguments<'_>, now: Now) {
        let Some((found, fits, row_name)) = Found::of(self.settings.store, arguments) else {
            return self.refuse(&unknown(arguments));
        };
        if !fits {
            return self.refuse(&error(Denied::arity(row_name).text().to_owned()));
        }
        let open = matches!(found, Found::Local(Local::Auth | Local::Hello | Local::Quit | Local::Reset));
        if !self.session.authenticated && !open {
            return self.refuse(&error("NOAUTH SYN-3011 Authentication required."));
        }
        match (found, &mut self.multi) {
            (Found::Data(verb), Some(multi)) => {
                let queued = multi.queue(verb, arguments, self.watches.bytes());
                self.queued(queued);
            }
            (Found::Data(verb), None) => {
                let mut operation =
                    Vec::with_capacity(arguments.from(1).map(|a| a.len() + 4).sum::<usize>() + 4);
                operation::write_command(verb, arguments.from(1), &mut operation);
                self.ask(operation, Purpose::Reply, !verb.command().is_read());
            }
            (Found::Foreign, _) => self.foreign(arguments),
            (Found::Local(local), _) => self.local(local, arguments, now),
        }
    }

    pub(super) fn ask(&mut self, operation: Vec<u8>, purpose: Purpose, ordered: bool) -> Slot {
        // A question longer than a read may carry is ordered instead, and so is one behind what is ordered.
        let ordered = ordered || operation.len() > QUESTION_MAX || self.unanswered.ordered > 0;
        let slot = self.replies.wait(self.session.protocol, purpose, ordered);
        self.burst_bytes += operation.len();
        self.burst.push(Ask { slot, operation: Bytes::from(operation), ordered });
        slot
    }

    pub(super) fn queued(&mut self, queued: bool) {
        if queued {
            self.reply(&status("QUEUED"));
        } else {
            self.refuse(&error("ERR SYN-3002 the transaction is too large"));
        }
    }

    fn local(&mut self, local: Local, arguments: &Arguments<'_>, now: Now) {
        match local {
            Local::Multi => self.multi_begin(),
            Local::Exec => self.exec(),
            Local::Discard => self.discard(),
            Local::Watch => self.watch(arguments),
            Local::Quit => {
                self.reply(&status("OK"));
                self.ending = true;
            }
            Local::Reset => {
                self.multi = None;
                self.watches.clear();
                self.session.reset(&self.settings);
                self.reply(&status("RESET"));
            }
            Local::Hello | Local::Auth if self.multi.is_some() => {
                self.refuse(&error("ERR SYN-3003 Command not allowed inside a transaction"));
            }
            other => {
                let reply = self.locally(other, arguments, now);
                match &mut self.multi {
                    Some(multi) => {
                        let mut bytes = Vec::new();
                        reply.write(&mut bytes);
                        let queued = multi.queue_local(bytes, self.watches.bytes());
                        self.queued(queued);
                    }
                    None => self.reply(&reply),
                }
            }
        }
    }

    /// The reply of a command that changes at most what the client said about itself.
    fn locally(&mut self, local: Local, arguments: &Arguments<'_>, now: Now) -> Reply {
        match local {
            Local::Ping => Session::ping(arguments),
            Local::Echo => Reply::Bulk(Bytes::copy_from_slice(arguments.at(1))),
            Local::Hello => self.session.hello(arguments, &self.settings),
            Local::Auth => self.session.auth(arguments, &self.settings),
            Local::Select => Session::select(arguments),
            Local::Client => self.session.client(arguments),
            Local::Command => local::command(arguments),
            Local::Config => local::config(arguments),
            Local::Info => local::info(arguments, &self.settings),
            Local::Time => Session::time(now),
            Local::Unwatch => {
                // Inside a transaction the keys stay watched until EXEC, which ends the watching anyway.
                if self.multi.is_none() {
                    self.watches.clear();
                }
                status("OK")
            }
            Local::Quit | Local::Reset | Local::Multi | Local::Exec | Local::Discard | Local::Watch => {
                unreachable!("commands that change the connection are not answered here")
            }
        }
    }

    fn multi_begin(&mut self) {
        if self.multi.is_some() {
            return self.reply(&error("ERR SYN-3001 MULTI calls can not be nested"));
        }
        self.multi = Some(Multi::default());
        self.reply(&status("OK"));
    }

    fn discard(&mut self) {
        if self.multi.take().is_none() {
            return self.reply(&error("ERR SYN-3001 DISCARD without MULTI"));
        }
        self.watches.clear();
        self.reply(&status("OK"));
    }

    fn exec(&mut self) {
        let Some(multi) = self.multi.take() else {
            return self.reply(&error("ERR SYN-3001 EXEC without MULTI"));
        };
        let watches = core::mem::take(&mut self.watches);
        if multi.broken {
            self.reply(&error("EXECABORT SYN-3001 Transaction discarded because of previous errors."));
        } else if watches.failed {
            self.reply(&error(
                "EXECABORT SYN-3001 Transaction discarded because a watched key could not be read.",
            ));
        } else if multi.is_local() && watches.is_empty() {
            let protocol = self.session.protocol;
            self.replies.ready(protocol, &multi.local_reply());
        } else if self.settings.store == Store::Redis {
            let (commands, known) = multi.foreign();
            self.exec_foreign(commands, known);
        } else {
            let (operation, known) = multi.finish(&watches);
            self.ask(operation, Purpose::Transaction(known), true);
        }
    }

    fn watch(&mut self, arguments: &Arguments<'_>) {
        if self.multi.is_some() {
            return self.reply(&error("ERR SYN-3001 WATCH inside MULTI is not allowed"));
        }
        let keys = arguments.from(1);
        if !self.watches.fits(keys.len(), keys.map(<[u8]>::len).sum()) {
            return self.reply(&error("ERR SYN-3002 too many watched keys"));
        }
        let mut question = Vec::new();
        operation::write_versions(arguments.from(1), &mut question);
        let keys = arguments.from(1).map(Bytes::copy_from_slice).collect();
        self.barrier = Some(self.ask(question, Purpose::Watch(keys), false));
    }
}

/// The reply to a name that is in no table.
fn unknown(arguments: &Arguments<'_>) -> Reply {
    let mut given = String::new();
    for argument in arguments.from(1) {
        if given.len() >= 128 {
            break;
        }
        given.push_str(&format!("'{}' ", shown(argument)));
    }
    let name = shown(arguments.at(0));
    error(format!("ERR SYN-3003 unknown command '{name}', with args beginning with: {given}"))
}
