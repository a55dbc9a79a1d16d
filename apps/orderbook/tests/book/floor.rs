//! A book with people around it.

use synod_crypto::Hash;
use synod_orderbook::{
    Answer, Book, Code, Config, Event, EventKind, LINES_MAX, Lots, Operation, Order, OrderId, Question,
    Reply, Side, Symbol, Ticks, TraderId,
};
use synod_service::{App, At, Position, Replies, Request, Wall};
use synod_wire::{Bytes, Limits, Wire};

/// The symbol that most tests trade.
pub(crate) const S: Symbol = Symbol(0);

/// A book, and how much it was asked so far.
pub(crate) struct Floor {
    pub(crate) book: Book,
    pub(crate) position: u64,
    pub(crate) time: u64,
    pub(crate) requests: u64,
}

impl Floor {
    pub(crate) fn new() -> Self {
        Self::within(Config { symbols: 2, ..Config::default() })
    }

    pub(crate) fn within(config: Config) -> Self {
        let book = Book::new(config).expect("sound bounds");
        Self { book, position: 0, time: 1_000, requests: 0 }
    }

    /// Executes raw bodies in one slot.
    pub(crate) fn slot(&mut self, bodies: &[(u64, Bytes)]) -> Vec<Bytes> {
        self.position += 1;
        let at = At { position: Position(self.position), time: Wall(self.time), draw: Hash::ZERO };
        let first = self.requests + 1;
        self.requests += bodies.len() as u64;
        let requests = (first..).zip(bodies).map(|(sequence, (session, body))| Request {
            session: *session,
            sequence,
            body,
        });
        let mut replies = Replies::default();
        self.book.execute(&at, &mut { requests }, &mut replies);
        self.book.invariants();
        replies.drain().collect()
    }

    /// One operation in a slot of its own; its reply, and the request's number.
    pub(crate) fn ask(&mut self, trader: u64, operation: &Operation) -> (u64, Reply) {
        let replies = self.slot(&[(trader, operation.encode())]);
        assert_eq!(replies.len(), 1, "one reply per request");
        assert!((32..=288).contains(&replies[0].len()), "{} bytes", replies[0].len());
        (self.requests, Reply::decode(replies[0].clone(), &Limits::default()).expect("a reply"))
    }

    pub(crate) fn place(&mut self, trader: u64, order: Order) -> (u64, Reply) {
        self.ask(trader, &Operation::Place(order))
    }

    /// Places an order that rests, and gives its request.
    pub(crate) fn rests(&mut self, trader: u64, order: Order) -> u64 {
        let (request, reply) = self.place(trader, order);
        assert_eq!(reply.code, Code::Resting, "{reply:?}");
        request
    }

    /// The code of an operation that must change nothing.
    pub(crate) fn refused(&mut self, trader: u64, operation: &Operation) -> Code {
        let before = self.image();
        let (_, reply) = self.ask(trader, operation);
        assert!(reply.code.is_refusal(), "{reply:?}");
        assert_eq!(self.image(), before, "{:?} changed the book", reply.code);
        reply.code
    }

    /// All chunks but for the position and time, which every slot moves.
    fn image(&mut self) -> Vec<Bytes> {
        let (depth, other) = (self.depth(0), self.depth(1));
        let mut image = vec![depth.0.encode(), depth.1.encode(), other.0.encode(), other.1.encode()];
        image.push(Bytes::from(self.book.orders().to_le_bytes().to_vec()));
        for trader in 0..8 {
            image.push(self.answer(Question::Events { trader: TraderId(trader), after: 0 }).encode());
        }
        image
    }

    pub(crate) fn answer(&self, question: Question) -> Answer {
        let bytes = self.book.query(&Operation::Ask(question).encode()).expect("a question");
        Answer::decode(bytes, &Limits::default()).expect("an answer")
    }

    pub(crate) fn depth(
        &self,
        symbol: u16,
    ) -> (
        synod_wire::List<synod_orderbook::Level, LINES_MAX>,
        synod_wire::List<synod_orderbook::Level, LINES_MAX>,
    ) {
        let Answer::Depth(depth) = self.answer(Question::Depth { symbol: Symbol(symbol), levels: 256 })
        else {
            unreachable!("the depth")
        };
        assert!(depth.whole);
        (depth.bids, depth.offers)
    }

    pub(crate) fn events(&self, trader: u64) -> Vec<Event> {
        match self.answer(Question::Events { trader: TraderId(trader), after: 0 }) {
            Answer::Events { events, .. } => events.into_vec(),
            other => unreachable!("{other:?}"),
        }
    }

    pub(crate) fn kinds(&self, trader: u64) -> Vec<EventKind> {
        self.events(trader).iter().map(|event| event.kind).collect()
    }

    pub(crate) fn is_open(&self, trader: u64, request: u64) -> bool {
        let id = OrderId { trader: TraderId(trader), request };
        self.answer(Question::Order(id)) != Answer::Order(None)
    }
}

pub(crate) const fn buy(lots: u64, price: u64) -> Order {
    Order::limit(S, Side::Buy, Lots(lots), Ticks(price))
}

pub(crate) const fn sell(lots: u64, price: u64) -> Order {
    Order::limit(S, Side::Sell, Lots(lots), Ticks(price))
}
