//! One connection's task: a loop over socket, state machine and backend, polled by hand.
//!
//! Each turn submits what was asked, takes the answers that are there, writes once, and reads once; it repeats
//! until nothing moves. Polling by hand costs one timer per stuck turn instead of one per operation.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use synod_host::{Call, Mode, Operation, Outcome};
use synod_kv::{COMMANDS_MAX, OPERATION_BYTES_MAX};
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWrite as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

use crate::{
    budget::{FREE_BYTES, PAUSE_MAX, Share},
    resp::{Ask, Connection, Now, Settings, Slot},
    resp_server::outcome::{answer, unknown},
    shared::{Shared, backend_deadline},
    traffic::Api,
};

/// Bytes read at once.
const READ_BYTES: u64 = 64 << 10;
/// Least room worth a read.
const READ_BYTES_MIN: u64 = 1 << 10;
/// How often time limits are looked at while one of them runs.
const TICK: Duration = Duration::from_millis(250);
/// How long a connection that was ended here waits for its client to close too.
const LINGER: Duration = Duration::from_secs(1);
/// A time at which every time limit that runs has passed.
const FAR: Now = Now { monotonic_ms: u64::MAX, wall_us: 0 };

thread_local! {
    /// Where every connection of a thread reads to; its bytes are handed on before the next poll.
    static SCRATCH: std::cell::RefCell<Box<[u8]>> =
        std::cell::RefCell::new(vec![0; usize::try_from(READ_BYTES).unwrap_or(0)].into_boxed_slice());
}

/// What all connections of a listener do alike.
pub(super) struct Manner {
    /// How long an operation may take.
    pub(super) deadline: Duration,
    /// How reads are carried out.
    pub(super) reads: Mode,
    /// What the state machines share.
    pub(super) connection: Arc<Settings>,
}

/// A call whose outcomes have not come.
struct Flight {
    slots: Vec<Slot>,
    reply: oneshot::Receiver<Vec<Outcome>>,
    begun: Instant,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// All that was owed is sent.
    Finished,
    /// The client is gone.
    Gone,
    /// A limit was passed.
    Cut,
}

type Signal<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub(super) struct Client {
    stream: TcpStream,
    connection: Connection,
    share: Arc<Share>,
    shared: Shared,
    manner: Arc<Manner>,
    flights: VecDeque<Flight>,
    /// Ready once the listener stops.
    stop: Signal<()>,
    /// Ready once the budget tells this connection to close.
    evicted: Signal<()>,
    /// A read that waits for the budget; false when it never gets it.
    pause: Option<Signal<bool>>,
    timer: Pin<Box<Sleep>>,
    /// When the timer fires, if it is set.
    armed: Option<Instant>,
    /// Since when nothing more is read, and until when what is owed may be sent.
    draining: Option<Instant>,
    epoch: Instant,
}

impl Client {
    pub(super) fn new(stream: TcpStream, share: Share, shared: Shared, manner: Arc<Manner>) -> Self {
        let share = Arc::new(share);
        let watched = Arc::clone(&share);
        Self {
            stream,
            connection: Connection::new(Arc::clone(&manner.connection), share.id()),
            stop: Box::pin(shared.stop.clone().stopped()),
            evicted: Box::pin(async move { watched.evicted().await }),
            share,
            shared,
            manner,
            flights: VecDeque::new(),
            pause: None,
            timer: Box::pin(sleep(Duration::ZERO)),
            armed: None,
            draining: None,
            epoch: Instant::now(),
        }
    }

