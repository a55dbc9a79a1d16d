//! The state as chunks: what is hashed, transferred and restored.
//!
//! Chunk 0 is the header: format, bounds, length of the stream. The others are the stream, cut every 64 KiB: the counters,
//! then each symbol with its trades, changes and orders by rank, then the traders by number. A restored state is taken only
//! if it keeps every invariant and its own stream is byte for byte the one that came.
//!
//! *Bounds.* While it restores, the stream; no length field is believed before the bytes have come.

use synod_service::{CHUNK_MAX, Position, Wall};
use synod_wire::{Bytes, Limits, Malformed, Reader, Wire, Writer, wire};

use crate::book::Book;
use crate::config::Config;
use crate::market::{Market, Resting, Waiting};
use crate::matching::Slot;
use crate::order::Side;
use crate::question::{Account, Change, Event, Trade};
use crate::registry::{Place, Shelf, Trader};
use crate::units::{LOTS_MAX, Lots, Symbol, Ticks, TraderId};

const FORMAT: u8 = 1;

wire! {
    /// Chunk 0.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Header {
        pub(crate) format: u8,
        pub(crate) config: Config,
        pub(crate) bytes: u64,
    }
}

/// All chunks of a state.
pub(crate) fn chunks(book: &Book) -> Vec<Bytes> {
    let stream = encode(book);
    let header = Header { format: FORMAT, config: book.config, bytes: stream.len() as u64 };
    let cut = (0..stream.len()).step_by(CHUNK_MAX);
    let pieces = cut.map(|at| stream.slice(at..stream.len().min(at + CHUNK_MAX)));
    [header.encode()].into_iter().chain(pieces).collect()
}

/// A snapshot that has arrived in part.
#[derive(Debug)]
pub(crate) struct Restoring {
    bytes: usize,
    stream: Vec<u8>,
    next: u32,
}

impl Restoring {
    /// Begins with chunk 0.
    pub(crate) fn begin(chunk: &[u8], config: &Config) -> Option<Self> {
        let header = Header::decode(Bytes::copy_from_slice(chunk), &Limits::default()).ok()?;
        if header.format != FORMAT || header.config != *config {
            return None;
        }
        let bytes = u32::try_from(header.bytes).ok()? as usize;
        Some(Self { bytes, stream: Vec::new(), next: 1 })
    }

    /// Adds the next piece of the stream, which is a whole one unless it is the last.
    pub(crate) fn add(&mut self, index: u32, chunk: &[u8]) -> Option<()> {
        let expected = (self.bytes - self.stream.len()).min(CHUNK_MAX);
        if index != self.next || chunk.is_empty() || chunk.len() != expected {
            return None;
        }
        self.stream.extend_from_slice(chunk);
        self.next += 1;
        Some(())
    }

    pub(crate) const fn is_whole(&self) -> bool {
        self.stream.len() == self.bytes
    }

    /// The state of a whole stream; `None` when it is not canonical, or breaks an invariant.
    pub(crate) fn finish(self, config: Config) -> Option<Book> {
        let stream = Bytes::from(self.stream);
        let mut input = Reader::new(stream.clone(), &Limits { frame_max: u32::MAX }).ok()?;
        let book = read(&mut input, config).ok()??;
        let sound = input.remaining() == 0 && book.broken().is_none() && encode(&book) == stream;
        sound.then_some(book)
    }
}

fn encode(book: &Book) -> Bytes {
    let mut out = Writer::with_capacity(1 << 10);
    book.slot.position.write(&mut out);
    book.slot.time.write(&mut out);
    book.arrivals.write(&mut out);
    book.registry.events.write(&mut out);
    for market in &book.markets {
        market.last.write(&mut out);
        market.trades.write(&mut out);
        market.changes.write(&mut out);
        market.gone.write(&mut out);
        all(market.tape.iter(), &mut out);
        all(market.feed.iter(), &mut out);
        for side in [Side::Buy, Side::Sell] {
            all(market.shelves(side).resting.values(), &mut out);
            all(market.shelves(side).waiting.values(), &mut out);
        }
    }
    out.count(book.registry.traders.len());
    for (id, trader) in &book.registry.traders {
        id.write(&mut out);
        trader.active.write(&mut out);
        trader.last.write(&mut out);
        all(trader.events.iter(), &mut out);
        out.count(trader.accounts.len());
        for (symbol, account) in &trader.accounts {
            symbol.write(&mut out);
            account.write(&mut out);
        }
    }
    out.freeze()
}

