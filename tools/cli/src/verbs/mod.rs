//! The verbs, one file each. A file gives `Arguments` with `run(self, &Session) -> Done`; adding a verb is that
//! file, its `mod` line and its line in the table below.

mod auction;
mod bench;
mod book;
mod broker;
mod chaos;
mod client;
mod completions;
mod config;
mod ctx;
mod down;
mod explain;
pub(crate) mod fault;
pub(crate) mod init;

mod demo;
mod keys;
mod kv;
mod lab;
mod logs;
mod man;
mod member;
mod memnode;
mod node;
mod operation;
mod pay;
mod payments;
mod pixel;
mod proxy;
mod restart;
mod score;
mod sim;
mod status;
mod up;
mod version;
mod why;

use crate::exit::Done;
use crate::session::Session;
use clap::Subcommand;

macro_rules! verbs {
    ($($variant:ident $module:ident;)+) => {
        /// A verb with its arguments.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Verb {
            $($variant($module::Arguments),)+
        }

        impl Verb {
            /// Does what was asked.
            pub(crate) fn run(self, session: &Session) -> Done {
                match self {
                    $(Self::$variant(arguments) => arguments.run(session),)+
                }
            }
        }
    };
}

verbs! {
    Sim sim;
    Kv kv;
    Client client;
    Pay pay;
    Member member;
    Payments payments;
    Auction auction;
    Pixel pixel;
    Book book;
    Demo demo;
    Proxy proxy;
    Up up;
    Down down;
    Logs logs;
    Restart restart;
    Bench bench;
    Chaos chaos;
    Score score;
    Lab lab;
    Fault fault;
    Init init;
    Node node;
    Broker broker;
    Memnode memnode;
    Keys keys;
    Ctx ctx;
    Status status;
    Why why;
    Config config;
    Explain explain;
    Completions completions;
    Man man;
    Version version;
}
