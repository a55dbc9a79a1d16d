//! `synod payments`: money of a cluster of Chop Chop that runs payments.

use super::operation::{App, By, Since, other};
use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::{Args, Subcommand};
use synod_config::{Exit, SynError, code};
use synod_payments::{operation, text};

const APP: App = App { name: "payments", words: text::code, refusal };

/// Transfers and balances of a cluster that runs payments over brokers.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod payments transfer 0 5 --home alice")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Pays a sum to the client of this number. What comes in can be spent from the next batch on.
    #[command(after_help = "Example:\n  synod payments transfer 0 5 --home alice")]
    Transfer {
        /// The payee's number, which its sign-up gave it.
        to: u32,
        /// How much, at least 1.
        amount: u32,
        #[command(flatten)]
        by: By,
    },
    /// Shows the balance of a client, as f + 1 servers state it.
    #[command(after_help = "Example:\n  synod payments balance --home alice")]
    Balance {
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
        match self.verb {
            Verb::Transfer { to, amount, by } => {
                let asked = operation(to, amount);
                let asked = asked.ok_or_else(|| usage("a payee's number is below 268435456"))?;
                by.send(session, &APP, asked, &format!("pay {to} {amount}"))
            }
            Verb::Balance { client, since, by } => balance(session, client, &since, &by),
        }
    }
}

fn balance(session: &Session, client: Option<u32>, since: &Since, by: &By) -> Done {
    let client = by.client(session, &APP, client)?;
    let question = text::question(&format!("balance {client}")).map_err(|error| usage(&error.to_string()))?;
    let (height, answers) = by.read(session, &APP, since, [question])?;
    let balance = answers.first().and_then(|bytes| text::answer(bytes));
    let balance = balance.ok_or_else(|| no_account(&format!("client {client}")))?;
    let report = Report::new("synod-balance/1")
        .field("client", client)
        .field("balance", balance)
        .field("since_height", height);
    session.output.print(&report)?;
    Ok(Exit::Success)
}

fn no_account(client: &str) -> SynError {
    SynError::of(code::UNKNOWN_ACCOUNT, &[("client", client)])
}

fn refusal(byte: u8, asked: u64, client: &str) -> Option<SynError> {
    let (to, amount) = ((asked & 0xfff_ffff).to_string(), (asked >> 32).to_string());
    match byte {
        0 => None,
        2 => Some(SynError::of(code::UNKNOWN_BENEFICIARY, &[("client", &to)])),
        3 => Some(SynError::of(code::AMOUNT_ZERO, &[])),
        4 => Some(SynError::of(code::INSUFFICIENT_FUNDS, &[("client", client), ("amount", &amount)])),
        byte => Some(other(text::code(byte))),
    }
}

#[cfg(test)]
mod tests {
    use super::refusal;
    use synod_payments::{Code, operation};

    #[test]
    fn each_rule_of_payments_has_its_own_code() {
        let asked = operation(7, 3).expect("a short number");
        let of = |code: Code| refusal(code.byte(), asked, "client 1");
        assert_eq!(of(Code::Paid), None);
        let all = [Code::Malformed, Code::NoAccount, Code::NoAmount, Code::Short];
        let codes: Vec<u16> = all.map(|code| of(code).expect("a refusal").code().number()).into();
        assert_eq!(codes, [3001, 3106, 3107, 3115]);
        assert_eq!(of(Code::Short).expect("a refusal").message(), "client 1 has less than 3");
    }
}
