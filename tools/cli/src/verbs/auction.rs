//! `synod auction`: bids and tokens of a cluster of Chop Chop that runs auctions.

use super::operation::{App, By, Since, other};
use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::{Args, Subcommand};
use synod_auction::text::{self, Known};
use synod_auction::{bid, take};
use synod_config::{Exit, SynError, code};

const APP: App = App { name: "auction", words: text::code, refusal };

/// Bids, sales and money of a cluster that runs auctions over brokers.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod auction bid 1 10 --home alice")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Bids a sum for a token, which is locked until somebody bids more or the owner takes it.
    #[command(after_help = "Example:\n  synod auction bid 1 10 --home alice")]
    Bid {
        /// The token's number.
        token: u32,
        /// How much; it must be above the best bid.
        amount: u32,
        #[command(flatten)]
        by: By,
    },
    /// Sells an own token to whoever bid most.
    #[command(after_help = "Example:\n  synod auction take 1 --home bob")]
    Take {
        /// The token's number.
        token: u32,
        #[command(flatten)]
        by: By,
    },
    /// Shows who owns a token and the best bid, as f + 1 servers state them.
    #[command(after_help = "Example:\n  synod auction show 1")]
    Show {
        /// The token's number.
        token: u32,
        #[command(flatten)]
        since: Since,
        #[command(flatten)]
        by: By,
    },
    /// Shows what a client can bid and what its bids lock, as f + 1 servers state them.
    #[command(after_help = "Example:\n  synod auction money --home alice")]
    Money {
        /// The client's number; by default that of the client whose home this is.
        client: Option<u32>,
        #[command(flatten)]
        since: Since,
        #[command(flatten)]
        by: By,
    },
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let number = || usage("a token's number is below 2147483648");
        match self.verb {
            Verb::Bid { token, amount, by } => {
                let asked = bid(token, amount).ok_or_else(number)?;
                by.send(session, &APP, asked, &format!("bid {token} {amount}"))
            }
            Verb::Take { token, by } => {
                let asked = take(token).ok_or_else(number)?;
                by.send(session, &APP, asked, &format!("take {token}"))
            }
            Verb::Show { token, since, by } => show(session, token, &since, &by),
            Verb::Money { client, since, by } => money(session, client, &since, &by),
        }
    }
}

/// The answer to one question, and the height it is of at least.
fn read(session: &Session, since: &Since, by: &By, asked: &str) -> Result<(u64, Option<Known>), SynError> {
    let question = text::question(asked).map_err(|error| usage(&error.to_string()))?;
    let (height, answers) = by.read(session, &APP, since, [question])?;
    Ok((height, answers.first().and_then(|bytes| text::answer(bytes))))
}

fn show(session: &Session, token: u32, since: &Since, by: &By) -> Done {
    let (height, known) = read(session, since, by, &format!("token {token}"))?;
    let Some(Known::Token { owner, best }) = known else { return Err(no_token(token.into())) };
    let report = Report::new("synod-token/1")
        .field("token", token)
        .field("owner", owner)
        .field("best_bidder", best.map(|(bidder, _)| bidder))
        .field("best_bid", best.map(|(_, amount)| amount))
        .field("since_height", height);
    session.output.print(&report)?;
    Ok(Exit::Success)
}

fn money(session: &Session, client: Option<u32>, since: &Since, by: &By) -> Done {
    let client = by.client(session, &APP, client)?;
    let (height, known) = read(session, since, by, &format!("money {client}"))?;
    let Some(Known::Money { available, locked }) = known else {
        return Err(SynError::of(code::UNKNOWN_ACCOUNT, &[("client", &format!("client {client}"))]));
    };
    let report = Report::new("synod-money/1")
        .field("client", client)
        .field("available", available)
        .field("locked", locked)
        .field("since_height", height);
    session.output.print(&report)?;
    Ok(Exit::Success)
}

fn no_token(token: u64) -> SynError {
    SynError::of(code::TOKEN_UNKNOWN, &[("token", &token.to_string())])
}

fn refusal(byte: u8, asked: u64, client: &str) -> Option<SynError> {
    let token = asked >> 1 & 0x7fff_ffff;
    let (shown, amount) = (token.to_string(), (asked >> 32).to_string());
    let words = text::code(byte);
    Some(match byte {
        0 | 1 => return None,
        3 => SynError::of(code::UNKNOWN_ACCOUNT, &[("client", client)]),
        4 => no_token(token),
        5 => SynError::of(code::OWN_TOKEN, &[("token", &shown)]),
        6 => SynError::of(code::BID_TOO_LOW, &[("token", &shown), ("amount", &amount)]),
        7 => SynError::of(code::INSUFFICIENT_FUNDS, &[("client", client), ("amount", &amount)]),
        8 | 9 => SynError::of(code::NO_BID_OR_NOT_OWNER, &[("token", &shown), ("problem", words)]),
        _ => other(words),
    })
}

#[cfg(test)]
mod tests {
    use super::refusal;
    use synod_auction::{Code, bid, take};

    #[test]
    fn each_rule_of_auctions_has_its_own_code() {
        let asked = bid(7, 3).expect("a short number");
        let of = |code: Code| refusal(code.byte(), asked, "client 1").map(|error| error.code().number());
        assert_eq!((of(Code::Bid), of(Code::Taken)), (None, None));
        let all = [Code::Malformed, Code::NoAccount, Code::NoToken, Code::Owner, Code::Low, Code::Short];
        assert_eq!(all.map(of), [3001, 3105, 3301, 3303, 3302, 3115].map(Some));
        let asked = take(7).expect("a short number");
        for (code, problem) in [(Code::NotOwner, "not your own"), (Code::NoBid, "no bid")] {
            let refused = refusal(code.byte(), asked, "client 1").expect("a refusal");
            assert_eq!(refused.code().number(), 3304);
            assert!(refused.message().contains("token 7") && refused.message().contains(problem));
        }
    }
}
