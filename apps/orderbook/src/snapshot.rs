//! The state as chunks: what is hashed, transferred and restored.
//!
//! Chunk 0 is the header: format, bounds, length of the stream. The others are the stream, cut every 64 KiB: the counters,
//! then each symbol with its trades, changes and orders by rank, then the traders by number. A restored state is taken only
//! if it keeps every invariant and its own stream is byte for byte the one that came.
//!
//! *Bounds.* While it restores, the stream; no length field is believed before the bytes have come.

use synod_service::{Arriving, Chunks, Position, Wall};
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
pub(crate) fn chunks(book: &Book) -> Chunks {
    let stream = encode(book);
    let header = Header { format: FORMAT, config: book.config, bytes: stream.len() as u64 };
    Chunks::cut(&header, &stream)
}

/// Begins with chunk 0; `None` when it is of a book with other bounds.
pub(crate) fn begin(chunk: &[u8], config: &Config) -> Option<Arriving> {
    let header = Header::decode(Bytes::copy_from_slice(chunk), &Limits::default()).ok()?;
    (header.format == FORMAT && header.config == *config).then(|| Arriving::begin(header.bytes))?
}

/// The state of a whole stream; `None` when it is not canonical, or breaks an invariant.
pub(crate) fn restore(stream: &Bytes, config: Config) -> Option<Book> {
    let mut input = Reader::new(stream, &Limits { frame_max: u32::MAX }).ok()?;
    let book = read(&mut input, config).ok()??;
    let sound = input.remaining() == 0 && book.broken().is_none() && encode(&book) == *stream;
    sound.then_some(book)
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
