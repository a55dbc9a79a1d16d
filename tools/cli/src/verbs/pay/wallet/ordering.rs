//! What a wallet signs beside payments to one account: to several, money set aside and what becomes of it, another representative, the end
//! of the account.

use super::folder::Folder;
use super::hosted::{Hosted, LockRisk};
use super::sending::{Sending, order};
use super::{System, Until, institution};
use crate::output::Report;
use crate::session::Session;
use crate::verbs::pay::orders::{self, Leg as Paid};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use synod_config::{SynError, code};
use synod_host::pay::{AccountId, EntryId, Kind, Leg, Units, Verdict};
use synod_wire::List;

/// What every order of a wallet says.
#[derive(Debug, Args)]
pub(super) struct Terms {
    /// The wallet.
    wallet: PathBuf,
    /// The order's name; sent twice, it happens once. By default a new one is drawn.
    #[arg(long)]
    id: Option<u128>,
    /// How sure it has to be.
    #[arg(long, value_enum, default_value_t = Until::Settled)]
    until: Until,
    /// Your reason, as a number.
    #[arg(long, default_value_t = 0)]
    code: u16,
}

/// See the module.
#[derive(Debug, Subcommand)]
pub(super) enum Order {
    /// Pays several accounts in one entry, all or none.
    #[command(after_help = "Example:\n  synod pay wallet multi alice --leg 0-1-1=1 --leg 0-2-1=1")]
    Multi {
        #[command(flatten)]
        terms: Terms,
        /// Who is paid, and how much; 64 at most.
        #[arg(long = "leg", value_name = "ACCOUNT=AMOUNT", required = true)]
        legs: Vec<Paid>,
    },
    /// Sets money aside until it is posted or voided: it can be spent by nobody meanwhile.
    #[command(after_help = "Example:\n  synod pay wallet hold alice --to 0-1-1 --amount 1 --id 12")]
    Hold {
        #[command(flatten)]
        terms: Terms,
        /// Whom it would pay.
        #[arg(long, value_name = "ACCOUNT")]
        to: AccountId,
        /// The most that it can pay.
        #[arg(long)]
        amount: u128,
        /// Whose orders decide over it; by default the wallet's.
        #[arg(long, value_name = "ACCOUNT")]
        resolver: Option<AccountId>,
        /// When the resolver is to void it, in ms of Unix time; nothing does by itself.
        #[arg(long, value_name = "MS", default_value_t = 0)]
        expires_at: u64,
    },
    /// Pays what a hold set aside, or a part of it, and frees the rest.
    #[command(after_help = "Example:\n  synod pay wallet post alice 12")]
    Post {
        #[command(flatten)]
        terms: Terms,
        #[command(flatten)]
        which: Which,
        /// How much of it; by default all.
        #[arg(long)]
        amount: Option<u128>,
    },
    /// Frees what a hold set aside.
    #[command(after_help = "Example:\n  synod pay wallet void alice 13")]
    Void {
        #[command(flatten)]
        terms: Terms,
        #[command(flatten)]
        which: Which,
    },
    /// Gives the account another representative: the member that gets its entries first.
    #[command(after_help = "Example:\n  synod pay wallet move alice --to n1")]
    Move {
        #[command(flatten)]
        terms: Terms,
        /// The member.
        #[arg(long, value_name = "NODE")]
        to: String,
    },
    /// Closes the account: nothing is paid from it any more, and what is left goes to another one. What is paid to it later leaves by
    /// closing it once more.
    #[command(after_help = "Example:\n  synod pay wallet close alice --to 0-1-1")]
    Close {
        #[command(flatten)]
        terms: Terms,
        /// Who has what is left.
        #[arg(long, value_name = "ACCOUNT")]
        to: AccountId,
        /// How much that is; by default all that the account's institution shows, and less than all is refused.
        #[arg(long)]
        amount: Option<u128>,
    },
}

/// Which hold.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// The hold's name.
    hold: u128,
    /// Whose hold it is, where several payers gave one that name.
    #[arg(long, value_name = "ACCOUNT")]
    payer: Option<AccountId>,
}

