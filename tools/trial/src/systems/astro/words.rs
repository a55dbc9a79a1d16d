//! The words of a run: what members say, write and tell, as the paper calls it.

use core::any::Any;

use synod_astro::{Output, Profile, Promise, Word};
use synod_broadcast::Lot;
use synod_broadcast::{bracha, signed};
use synod_crypto::Hash;
use synod_ledger::EntryId;
use synod_sim::{Mark, Said, Words};
use synod_wire::Bytes;

use super::sight::{self, Heard, Kept};

/// Names everything of a run.
#[derive(Clone, Copy, Debug)]
pub struct AstroWords {
    /// Of which payment system.
    pub profile: Profile,
}

fn short(digest: &Hash) -> String {
    format!("{digest:?}").chars().take(4).collect()
}

fn place(lot: Lot) -> String {
    format!("n{}/{}", lot.source, lot.sequence)
}

/// The kind of message in a frame.
#[must_use]
pub fn kind(profile: Profile, body: &Bytes) -> Option<&'static str> {
    Some(match sight::heard(profile, body)? {
        Heard::Votes(message) => match message {
            bracha::Message::Prepare { .. } => "prepare",
            bracha::Message::Echo(_) => "echo",
            bracha::Message::Ready(_) => "ready",
            bracha::Message::Ask(_) => "ask",
            bracha::Message::Pull(_) => "pull",
            bracha::Message::Pulled { .. } => "pulled",
            bracha::Message::Frontier(_) => "frontier",
        },
        Heard::Signed(message) => match message {
            signed::Message::Prepare { .. } => "prepare",
            signed::Message::Ack(_) => "ack",
            signed::Message::Commit(_) => "commit",
            signed::Message::Ask(_) => "ask",
            signed::Message::Pull { .. } => "pull",
            signed::Message::Pulled { .. } => "pulled",
            signed::Message::Frontier { .. } => "frontier",
            signed::Message::AskRows(_) => "ask_rows",
            signed::Message::Rows { .. } => "rows",
        },
        Heard::Own(word) => match word {
            Word::Receipt(_) => "receipt",
            Word::AskReceipts(_) => "ask_receipts",
            Word::Want { .. } => "want",
            Word::Here(_) => "here",
            Word::Witnessed(_) => "witnessed",
            Word::CutPropose(_) => "cut_propose",
            Word::CutSign(_) => "cut_sign",
            Word::AskCut(_) => "ask_cut",
            Word::CutCertified(_) => "cut_certified",
            Word::AskRange { .. } => "ask_range",
            Word::Range(_) => "range",
            Word::Credit(_) => "credit",
            Word::AskCredits(_) => "ask_credits",
            Word::Bundle(_) => "bundle",
            Word::WantProof(_) => "want_proof",
            Word::Imported { .. } => "imported",
            Word::Heard { .. } => "heard",
        },
    })
}

fn broadcast(message: &signed::Message) -> Said {
    match message {
        signed::Message::Prepare { lot, payload, .. } => {
            let lines = sight::batch(payload.bytes()).map_or(0, |batch| batch.digests.len());
            Said::marked(format!("PREPARE {} of {lines}", place(*lot)), Mark::Promise)
        }
        signed::Message::Ack(ack) => {
            let (at, but) = (place(ack.lot), ack.said.except.items().len());
            Said::marked(format!("ACK {at} {} but {but}", short(&ack.digest)), Mark::Promise)
        }
        signed::Message::Commit(certificate) => {
            let (at, by) = (place(certificate.lot), certificate.said.len());
            Said::marked(format!("COMMIT {at} {} by {by}", short(&certificate.digest)), Mark::Certificate)
        }
        signed::Message::Ask(lot) => Said::plain(format!("ASK {}", place(*lot))),
        signed::Message::Pull { lot, .. } => Said::plain(format!("PULL {}", place(*lot))),
        signed::Message::Pulled { lot, .. } => Said::plain(format!("PULLED {}", place(*lot))),
        signed::Message::Frontier { certified, beyond, rows, .. } => {
            let all = certified.iter().map(|lot| place(*lot));
            let beyond = beyond.iter().map(|lot| format!("+{}", place(*lot)));
            let all: Vec<String> = all.chain(beyond).collect();
            Said::plain(format!("FRONTIER {} rows {rows}", all.join(" ")))
        }
        signed::Message::AskRows(from) => Said::plain(format!("ROWS? from {from}")),
        signed::Message::Rows { rows, .. } => Said::plain(format!("ROWS {}", rows.len())),
    }
}

