//! The words of a run: what members say, write and tell, as the paper calls it.

use core::any::Any;

use synod_astro::{Message, Output, Promise, Record, Word};
use synod_broadcast::Lot;
use synod_broadcast::signed;
use synod_crypto::Hash;
use synod_sim::{Mark, Said, Words};
use synod_wire::Bytes;

use super::sight;

/// Names everything of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct AstroWords;

fn short(digest: &Hash) -> String {
    format!("{digest:?}").chars().take(4).collect()
}

fn place(lot: Lot) -> String {
    format!("n{}/{}", lot.source, lot.sequence)
}

/// The kind of message in a frame.
#[must_use]
pub fn kind(body: &Bytes) -> Option<&'static str> {
    Some(match sight::opened(body)? {
        Message::Broadcast(message) => match message {
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
        Message::Own(word) => match word {
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

impl Words for AstroWords {
    fn frame(&self, _: u8, body: &Bytes) -> Option<Said> {
        Some(match sight::opened(body)? {
            Message::Broadcast(message) => broadcast(&message),
            Message::Own(Word::Receipt(receipt)) => {
                Said::marked(format!("RECEIPT {}", place(receipt.lot)), Mark::Promise)
            }
            Message::Own(Word::AskReceipts(lots)) => Said::plain(format!("RECEIPTS? of {}", lots.len())),
            Message::Own(Word::Want { id, .. }) => Said::plain(format!("WANT {}/{}", id.spender, id.n)),
            Message::Own(Word::Here(line)) => {
                let id = line.entry.id;
                Said::plain(format!("HERE {}/{}", id.spender, id.n))
            }
            Message::Own(Word::Witnessed(word)) => {
                let found = if word.is_good { "good" } else { "bad" };
                Said::marked(format!("WITNESS {} {found}", place(word.lot)), Mark::Promise)
            }
            Message::Own(Word::CutPropose(cut)) => {
                Said::plain(format!("CUT {} but {}", cut.number, cut.exceptions.len()))
            }
            Message::Own(Word::CutSign(sign)) => {
                Said::marked(format!("SIGN {} {}", sign.number, short(&sign.root)), Mark::Promise)
            }
            Message::Own(Word::AskCut(above)) => Said::plain(format!("CUT? above {above}")),
            Message::Own(Word::AskRange { number, piece }) => {
                Said::plain(format!("RANGE? {number} {piece:?}"))
            }
            Message::Own(Word::Range(served)) => {
                Said::plain(format!("RANGE {} {:?}", served.number, served.piece))
            }
            Message::Own(Word::CutCertified(certified)) => {
                Said::marked(format!("CUT {} certified", certified.cut.number), Mark::Certificate)
            }
            Message::Own(Word::Credit(credit)) => {
                Said::marked(format!("CREDIT {:?}", credit.of), Mark::Promise)
            }
            Message::Own(Word::AskCredits(owed)) => Said::plain(format!("CREDITS? of {}", owed.len())),
            Message::Own(Word::Bundle(bundle)) => Said::plain(format!("BUNDLE of {}", bundle.proven.len())),
            Message::Own(Word::WantProof(of)) => Said::plain(format!("PROOF? {}/{}", of.id.spender, of.id.n)),
            Message::Own(Word::Imported { places, .. }) => Said::plain(format!("IMPORTED {}", places.len())),
            Message::Own(Word::Heard { upto, .. }) => Said::plain(format!("HEARD {upto}")),
        })
    }

    fn record(&self, _: u8, record: &Bytes) -> Option<Said> {
        Some(match sight::record(record)? {
            Record::Own(Promise::Endorsed { lot, except, .. }) => {
                let but = except.items().len();
                Said::marked(format!("Endorsed({} but {but})", place(lot)), Mark::Promise)
            }
            Record::Own(Promise::Certified { lot, open, .. }) => {
                let but = open.items().len();
                Said::marked(format!("Certified({} but {but})", place(lot)), Mark::Certificate)
            }
            Record::Own(Promise::Descended(line)) => {
                Said::plain(format!("Descended({}/{})", line.entry.id.spender, line.entry.id.n))
            }
            Record::Broadcast(signed::Record::Mine { sequence, .. }) => {
                Said::marked(format!("Mine({sequence})"), Mark::Promise)
            }
            Record::Broadcast(signed::Record::Accepted { lot, except, .. }) => {
                let but = except.items().len();
                Said::marked(format!("Accepted({} but {but})", place(lot)), Mark::Promise)
            }
            Record::Broadcast(signed::Record::Committed(certificate)) => {
                Said::marked(format!("Committed({})", place(certificate.lot)), Mark::Certificate)
            }
            Record::Own(_) | Record::Broadcast(_) => return None,
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
            Output::Progress { id, level, .. } => {
                Said::plain(format!("{}/{} is {level:?}", id.spender, id.n))
            }
            Output::Settled { entry, .. } => {
                Said::marked(format!("settles {}/{}", entry.id.spender, entry.id.n), Mark::Commit)
            }
            Output::Numbered { account, .. } => Said::plain(format!("numbers {account}")),
            Output::Looked { accounts, .. } => Said::plain(format!("shows {} accounts", accounts.len())),
            Output::Checked { why, .. } => Said::plain(format!("would endorse it, but for {why:?}")),
            Output::Log { .. } => Said::plain("shows a log".to_owned()),
            Output::Contradiction { id, .. } => {
                Said::marked(format!("shows a contradiction at {}/{}", id.spender, id.n), Mark::Certificate)
            }
            Output::Certified { opened, .. } => {
                Said::marked(format!("shows {} certified", place(opened.lot())), Mark::Certificate)
            }
            Output::Receipted(receipt) => {
                Said::plain(format!("shows the receipt of n{} for {}", receipt.member, place(receipt.lot)))
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