    pub(super) async fn run(mut self) {
        let advance = |cx: &mut Context<'_>| match self.advance(cx) {
            Ok(()) => Poll::Pending,
            Err(end) => Poll::Ready(end),
        };
        let end = poll_fn(advance).await;
        for flight in self.flights.drain(..) {
            self.shared.traffic.abandoned(Api::Resp, flight.slots.len() as u64);
        }
        match end {
            End::Finished => self.close().await,
            End::Gone => {}
            End::Cut => {
                self.shared.traffic.cut();
                tracing::debug!(client = self.share.id(), "a connection passed a limit and was closed");
            }
        }
    }

    fn now(&self) -> Now {
        let monotonic = self.epoch.elapsed().as_millis();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        Now {
            monotonic_ms: u64::try_from(monotonic).unwrap_or(u64::MAX),
            wall_us: u64::try_from(wall).unwrap_or(u64::MAX),
        }
    }

    /// Moves everything that can move; `Err` when the connection ends.
    fn advance(&mut self, cx: &mut Context<'_>) -> Result<(), End> {
        if self.evicted.as_mut().poll(cx).is_ready() {
            return Err(End::Cut);
        }
        if self.draining.is_none() && self.stop.as_mut().poll(cx).is_ready() {
            self.drain();
        }
        loop {
            while self.turn(cx)? {}
            if self.is_done() {
                return Err(End::Finished);
            }
            if !self.poll_timer(cx)? {
                break;
            }
        }
        self.share.settle(self.connection.bytes());
        Ok(())
    }

    /// One turn; false when nothing moved, and then everything has been asked to wake this task.
    fn turn(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        self.submit();
        let answered = self.take_answers(cx);
        let written = self.write(cx)?;
        let read = self.read(cx)?;
        Ok(answered || written || read)
    }

    /// Reads no more; what is owed has its deadline and the patience for a slow reader.
    fn drain(&mut self) {
        self.pause = None;
        self.draining = Some(Instant::now() + self.manner.deadline + PAUSE_MAX);
    }

    fn is_done(&self) -> bool {
        let sent = self.connection.output().is_empty() && self.flights.is_empty();
        self.connection.is_finished() || (self.draining.is_some() && sent)
    }

    /// Gives the backend what was asked: one call, for reads as many as their bytes need. What is ordered is one.
    fn submit(&mut self) {
        let mut asks = self.connection.take_asks().into_iter().peekable();
        while asks.peek().is_some() {
            let most = asks.len().min(COMMANDS_MAX);
            let (mut operations, mut slots) = (Vec::with_capacity(most), Vec::with_capacity(most));
            let mut bytes = 0;
            let fits = |ask: &Ask, bytes: usize| bytes + ask.operation.len() <= OPERATION_BYTES_MAX;
            while let Some(ask) = asks.next_if(|ask| slots.is_empty() || fits(ask, bytes)) {
                bytes += ask.operation.len();
                let mode = if ask.ordered { Mode::Ordered } else { self.manner.reads };
                operations.push(Operation { body: ask.operation, mode });
                slots.push(ask.slot);
                if slots.len() == COMMANDS_MAX {
                    break;
                }
            }
            self.call(operations, slots);
        }
    }

    fn call(&mut self, operations: Vec<Operation>, slots: Vec<Slot>) {
        let (sender, reply) = oneshot::channel();
        let deadline = backend_deadline(self.manner.deadline);
        self.shared.traffic.began(Api::Resp, slots.len() as u64);
        self.flights.push_back(Flight { slots, reply, begun: Instant::now() });
        self.shared.backend.call(Call { lane: self.share.id(), operations, deadline, reply: sender });
    }

    /// Takes the outcomes that have come, oldest call first: what came for a later call could not be sent yet.
    fn take_answers(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        while let Some(flight) = self.flights.front_mut() {
            let Poll::Ready(outcomes) = Pin::new(&mut flight.reply).poll(cx) else { break };
            let Some(flight) = self.flights.pop_front() else { break };
            self.land(flight, outcomes.unwrap_or_default());
            any = true;
        }
        any
    }

    /// Answers every operation of a call; without an outcome its fate is unknown.
    fn land(&mut self, flight: Flight, outcomes: Vec<Outcome>) {
        let now = self.now();
        let traffic = &self.shared.traffic;
        traffic.ended(Api::Resp, flight.slots.len() as u64, flight.begun.elapsed());
        let mut outcomes = outcomes.into_iter();
        let mut accepted = 0;
        for slot in flight.slots {
            let answer = match outcomes.next() {
                Some(outcome) => answer(outcome, &mut accepted, traffic),
                None => unknown(traffic),
            };
            self.connection.answer(slot, answer, now);
        }
        traffic.accepted(Api::Resp, accepted);
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        let mut any = false;
        while !self.connection.output().is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, self.connection.output()) {
                Poll::Pending => break,
                Poll::Ready(Ok(0) | Err(_)) => return Err(End::Gone),
                Poll::Ready(Ok(count)) => {
                    let now = self.now();
                    self.connection.sent(count, now);
                    any = true;
                }
            }
        }
        Ok(any)
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        if self.draining.is_some() || !self.connection.wants_input() {
            return Ok(false);
        }
        match self.pause.as_mut().map(|pause| pause.as_mut().poll(cx)) {
            Some(Poll::Pending) => return Ok(false),
            Some(Poll::Ready(false)) => return Err(End::Cut),
            Some(Poll::Ready(true)) => self.pause = None,
            None => {}
        }
        let held = self.connection.bytes();
        let granted = self.share.reserve(held + READ_BYTES);
        let room = if granted { READ_BYTES } else { FREE_BYTES.saturating_sub(held) };
        if room < READ_BYTES_MIN {
            let share = Arc::clone(&self.share);
            self.pause = Some(Box::pin(async move { share.wait(held + READ_BYTES).await }));
            return Ok(true);
        }
        match self.receive(usize::try_from(room).unwrap_or(0), cx)? {
            None => Ok(false),
            Some(0) => {
                self.drain();
                Ok(true)
            }
            Some(_) => Ok(true),
        }
    }

    /// Reads at most `room` bytes into the state machine; `None` when nothing is there, 0 at the end.
    fn receive(&mut self, room: usize, cx: &mut Context<'_>) -> Result<Option<usize>, End> {
        let now = self.now();
        let (connection, stream) = (&mut self.connection, Pin::new(&mut self.stream));
        SCRATCH.with_borrow_mut(|scratch| {
            let room = room.min(scratch.len());
            let mut buffer = ReadBuf::new(&mut scratch[..room]);
            match stream.poll_read(cx, &mut buffer) {
                Poll::Pending => Ok(None),
                Poll::Ready(Err(_)) => Err(End::Gone),
                Poll::Ready(Ok(())) => {
                    if !buffer.filled().is_empty() {
                        connection.receive(buffer.filled(), now);
                    }
                    Ok(Some(buffer.filled().len()))
                }
            }
        })
    }

    /// When something must be looked at although nothing moves.
    fn due(&self) -> Option<Instant> {
        let answer = self.flights.front().map(|flight| flight.begun + self.manner.deadline);
        let limited = self.connection.overdue(FAR).is_some().then(|| Instant::now() + TICK);
        [answer, limited, self.draining].into_iter().flatten().min()
    }

    /// True when the timer fired, so that everything is to be looked at again. A timer that is early stays: moving
    /// it for every call would cost more than one useless wake-up per deadline.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        let Some(due) = self.due() else { return Ok(false) };
        if self.armed.is_none_or(|armed| due < armed) {
            self.timer.as_mut().reset(due);
            self.armed = Some(due);
        }
        if self.timer.as_mut().poll(cx).is_pending() {
            return Ok(false);
        }
        self.armed = None;
        let now = Instant::now();
        if self.connection.overdue(self.now()).is_some() || self.draining.is_some_and(|end| end <= now) {
            return Err(End::Cut);
        }
        while let Some(late) = self.flights.pop_front_if(|flight| flight.begun + self.manner.deadline <= now)
        {
            self.land(late, Vec::new());
        }
        Ok(true)
    }

    /// Ends the stream so that the last reply arrives: closing with unread input would discard it at the client.
    async fn close(mut self) {
        let mut discarded = vec![0; 4 << 10];
        let polite = async {
            self.stream.shutdown().await?;
            while self.stream.read(&mut discarded).await? > 0 {}
            Ok::<(), io::Error>(())
        };
        // Whatever the client still sends is not waited for longer than this.
        drop(tokio::time::timeout(LINGER, polite).await);
    }
}