/// What is said in Bracha's broadcast.
fn votes(message: &bracha::Message) -> Said {
    let vote =
        |name: &str, vote: &bracha::Vote| format!("{name} {} {}", place(vote.lot), short(&vote.digest));
    match message {
        bracha::Message::Prepare { sequence, payload } => {
            Said::plain(format!("PREPARE {sequence} of {} bytes", payload.bytes().len()))
        }
        bracha::Message::Echo(said) => Said::marked(vote("ECHO", said), Mark::Promise),
        bracha::Message::Ready(said) => Said::marked(vote("READY", said), Mark::Promise),
        bracha::Message::Ask(lot) => Said::plain(format!("ASK {}", place(*lot))),
        bracha::Message::Pull(said) => Said::plain(vote("PULL", said)),
        bracha::Message::Pulled { lot, .. } => Said::plain(format!("PULLED {}", place(*lot))),
        bracha::Message::Frontier(lots) => {
            let all: Vec<String> = lots.iter().map(|lot| place(*lot)).collect();
            Said::plain(format!("FRONTIER {}", all.join(" ")))
        }
    }
}

/// What is said beside the broadcast.
fn beside(word: &Word) -> Said {
    match word {
        Word::Receipt(receipt) => Said::marked(format!("RECEIPT {}", place(receipt.lot)), Mark::Promise),
        Word::AskReceipts(lots) => Said::plain(format!("RECEIPTS? of {}", lots.len())),
        Word::Want { id, .. } => Said::plain(format!("WANT {}/{}", id.spender, id.n)),
        Word::Here(line) => {
            let id = line.entry.id;
            Said::plain(format!("HERE {}/{}", id.spender, id.n))
        }
        Word::Witnessed(word) => {
            let found = if word.is_good { "good" } else { "bad" };
            Said::marked(format!("WITNESS {} {found}", place(word.lot)), Mark::Promise)
        }
        Word::CutPropose(cut) => Said::plain(format!("CUT {} but {}", cut.number, cut.exceptions.len())),
        Word::CutSign(sign) => {
            Said::marked(format!("SIGN {} {}", sign.number, short(&sign.root)), Mark::Promise)
        }
        Word::AskCut(above) => Said::plain(format!("CUT? above {above}")),
        Word::AskRange { number, piece } => Said::plain(format!("RANGE? {number} {piece:?}")),
        Word::Range(served) => Said::plain(format!("RANGE {} {:?}", served.number, served.piece)),
        Word::CutCertified(certified) => {
            Said::marked(format!("CUT {} certified", certified.cut.number), Mark::Certificate)
        }
        Word::Credit(credit) => Said::marked(format!("CREDIT {:?}", credit.of), Mark::Promise),
        Word::AskCredits(owed) => Said::plain(format!("CREDITS? of {}", owed.len())),
        Word::Bundle(bundle) => Said::plain(format!("BUNDLE of {}", bundle.proven.len())),
        Word::WantProof(of) => Said::plain(format!("PROOF? {}/{}", of.id.spender, of.id.n)),
        Word::Imported { places, .. } => Said::plain(format!("IMPORTED {}", places.len())),
        Word::Heard { upto, .. } => Said::plain(format!("HEARD {upto}")),
    }
}

impl Words for AstroWords {
    fn frame(&self, _: u8, body: &Bytes) -> Option<Said> {
        Some(match sight::heard(self.profile, body)? {
            Heard::Signed(message) => broadcast(&message),
            Heard::Votes(message) => votes(&message),
            Heard::Own(word) => beside(&word),
        })
    }

    fn record(&self, _: u8, record: &Bytes) -> Option<Said> {
        Some(match sight::record(self.profile, record)? {
            Kept::Own(Promise::Endorsed { lot, except, .. }) => {
                let but = except.items().len();
                Said::marked(format!("Endorsed({} but {but})", place(lot)), Mark::Promise)
            }
            Kept::Own(Promise::Certified { lot, open, .. }) => {
                let but = open.items().len();
                Said::marked(format!("Certified({} but {but})", place(lot)), Mark::Certificate)
            }
            Kept::Own(Promise::Descended(line)) => {
                Said::plain(format!("Descended({}/{})", line.entry.id.spender, line.entry.id.n))
            }
            Kept::Signed(signed::Record::Mine { sequence, .. }) => {
                Said::marked(format!("Mine({sequence})"), Mark::Promise)
            }
            Kept::Signed(signed::Record::Accepted { lot, except, .. }) => {
                let but = except.items().len();
                Said::marked(format!("Accepted({} but {but})", place(lot)), Mark::Promise)
            }
            Kept::Signed(signed::Record::Committed(certificate)) => {
                Said::marked(format!("Committed({})", place(certificate.lot)), Mark::Certificate)
            }
            Kept::Votes(bracha::Record::Echoed(vote)) => {
                Said::marked(format!("Echoed({})", place(vote.lot)), Mark::Promise)
            }
            Kept::Votes(bracha::Record::Readied(vote)) => {
                Said::marked(format!("Readied({})", place(vote.lot)), Mark::Promise)
            }
            Kept::Own(_) | Kept::Signed(_) | Kept::Votes(_) => return None,
        })
    }

