//! The words of a run: what replicas, clients and memory nodes say, as the paper calls it.

use core::any::Any;

use synod_quorum::NodeId;
use synod_sim::{Mark, Said, Words};
use synod_ubft::message::Message;
use synod_ubft::replica::{Output, Word};
use synod_ubft::{Body, client, ctb};
use synod_wire::Bytes;

use super::ctb::machine::Of;
use super::plan::{CLIENTS, REPLICA};
use super::sight;

/// Names everything of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct UbftWords;

fn streamed(body: &Body) -> String {
    match body {
        Body::Prepare { view, slot, batch } => {
            format!("PREPARE v={} s={} of {}", view.0, slot.0, batch.requests.len())
        }
        Body::Commit(of) => format!("COMMIT v={} s={}", of.subject.view.0, of.subject.slot.0),
        Body::Checkpoint(of) => format!("CHECKPOINT {}", of.subject.low.0),
        Body::SealView(view) => format!("SEAL_VIEW {}", view.0),
        Body::NewView { view, left } => format!("NEW_VIEW {} of {}", view.0, left.len()),
        Body::Ref { length, .. } => format!("REF {length}B"),
    }
}

fn broadcast(broadcaster: u8, word: &ctb::Message) -> Said {
    match word {
        ctb::Message::Lock { k, body } => {
            let says = sight::streamed(body.bytes()).as_ref().map_or_else(|| "?".to_owned(), streamed);
            Said::marked(format!("LOCK {broadcaster}/{k}: {says}"), Mark::Promise)
        }
        ctb::Message::Signed { broadcaster, k, .. } => {
            Said::marked(format!("SIGNED {broadcaster}/{k}"), Mark::Promise)
        }
        ctb::Message::Locked { broadcaster, k, promise, .. } => {
            let promised = if *promise { " and WILL_CERTIFY" } else { "" };
            Said::marked(format!("LOCKED {broadcaster}/{k}{promised}"), Mark::Promise)
        }
        ctb::Message::Nack { k } => Said::plain(format!("NACK {broadcaster}/{k}")),
        ctb::Message::Memory(_) => Said::plain("of a register"),
    }
}

/// What a broadcast alone tells.
fn broadcast_told(broadcaster: u32, what: &ctb::Output) -> Said {
    match what {
        ctb::Output::Delivered { k, body } => {
            let digest = synod_crypto::Hash::of(body).short();
            Said::marked(format!("delivers {broadcaster}/{k}: {digest:016x}"), Mark::Commit)
        }
        ctb::Output::Promised { k, by } => {
            Said::plain(format!("counts a promise of {} about {broadcaster}/{k}", by.0))
        }
        ctb::Output::Refused(_) => Said::plain("refuses a message"),
        ctb::Output::Missing { k, .. } => Said::plain(format!("misses the body of {broadcaster}/{k}")),
        ctb::Output::Equivocated(_) => Said::plain(format!("stops {broadcaster}, which signed two messages")),
        ctb::Output::Retired { oldest } => {
            Said::plain(format!("is behind: memory nodes serve e={}", oldest.0))
        }
        ctb::Output::Reborn { memory, boot } => Said::plain(format!("sees memory {memory} with boot {boot}")),
    }
}

fn word(epoch: u32, word: &Word) -> Said {
    let said = match word {
        Word::Ctb { broadcaster, word } => broadcast(*broadcaster, word),
        Word::WillCertify { view, slot, .. } => {
            Said::marked(format!("WILL_CERTIFY v={} s={}", view.0, slot.0), Mark::Promise)
        }
        Word::WillCommit { view, slot, .. } => {
            Said::marked(format!("WILL_COMMIT v={} s={}", view.0, slot.0), Mark::Promise)
        }
        Word::Certify { view, slot, .. } => {
            Said::marked(format!("CERTIFY v={} s={}", view.0, slot.0), Mark::Promise)
        }
        Word::CertifyCheckpoint { checkpoint, .. } => {
            Said::marked(format!("CERTIFY_CP {}", checkpoint.low.0), Mark::Promise)
        }
        Word::CertifySummary { summarized, .. } => {
            Said::marked(format!("CERTIFY_SUMMARY {}/{}", summarized.about, summarized.k), Mark::Promise)
        }
        Word::CertifyLeft { view, about, .. } => {
            Said::marked(format!("CRTFY_VC v={} of {about}", view.0), Mark::Promise)
        }
        Word::Summary(of) => {
            let subject = &of.certificate.subject;
            Said::marked(format!("SUMMARY {}/{}", subject.about, subject.k), Mark::Certificate)
        }
        Word::Hint { view, slot } => Said::plain(format!("HINT v={} s={}", view.0, slot.0)),
        Word::Fetch(want) => Said::plain(format!("FETCH {want:?}")),
        Word::Content { at, total, .. } => Said::plain(format!("CONTENT {at} of {total}B")),
        Word::Checkpoint(of) => Said::marked(format!("CHECKPOINT {}", of.subject.low.0), Mark::Certificate),
        Word::Left(left) => Said::plain(format!("LEFT v={} of {}", left.view.0, left.about)),
    };
    if epoch == 0 { said } else { Said { text: format!("{} e={epoch}", said.text), ..said } }
}