fn all<'a, T: Wire + 'a>(values: impl ExactSizeIterator<Item = &'a T>, out: &mut Writer) {
    out.count(values.len());
    values.for_each(|value| value.write(out));
}

/// Reads at most `max` values, one after another: a count alone reserves nothing.
fn many<T: Wire>(
    input: &mut Reader,
    max: u32,
    mut each: impl FnMut(T) -> Option<()>,
) -> Result<Option<()>, Malformed> {
    for _ in 0..input.count(max as usize)? {
        if each(T::read(input)?).is_none() {
            return Ok(None);
        }
    }
    Ok(Some(()))
}

/// Reads a state; `None` where an order cannot stand in a book.
fn read(input: &mut Reader, config: Config) -> Result<Option<Book>, Malformed> {
    let mut book = Book::empty(config);
    book.slot = Slot { position: Position::read(input)?, time: Wall::read(input)? };
    book.arrivals = u64::read(input)?;
    book.registry.events = u64::read(input)?;
    let mut orders = Vec::new();
    for number in 0..config.symbols {
        let Some(market) = read_market(input, &config, Symbol(number), &mut orders)? else { return Ok(None) };
        if let Some(place) = book.markets.get_mut(usize::from(number)) {
            *place = market;
        }
    }
    for _ in 0..input.count(config.traders_max as usize)? {
        let (id, trader) = read_trader(input, &config)?;
        book.registry.idle.insert((trader.active, id));
        book.registry.traders.insert(id, trader);
    }
    for (id, place) in orders {
        if book.registry.places.contains_key(&id) || !book.registry.traders.contains_key(&id.trader) {
            return Ok(None);
        }
        book.registry.opened(id, place);
    }
    Ok(Some(book))
}

type Standing = (crate::units::OrderId, Place);

fn read_market(
    input: &mut Reader,
    config: &Config,
    symbol: Symbol,
    orders: &mut Vec<Standing>,
) -> Result<Option<Market>, Malformed> {
    let mut market = Market::new(symbol);
    market.last = Option::<Ticks>::read(input)?;
    (market.trades, market.changes) = (u64::read(input)?, u64::read(input)?);
    market.gone = Account::read(input)?;
    many(input, config.tape_max, |trade: Trade| {
        market.tape.push_back(trade);
        Some(())
    })?;
    many(input, config.feed_max, |change: Change| {
        market.feed.push_back(change);
        Some(())
    })?;
    for side in [Side::Buy, Side::Sell] {
        let rests = many(input, config.orders_max, |resting: Resting| {
            stands(&market, side, &resting)?;
            market.rest(resting);
            let (rank, until) = (resting.rank(), resting.until);
            orders.push((resting.id, Place { symbol, side, shelf: Shelf::Resting, rank, until }));
            Some(())
        })?;
        let waits = many(input, config.orders_max, |waiting: Waiting| {
            let order = &waiting.order;
            let sound = order.side == side && order.symbol == symbol && order.stop.is_some();
            // What is late now was not when it came.
            (sound && order.refusal(Wall(0)).is_none()).then_some(())?;
            market.wait(waiting);
            let (rank, until) = (waiting.rank(), order.until());
            orders.push((waiting.id, Place { symbol, side, shelf: Shelf::Waiting, rank, until }));
            Some(())
        })?;
        if rests.is_none() || waits.is_none() {
            return Ok(None);
        }
    }
    market.settled();
    Ok(Some(market))
}

/// Whether an order can rest on this side.
fn stands(market: &Market, side: Side, resting: &Resting) -> Option<()> {
    let Resting { price, open, .. } = *resting;
    let counted = open > Lots::ZERO && open <= LOTS_MAX && price > Ticks(0) && price.times(open).is_some();
    let free = !market.shelves(side).resting.contains_key(&resting.rank());
    (resting.side == side && counted && free).then_some(())
}

fn read_trader(input: &mut Reader, config: &Config) -> Result<(TraderId, Trader), Malformed> {
    let id = TraderId::read(input)?;
    let mut trader = Trader { active: u64::read(input)?, last: u64::read(input)?, ..Trader::default() };
    many(input, config.events_max, |event: Event| {
        trader.events.push_back(event);
        Some(())
    })?;
    many(input, config.symbols.into(), |(symbol, account): (Symbol, Account)| {
        trader.accounts.insert(symbol, account);
        Some(())
    })?;
    Ok((id, trader))
}
