//! The book as an application: requests in agreed order in, replies out.

use synod_crypto::Hash;
use synod_service::{App, Arriving, At, Chunks, Replies, Request, Unrecoverable, Wall};
use synod_wire::{Bytes, Limits, Wire};

use crate::config::Config;
use crate::market::Market;
use crate::matching::Slot;
use crate::order::Operation;
use crate::question::EventKind;
use crate::registry::{Registry, Shelf};
use crate::reply::{Code, Reply};
use crate::snapshot;
use crate::units::{OrderId, Symbol, TraderId};

/// Longest operation, in bytes.
pub const OPERATION_BYTES_MAX: u32 = 128;

/// An order book for several symbols.
#[derive(Debug)]
pub struct Book {
    pub(crate) config: Config,
    pub(crate) slot: Slot,
    /// Orders that came or were put behind others so far.
    pub(crate) arrivals: u64,
    pub(crate) markets: Vec<Market>,
    pub(crate) registry: Registry,
    /// The chunks of the present state, once somebody asked for the root.
    frozen: Option<Chunks>,
    restoring: Option<Arriving>,
}

impl Default for Book {
    fn default() -> Self {
        Self::empty(Config::default())
    }
}

impl Book {
    /// An empty book; `None` when it cannot have these bounds.
    #[must_use]
    pub fn new(config: Config) -> Option<Self> {
        config.is_sound().then(|| Self::empty(config))
    }

    pub(crate) fn empty(config: Config) -> Self {
        Self {
            config,
            slot: Slot::default(),
            arrivals: 0,
            markets: (0..config.symbols).map(|number| Market::new(Symbol(number))).collect(),
            registry: Registry { config, ..Registry::default() },
            frozen: None,
            restoring: None,
        }
    }

    /// Orders that rest or wait.
    #[must_use]
    pub fn orders(&self) -> usize {
        self.registry.places.len()
    }

    pub(crate) fn market(&self, symbol: Symbol) -> Option<&Market> {
        self.markets.get(usize::from(symbol.0))
    }

    fn perform(&mut self, request: &Request<'_>) -> Bytes {
        let (trader, body) = (TraderId(request.session), Bytes::copy_from_slice(request.body));
        let limits = Limits { frame_max: OPERATION_BYTES_MAX };
        let id = OrderId { trader, request: request.sequence };
        let done = match Operation::decode(body, &limits) {
            Ok(Operation::Ask(question)) => return self.answer(&question).encode(),
            Ok(Operation::Place(order)) => self.place(id, &order),
            Ok(Operation::Cancel(request)) => self.cancel(OrderId { trader, request }),
            Ok(Operation::Replace { request, delta, price }) => {
                self.replace(OrderId { trader, request }, delta, price)
            }
            Err(_) => Err(Code::Malformed),
        };
        let mut reply = done.unwrap_or_else(Reply::of);
        reply.event = self.registry.traders.get(&trader).map_or(0, |trader| trader.last);
        reply.encode()
    }

    /// Ends orders whose time has come.
    fn expire(&mut self) {
        let mut touched = Vec::new();
        while let Some(&(until, id)) = self.registry.deadlines.first()
            && until <= self.slot.time
        {
            let Some(place) = self.registry.places.get(&id).copied() else {
                unreachable!("a deadline is of an order with a place")
            };
            let Some(market) = self.markets.get_mut(usize::from(place.symbol.0)) else { return };
            let left = match place.shelf {
                Shelf::Resting => market.remove(place.side, place.rank).map(|resting| resting.open),
                Shelf::Waiting => market.awake(place.side, place.rank).map(|waiting| waiting.order.quantity),
            };
            self.registry.closed(id);
            self.registry.tell(id, place.symbol, EventKind::Expired(left.unwrap_or_default()));
            touched.push(place.symbol);
        }
        touched.sort_unstable();
        touched.dedup();
        touched.into_iter().for_each(|symbol| self.settle(symbol));
    }

    /// Lets in what an operation on a symbol set free.
    pub(crate) fn settle(&mut self, symbol: Symbol) {
        if let Some(market) = self.markets.get_mut(usize::from(symbol.0)) {
            market.settle(&mut self.registry, self.slot, &mut self.arrivals);
        }
    }

    fn take_over(&mut self, index: u32, chunk: &[u8]) -> Option<()> {
        if index == 0 {
            self.restoring = Some(snapshot::begin(chunk, &self.config)?);
        } else {
            self.restoring.as_mut()?.add(index, chunk)?;
        }
        if self.restoring.as_ref()?.is_whole() {
            let stream = self.restoring.take()?.stream();
            let restored = snapshot::restore(&stream, self.config)?;
            *self = restored;
        }
        Some(())
    }
}

impl App for Book {
    fn execute(&mut self, at: &At, requests: &mut dyn Iterator<Item = Request<'_>>, replies: &mut Replies) {
        self.frozen = None;
        // Agreed time never goes back; a book that was asked otherwise keeps its own.
        let time: Wall = self.slot.time.max(at.time);
        self.slot = Slot { position: at.position, time };
        self.expire();
        for request in requests {
            let reply = self.perform(&request);
            replies.push(reply);
        }
        let config = self.config;
        self.markets.iter_mut().for_each(|market| market.publish(at.position, &config));
    }

    fn query(&self, question: &[u8]) -> Option<Bytes> {
        let limits = Limits { frame_max: OPERATION_BYTES_MAX };
        match Operation::decode(Bytes::copy_from_slice(question), &limits) {
            Ok(Operation::Ask(question)) => Some(self.answer(&question).encode()),
            _ => None,
        }
    }

    fn root(&mut self) -> Hash {
        let chunks = self.frozen.take().unwrap_or_else(|| snapshot::chunks(self));
        let root = chunks.root();
        self.frozen = Some(chunks);
        root
    }

    fn chunks(&self) -> u32 {
        self.frozen.as_ref().map_or_else(|| snapshot::chunks(self).count(), Chunks::count)
    }

    fn chunk(&self, index: u32) -> Bytes {
        self.frozen.as_ref().map_or_else(|| snapshot::chunks(self).get(index), |chunks| chunks.get(index))
    }

    fn restore(&mut self, index: u32, chunk: &[u8]) -> Result<(), Unrecoverable> {
        if index == 0 {
            *self = Self::empty(self.config);
        }
        self.take_over(index, chunk).ok_or_else(|| {
            *self = Self::empty(self.config);
            Unrecoverable(format!("chunk {index} does not belong to a snapshot of an order book"))
        })
    }

    fn bytes(&self) -> u64 {
        self.account_bytes()
    }

    fn invariants(&self) {
        if self.restoring.is_none() {
            self.check();
        }
    }
}