fn message(message: &Message) -> Said {
    let plain = |text: String| Said::plain(text);
    match message {
        Message::Word { epoch, word: of } => word(epoch.0, of),
        Message::Echo { session, id, .. } => plain(format!("ECHO {session}/{id}")),
        Message::Forward { session, id, .. } => plain(format!("SIGNED_REQ {session}/{id}")),
        Message::FetchLog { from } => plain(format!("FETCH log from {}", from.0)),
        Message::Log { from, batches } => plain(format!("LOG from {} of {}", from.0, batches.len())),
        Message::Register { .. } => plain("REGISTER".to_owned()),
        Message::Attach { session, .. } => plain(format!("ATTACH {session}")),
        Message::Ask { session, id, signature, .. } => {
            let signed = if signature.is_some() { ", signed" } else { "" };
            plain(format!("REQ {session}/{id}{signed}"))
        }
        Message::Read { id, .. } => plain(format!("READ {id}")),
        Message::Registered { session, .. } => plain(format!("REGISTERED {session:?}")),
        Message::Reply { session, id, .. } => plain(format!("REPLY {session}/{id}")),
        Message::NeedSigned { session, id } => plain(format!("NEED_SIGNED {session}/{id}")),
        Message::Answer { id, .. } => plain(format!("ANSWER {id}")),
        Message::Hello { incarnation, epoch } => plain(format!("HELLO life {incarnation} e={}", epoch.0)),
        Message::Change(change) => {
            let text = match &**change {
                synod_ubft::epoch::Change::Rejoin { node, incarnation, .. } => {
                    format!("REJOIN {node} life {incarnation}")
                }
                synod_ubft::epoch::Change::Readmit { memory, boot, .. } => {
                    format!("READMIT {memory} boot {boot}")
                }
            };
            plain(text)
        }
        Message::FetchStanding => plain("FETCH standing".to_owned()),
        Message::Standing(standing) => plain(format!("STANDING e={}", standing.configuration.epoch.0)),
        Message::CertifySnapshot { snapshot, .. } => {
            Said::marked(format!("SNAPSHOT {}", snapshot.low.0), Mark::Promise)
        }
        Message::SawBoot { memory, boot, .. } => plain(format!("SAW memory {memory} boot {boot}")),
        Message::FetchChunk { low, part } => plain(format!("FETCH {part:?} of {}", low.0)),
        Message::Chunk { low, part, .. } => plain(format!("CHUNK {part:?} of {}", low.0)),
    }
}

impl Words for UbftWords {
    fn frame(&self, machine: u8, body: &Bytes) -> Option<Said> {
        (machine == REPLICA).then(|| sight::opened(body).as_ref().map(message)).flatten()
    }

    fn output(&self, _: u8, output: &dyn Any) -> Option<Said> {
        if let Some(output) = output.downcast_ref::<Output>() {
            return Some(match output {
                Output::Execute { slot, requests, .. } => {
                    Said::marked(format!("executes s={}: {} requests", slot.0, requests.len()), Mark::Commit)
                }
                Output::Install { low, index, count, .. } => {
                    Said::marked(format!("installs {} of {count} of {}", index + 1, low.0), Mark::Commit)
                }
                Output::Ready(true) => Said::plain("takes part"),
                Output::Ready(false) => Said::plain("is in no epoch"),
                Output::TakeSnapshot { low } => Said::plain(format!("snapshot {}", low.0)),
                Output::Diverged { low } | Output::Irreparable { low } => {
                    Said::plain(format!("executed otherwise up to {}", low.0))
                }
                Output::Broken(slot) => Said::plain(format!("two batches in s={}", slot.0)),
                Output::Stranded { from } => Said::plain(format!("is stranded at {}", from.0)),
                Output::Query { .. } => Said::plain("is read"),
                Output::DropSnapshot { low } => Said::plain(format!("drops snapshot {}", low.0)),
                Output::NeedChunk { low, index, .. } => {
                    Said::plain(format!("needs chunk {index} of {}", low.0))
                }
            });
        }
        if let Some(Of { broadcaster, what }) = output.downcast_ref::<Of<ctb::Output>>() {
            return Some(broadcast_told(broadcaster.0, what));
        }
        output.downcast_ref::<client::Output>().map(|output| match output {
            client::Output::Ready(session) => Said::plain(format!("has session {session}")),
            client::Output::Done { ticket, .. } => {
                Said::marked(format!("believes the result of {ticket}"), Mark::Commit)
            }
            client::Output::Refused { ticket } => Said::plain(format!("refuses {ticket}")),
            client::Output::Unknown { ticket, .. } => Said::plain(format!("gives up {ticket}")),
        })
    }

    fn node(&self, id: NodeId) -> String {
        if id.0 >= CLIENTS { format!("c{}", id.0 - CLIENTS) } else { format!("n{}", id.0) }
    }
}
