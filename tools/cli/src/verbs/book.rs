//! `synod book`: orders and trades of a cluster that runs an order book.

mod asked;
mod shown;
mod trader;

use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, usage};
use asked::{OrderOptions, Way};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use synod_config::Exit;
use synod_orderbook::{Answer, Delta, Lots, Operation, OrderId, Question, Symbol, Ticks};
use trader::{Trader, read};

/// Orders, depth and trades of a cluster that runs an order book.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod book order sell 10 101 --home maker")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

/// Whose orders.
#[derive(Clone, Debug, Args)]
struct By {
    /// The trader's directory; it is made by the first order. By default one for each cluster in the state directory.
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

/// Of what.
#[derive(Clone, Copy, Debug, Args)]
struct Of {
    /// The symbol's number.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    symbol: u16,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Places an order; it is named by the number that this prints.
    #[command(after_help = "Example:\n  synod book order sell 10 101 --home maker")]
    Order {
        /// Buys or sells.
        #[arg(value_enum)]
        way: Way,
        /// How many lots.
        lots: u64,
        /// The worst price in ticks; a market order without it.
        price: Option<u64>,
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        options: OrderOptions,
        #[command(flatten)]
        by: By,
    },
    /// Ends an open order.
    #[command(after_help = "Example:\n  synod book cancel 1 --home maker")]
    Cancel {
        /// The order's number.
        order: u64,
        #[command(flatten)]
        by: By,
    },
    /// Changes the open lots or the price of an order; fewer lots alone keep its place.
    #[command(after_help = "Example:\n  synod book replace 1 --less 2 --home maker")]
    Replace {
        /// The order's number.
        order: u64,
        /// So many lots more.
        #[arg(long, value_name = "LOTS", conflicts_with = "less")]
        more: Option<u64>,
        /// So many lots less.
        #[arg(long, value_name = "LOTS")]
        less: Option<u64>,
        /// Another price.
        #[arg(long, value_name = "TICKS")]
        price: Option<u64>,
        #[command(flatten)]
        by: By,
    },
    /// Shows what is open at each price, best first; all-or-none orders are not displayed.
    #[command(after_help = "Example:\n  synod book depth")]
    Depth {
        #[command(flatten)]
        of: Of,
        /// Levels of each side.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=256))]
        levels: u16,
    },
    /// Shows trades, the oldest first.
    #[command(after_help = "Example:\n  synod book tape")]
    Tape {
        #[command(flatten)]
        of: Of,
        /// Only those behind this number.
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        after: u64,
    },
    /// Shows what happened to a trader's orders beyond what the replies said.
    #[command(after_help = "Example:\n  synod book events --home maker")]
    Events {
        /// Only those behind this number.
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        after: u64,
        #[command(flatten)]
        by: By,
    },
    /// Shows an open order.
    #[command(after_help = "Example:\n  synod book show 1 --home maker")]
    Show {
        /// The order's number.
        order: u64,
        #[command(flatten)]
        by: By,
    },
    /// Shows what a trader bought and sold.
    #[command(after_help = "Example:\n  synod book account --home maker")]
    Account {
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        by: By,
    },
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        match self.verb {
            Verb::Order { way, lots, price, of, options, by } => {
                let order = options.order(way, Lots(lots), price.map(Ticks), Symbol(of.symbol));
                send(session, &by, &Operation::Place(order))
            }
            Verb::Cancel { order, by } => send(session, &by, &Operation::Cancel(order)),
            Verb::Replace { order: request, more, less, price, by } => {
                let delta = match (more, less) {
                    (None, None) if price.is_none() => {
                        return Err(usage("say --more, --less or --price"));
                    }
                    (None, None) => Delta::Same,
                    (Some(more), _) => Delta::More(Lots(more)),
                    (None, Some(less)) => Delta::Less(Lots(less)),
                };
                send(session, &by, &Operation::Replace { request, delta, price: price.map(Ticks) })
            }
            Verb::Depth { of, levels } => {
                ask(session, Question::Depth { symbol: Symbol(of.symbol), levels }, of)
            }
            Verb::Tape { of, after } => ask(session, Question::Tape { symbol: Symbol(of.symbol), after }, of),
            Verb::Events { after, by } => {
                let trader = Trader::known(session, by.home.as_deref())?;
                ask(session, Question::Events { trader, after }, Of { symbol: 0 })
            }
            Verb::Show { order: request, by } => {
                let trader = Trader::known(session, by.home.as_deref())?;
                let question = Question::Order(OrderId { trader, request });
                match read(session, question)? {
                    Answer::Order(None) => Err(shown::unknown_order(request)),
                    answer => print(session, &answer, Of { symbol: 0 }),
                }
            }
            Verb::Account { of, by } => {
                let trader = Trader::known(session, by.home.as_deref())?;
                ask(session, Question::Account { trader, symbol: Symbol(of.symbol) }, of)
            }
        }
    }
}

fn ask(session: &Session, question: Question, of: Of) -> Done {
    print(session, &read(session, question)?, of)
}

fn print(session: &Session, answer: &Answer, of: Of) -> Done {
    session.output.print(&shown::answer(answer, of.symbol)?)?;
    Ok(Exit::Success)
}

fn send(session: &Session, by: &By, operation: &Operation) -> Done {
    let mut trader = Trader::open(session, by.home.as_deref())?;
    let (request, reply) = trader.send(session, operation)?;
    shown::refusal(reply.code, operation).map_or(Ok(()), Err)?;
    let report: Report = shown::reply(request, &reply);
    session.output.print(&report)?;
    Ok(Exit::Success)
}
