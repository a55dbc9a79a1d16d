//! The words of a HotStuff run: what replicas, executors and clients say, write and tell, as the papers call it.

use core::any::Any;

use synod_crypto::Hash;
use synod_hotstuff::{
    Commitment, Header, Kind, Mark as Slot, Message, Proof, Qc, Record, Safety, Tc, View, Want,
};
use synod_machine::Message as _;
use synod_machine::broadcast::{Delivered, Submit};
use synod_quorum::NodeId;
use synod_service::{ClientMessage, ClientOutput, ExecutorOutput, Outcome};
use synod_sim::{Mark, Said, Words};
use synod_wire::{Bytes, Limits, Wire};

use crate::book::GUESTS;
use crate::cells;
use crate::sight::{REPLICA, opened, recalled};

/// Names everything of a HotStuff run.
#[derive(Clone, Copy, Debug, Default)]
pub struct HotStuffWords;

impl Words for HotStuffWords {
    fn frame(&self, machine: u8, body: &Bytes) -> Option<Said> {
        if machine == REPLICA {
            opened(body).map(|message| said(&message))
        } else {
            Some(service(machine, body))
        }
    }

    fn record(&self, machine: u8, record: &Bytes) -> Option<Said> {
        if machine == REPLICA { recalled(record).map(|record| written(&record)) } else { None }
    }

    fn output(&self, _machine: u8, output: &dyn Any) -> Option<Said> {
        if let Some(delivered) = output.downcast_ref::<Delivered>() {
            return Some(told(delivered));
        }
        if let Some(output) = output.downcast_ref::<ExecutorOutput>() {
            return Some(match output {
                ExecutorOutput::Submit(Submit::Applied { position, .. }) => {
                    Said::plain(format!("executed up to position {}", position.0))
                }
                ExecutorOutput::Submit(_) => Said::plain("hands on an item to be ordered"),
                ExecutorOutput::Stable(_) => Said::plain("checkpoint"),
                ExecutorOutput::Proof { .. } | ExecutorOutput::Status(_) => Said::plain("an answer"),
            });
        }
        output.downcast_ref::<ClientOutput>().map(|output| match output {
            ClientOutput::Ready { session } => Said::plain(format!("session {session} is open")),
            ClientOutput::Outcome { id, outcome, .. } => {
                let name = format!("{}.{}", id.session, id.sequence);
                match outcome {
                    Outcome::Accepted { .. } => {
                        Said::marked(format!("believes that {name} was executed"), Mark::Commit)
                    }
                    Outcome::Rejected(_) => {
                        Said::marked(format!("believes that {name} never will be"), Mark::Commit)
                    }
                    Outcome::Unknown(..) => Said::plain(format!("does not know what became of {name}")),
                }
            }
            ClientOutput::Closed => Said::plain("closed"),
        })
    }

    fn node(&self, id: NodeId) -> String {
        if id.0 < GUESTS { format!("n{}", id.0) } else { format!("c{}", id.0 - GUESTS) }
    }
}

/// A block in a few letters.
fn block(digest: Hash) -> String {
    format!("{digest:?}").chars().take(4).collect()
}

const fn phase(kind: Kind) -> &'static str {
    match kind {
        Kind::Prepare => "prepare ",
        Kind::Precommit => "pre-commit ",
        Kind::Commit => "commit ",
        Kind::Generic | Kind::Order => "",
    }
}

fn members(of: impl Iterator<Item = NodeId>) -> String {
    let names: Vec<String> = of.map(|id| id.0.to_string()).collect();
    names.join(",")
}

/// A certificate: kind, view, block and who signed.
fn qc(qc: &Qc) -> String {
    if qc.view == View::GENESIS {
        return "genesis".to_owned();
    }
    let name = if qc.kind == Kind::Order { "order QC" } else { "QC" };
    let signers = members(qc.votes.signers().iter());
    format!("{}{name} v={} block {} of {{{signers}}}", phase(qc.kind), qc.view.0, block(qc.digest))
}

/// A certificate by kind and view.
fn short(of: &Qc) -> String {
    if of.view == View::GENESIS { "genesis".to_owned() } else { format!("QC v={}", of.view.0) }
}

fn tc(tc: &Tc) -> String {
    format!("TC v={} of {{{}}} high v={}", tc.view.0, members(tc.signers().iter()), tc.high.view.0)
}

fn header(header: &Header) -> String {
    let why = header.tc.as_ref().map_or_else(String::new, |given| format!(" after {}", tc(given)));
    format!(
        "v={} h={} block {} on {} ({}){why}",
        header.view.0,
        header.height,
        block(header.digest()),
        block(header.parent),
        short(&header.justify)
    )
}