    fn output(&self, _: u8, output: &dyn Any) -> Option<Said> {
        output.downcast_ref::<Output>().map(|output| match output {
            Output::Accepted { entry, .. } => {
                Said::plain(format!("takes {}/{}", entry.id.spender, entry.id.n))
            }
            Output::Refused { why, .. } => Said::plain(format!("refuses: {why:?}")),
            Output::Rejected { entry, .. } => {
                Said::marked(format!("rejects {}/{}", entry.id.spender, entry.id.n), Mark::Commit)
            }
            Output::Queued { .. } => Said::plain("lets it wait for money".to_owned()),
            Output::Progress { level, entries } => {
                Said::plain(format!("{} is {level:?}", listed(entries.iter().map(|(id, _)| *id))))
            }
            Output::Settled { entries, .. } => {
                let all = listed(entries.iter().map(|(entry, _)| entry.id));
                Said::marked(format!("settles {all}"), Mark::Commit)
            }
            Output::Imported { entries, .. } => {
                let all = listed(entries.iter().map(|(entry, _)| entry.id));
                Said::marked(format!("credits {all}"), Mark::Commit)
            }
            Output::Numbered { account, .. } => Said::plain(format!("numbers {account}")),
            Output::Looked { accounts, .. } => Said::plain(format!("shows {} accounts", accounts.len())),
            Output::Checked { why, .. } => Said::plain(format!("would endorse it, but for {why:?}")),
            Output::Log { .. } => Said::plain("shows a log".to_owned()),
            Output::Bundles { bundles, .. } => {
                Said::plain(format!("shows {} entries on their way", bundles.entries))
            }
            Output::Lanes { .. } => Said::plain("shows how far lanes are".to_owned()),
            Output::Contradiction { id, .. } => {
                Said::marked(format!("shows a contradiction at {}/{}", id.spender, id.n), Mark::Certificate)
            }
            Output::Certified { opened, .. } => {
                Said::marked(format!("shows {} certified", place(opened.lot())), Mark::Certificate)
            }
            Output::Receipted(receipt) => {
                Said::plain(format!("shows the receipt of n{} for {}", receipt.member, place(receipt.lot)))
            }
            Output::Invited(invited) => {
                Said::plain(format!("asks {} owners to sign together", invited.len()))
            }
            Output::Opened(id) => Said::marked(format!("opens {id}"), Mark::Commit),
            Output::TwoBatches { lane, sequence, .. } => {
                Said::marked(format!("shows two batches of n{}/{sequence}", lane.0), Mark::Certificate)
            }
            Output::Conflict { id, .. } => {
                Said::marked(format!("shows two entries of {}/{}", id.spender, id.n), Mark::Certificate)
            }
            Output::CutCertified { record, .. } => {
                let root = short(&record.digest());
                Said::marked(format!("has cut {} certified: {root}", record.number), Mark::Commit)
            }
            Output::FalseWitness { member, lot, .. } => Said::marked(
                format!("shows a false word of n{} on {}", member.0, place(*lot)),
                Mark::Certificate,
            ),
            Output::TwoRoots { member, number, .. } => Said::marked(
                format!("shows two states of n{} behind cut {number}", member.0),
                Mark::Certificate,
            ),
            Output::CaughtUp { number, .. } => {
                Said::marked(format!("goes on from cut {number}"), Mark::Commit)
            }
            Output::Proof { proof, .. } => Said::plain(format!("proves {}", u8::from(proof.is_some()))),
        })
    }
}

/// Places of logs, one after the other.
fn listed(ids: impl Iterator<Item = EntryId>) -> String {
    let all: Vec<String> = ids.map(|id| format!("{}/{}", id.spender, id.n)).collect();
    all.join(", ")
}