impl Which {
    /// Where the hold stands, and its amount.
    fn find(&self, system: &System) -> Result<(EntryId, u128), SynError> {
        let (found, _) = orders::find(system, (self.hold, self.payer), None)?;
        let number = |name: &str| found[name].as_str().and_then(|text| text.parse::<u128>().ok());
        let place = || {
            let spender = found["from"].as_str()?.parse().ok()?;
            let n = number("n").and_then(|n| u64::try_from(n).ok())?;
            Some((EntryId { spender, n }, number("amount")?))
        };
        place().filter(|_| found["kind"] == "hold").ok_or_else(|| {
            SynError::of(code::HOLD_NOT_FOUND, &[]).because(format!("transfer {} is no hold", self.hold))
        })
    }
}

fn decide(hold: EntryId, verdict: Verdict) -> Kind {
    Kind::Resolve { holds: List::try_from(vec![hold]).expect("one hold"), verdict }
}

impl Order {
    const fn terms(&self) -> &Terms {
        match self {
            Self::Multi { terms, .. }
            | Self::Hold { terms, .. }
            | Self::Post { terms, .. }
            | Self::Void { terms, .. }
            | Self::Move { terms, .. }
            | Self::Close { terms, .. } => terms,
        }
    }

    /// What is to be signed.
    fn kind(&self, system: &System, folder: &Folder) -> Result<Kind, SynError> {
        Ok(match self {
            Self::Multi { legs, .. } => {
                let legs = legs.iter().map(|leg| Leg { to: leg.to, amount: Units(leg.amount) });
                let legs = List::try_from(legs.collect::<Vec<_>>());
                Kind::MultiPay(legs.map_err(|_| SynError::of(code::TOO_MANY_LEGS, &[]))?)
            }
            Self::Hold { to, amount, resolver, expires_at, .. } => Kind::Hold {
                to: *to,
                amount: Units(*amount),
                resolver: resolver.unwrap_or(folder.account),
                expires_at: *expires_at,
            },
            Self::Post { which, amount, .. } => {
                let (hold, most) = which.find(system)?;
                let amounts = vec![Units(amount.unwrap_or(most))];
                decide(hold, Verdict::Post(List::try_from(amounts).expect("one amount")))
            }
            Self::Void { which, .. } => decide(which.find(system)?.0, Verdict::Void),
            Self::Move { to, .. } => Kind::Move(system.number_beside(folder.account, to)?),
            Self::Close { to, amount, .. } => {
                let amount = amount.map_or_else(|| left(system, folder.account), Ok)?;
                Kind::Close(Leg { to: *to, amount: Units(amount) })
            }
        })
    }

    pub(super) fn run(
        self,
        session: &Session,
        system: &Arc<System>,
        deadline: Instant,
    ) -> Result<Report, SynError> {
        let terms = self.terms();
        let folder = Folder::read(&terms.wallet, system.genesis())?;
        let kind = self.kind(system, &folder)?;
        let hosted = Hosted::open(&folder, system, LockRisk::Refused)?;
        let id = terms.id.unwrap_or_else(institution::draw_id);
        let draft = order(&folder, kind, (id, terms.code));
        Sending { system, folder: &folder, hosted, deadline }.send(session, draft, terms.until.level())
    }
}

/// What an account has, by the word of its institution, or of another node where that one is away.
fn left(system: &System, account: AccountId) -> Result<u128, SynError> {
    let mut last = SynError::of(code::NOT_FOUND, &[("what", &format!("account {account}"))]);
    let own = system.of(account, None).ok();
    for at in own.into_iter().chain(system.all()?) {
        match at.get(&format!("/v1/pay/accounts/{account}")) {
            Ok(found) => {
                let number = |name: &str| found[name].as_str().and_then(|text| text.parse::<u128>().ok());
                let left =
                    number("credits").zip(number("debits")).and_then(|(in_all, out)| in_all.checked_sub(out));
                return left.ok_or_else(|| crate::exit::bug("account", &format!("a node shows {found}")));
            }
            Err(error) => last = error,
        }
    }
    Err(last.because("--amount says how much is left"))
}