fn said(message: &Message) -> Said {
    let promise = |text: String| Said::marked(text, Mark::Promise);
    let certificate = |text: String| Said::marked(text, Mark::Certificate);
    match message {
        Message::Propose { header: of, .. } => promise(format!("proposal {}", header(of))),
        Message::Body { view, bytes, .. } => Said::plain(format!("body v={} {}B", view.0, bytes.len())),
        Message::Vote { kind, view, digest, .. } => {
            promise(format!("{}vote v={} block {}", phase(*kind), view.0, block(*digest)))
        }
        Message::Order { view, digest, .. } => {
            promise(format!("order vote v={} block {}", view.0, block(*digest)))
        }
        Message::Phase(of) => certificate(qc(of)),
        Message::NewView { view, high } => Said::plain(format!("new view v={} high {}", view.0, short(high))),
        Message::Complain { view, high, .. } => {
            promise(format!("complaint v={} high {}", view.0, short(high)))
        }
        Message::Advance(proof) => certificate(proven(proof)),
        Message::Status(status) => Said::plain(format!(
            "status h={} v={} high {}",
            status.height,
            status.view.0,
            short(&status.high)
        )),
        Message::Fetch(want) => Said::plain(format!("question for {}", wanted(want))),
        Message::Blocks(blocks) => {
            let names: Vec<String> = blocks.headers.iter().map(|header| block(header.digest())).collect();
            Said::plain(format!("blocks {} and {} bodies", names.join(","), blocks.bodies.len()))
        }
        Message::Forward(items) => Said::plain(format!("{} forwarded items", items.len())),
        Message::Attest { state, .. } => Said::plain(format!("attestation of position {}", state.position.0)),
    }
}

fn proven(proof: &Proof) -> String {
    match proof {
        Proof::Tc(given) => tc(given),
        Proof::Qc(of) => qc(of),
        Proof::Commit(proof) => {
            let how = match &proof.commitment {
                Commitment::Direct(_) => "",
                Commitment::TwoChain { .. } => "two-chain, ",
                Commitment::ThreeChain { .. } => "three-chain, ",
            };
            format!(
                "commit proof of block {} ({how}{})",
                block(proof.header.digest()),
                qc(proof.commitment.qc())
            )
        }
    }
}

fn wanted(want: &Want) -> String {
    match want {
        Want::Range { from, count } => format!("{count} blocks from h={from} on"),
        Want::Blocks(digests) => {
            format!("blocks {}", digests.iter().map(|digest| block(*digest)).collect::<Vec<_>>().join(","))
        }
        Want::Bodies(roots) => format!("{} bodies", roots.len()),
        Want::Certificate(view) => format!("the certificate of v={}", view.0),
        Want::Proof => "the newest commit proof".to_owned(),
        Want::Status => "the status".to_owned(),
    }
}

fn written(record: &Record) -> Said {
    match record {
        Record::Safety(safety) => Said::marked(format!("Safety({})", promises(safety)), Mark::Promise),
        Record::Qc(of) => Said::marked(qc(of), Mark::Certificate),
        Record::Tc(given) => Said::marked(tc(given), Mark::Certificate),
        Record::Block { header: of, .. } => {
            Said::plain(format!("block {} v={} h={}", block(of.digest()), of.view.0, of.height))
        }
        Record::Commit { digest, last } => Said::marked(
            format!("commit of block {} up to position {}", block(*digest), last.0),
            Mark::Commit,
        ),
        Record::Checkpoint(anchor) => {
            Said::plain(format!("checkpoint at position {}", anchor.certificate.state().position.0))
        }
        Record::Listening => Said::plain("listening"),
        Record::Rejoined => Said::plain("rejoined"),
        Record::Stopped(stopped) => Said::plain(format!("stopped: {:?} at {}", stopped.why, stopped.at)),
    }
}

/// What a safety record promises, without what is still as in the beginning.
fn promises(safety: &Safety) -> String {
    let slot = |name: &str, slot: &Slot| {
        (slot.view != View::GENESIS).then(|| format!("{name} v={} {}", slot.view.0, block(slot.digest)))
    };
    let view = |name: &str, view: View| (view != View::GENESIS).then(|| format!("{name} v={}", view.0));
    let voted = format!("{}voted", phase(safety.phase));
    let parts: Vec<String> = [
        slot(&voted, &safety.voted),
        slot("proposed", &safety.proposed),
        slot("ordered", &safety.ordered),
        view("complained", safety.complained),
        slot("lock", &safety.lock),
        slot("high", &safety.high),
    ]
    .into_iter()
    .flatten()
    .collect();
    parts.join(", ")
}

fn told(delivered: &Delivered) -> Said {
    match delivered {
        Delivered::Entry(entry) => {
            let content = block(crate::sight::content(entry));
            let text = format!("delivers position {} entry {content}", entry.position.0);
            Said::marked(text, Mark::Commit)
        }
        Delivered::Jump(checkpoint) => {
            Said::marked(format!("jumps behind position {}", checkpoint.position.0), Mark::Commit)
        }
        Delivered::Stable(checkpoint) => {
            Said::plain(format!("checkpoint at position {} is stable", checkpoint.position.0))
        }
        Delivered::Proof { .. } | Delivered::Barrier(_) => Said::plain("an answer"),
        Delivered::Refused { .. } => Said::plain("an item is refused"),
    }
}

/// What executors and clients say.
fn service(machine: u8, body: &Bytes) -> Said {
    let kind = cells::kind(machine, body).unwrap_or("unreadable frame").replace('_', " ");
    let limits = Limits { frame_max: 16 << 20 };
    let message = (body.first() == Some(&ClientMessage::VERSION))
        .then(|| ClientMessage::decode(body.slice(1..), &limits).ok())
        .flatten();
    Said::plain(match message {
        Some(ClientMessage::Item(item)) => format!("item of {}B", item.len()),
        Some(ClientMessage::Attach(attach)) => format!("attach session {}", attach.session),
        Some(ClientMessage::Replies(batch)) => format!("{} replies", batch.replies.len()),
        _ => kind,
    })
}
