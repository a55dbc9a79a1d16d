//! Golden lines: one for each thing said, written, delivered or entered, short enough to be read like prose.

use synod_crypto::Hash;
use synod_hotstuff::{Header, Message, Proof, Qc, Record, Replica, Tc};
use synod_machine::broadcast::Delivered;
use synod_machine::{Effect, To};

use super::World;

impl World {
    /// Adds a line with the virtual time.
    pub(crate) fn trace_line(&mut self, text: String) {
        let millis = self.now.0 / 1_000_000;
        let micros = self.now.0 / 1_000 % 1_000;
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{millis:>6}.{micros:03}  {text}"));
        }
    }

    /// Adds what an effect says, if readers want to know.
    pub(crate) fn trace_effect(&mut self, id: u32, effect: &Effect<Replica>) {
        if self.lines.is_none() {
            return;
        }
        let waits = self.seat(id).synced < self.seat(id).journal.len();
        if waits && matches!(effect, Effect::Send { .. } | Effect::Output(_)) {
            self.trace_line(format!("n{id} syncs"));
        }
        let text = match effect {
            Effect::Send { to, message } => format!("n{id} -> {}  {}", receivers(*to), spoken(message)),
            Effect::Persist(record) => format!("n{id} writes  {}", written(record)),
            Effect::Store { name, bytes } => {
                format!("n{id} stores  body {} of {} B", short(name), bytes.len())
            }
            Effect::Output(output) => format!("n{id} tells   {}", told(output)),
            Effect::Blame { peer, fault } => format!("n{id} blames  n{} for {}", peer.0, fault.name),
            Effect::Note(note) if note.name == "view_entered" => {
                let [view, why, leader, _] = note.values;
                let why = match why {
                    0 => "at the start",
                    1 => "by a QC",
                    _ => "by a TC",
                };
                format!(
                    "n{id} enters  view {view} {why}, leader {}",
                    if leader < 128 { format!("n{leader}") } else { "unknown".to_owned() }
                )
            }
            _ => return,
        };
        self.trace_line(text);
    }
}

/// Eight digits of a digest.
pub(crate) fn short(digest: &Hash) -> String {
    digest.0.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

fn receivers(to: To) -> String {
    match to {
        To::Node(node) => format!("n{}", node.0),
        To::Set(set) => set.iter().map(|node| format!("n{}", node.0)).collect::<Vec<_>>().join(","),
    }
}

fn qc(qc: &Qc) -> String {
    if qc.view.0 == 0 {
        "QC(genesis)".to_owned()
    } else {
        format!("QC({} v{} {})", kind(qc), qc.view.0, short(&qc.digest))
    }
}

fn kind(qc: &Qc) -> String {
    format!("{:?}", qc.kind).to_lowercase()
}

fn tc(tc: &Tc) -> String {
    format!("TC(v{} of {}, high v{})", tc.view.0, tc.complaints.len(), tc.high.view.0)
}

fn header(header: &Header) -> String {
    let evidence = header.tc.as_ref().map_or(String::new(), |t| format!(" and {}", tc(t)));
    let items = match header.count {
        0 => "empty".to_owned(),
        1 => "1 item".to_owned(),
        count => format!("{count} items"),
    };
    let (digest, parent) = (short(&header.digest()), qc(&header.justify));
    format!("block {digest} v{} h{} {items}, on {parent}{evidence}", header.view.0, header.height)
}

fn spoken(message: &Message) -> String {
    match message {
        Message::Propose { header: h, .. } => format!("Propose {}", header(h)),
        Message::Body { view, root, bytes } => {
            format!("Body v{} root {} {} B", view.0, short(root), bytes.len())
        }
        Message::Vote { kind, view, digest, .. } => {
            format!("Vote {} v{} {}", format!("{kind:?}").to_lowercase(), view.0, short(digest))
        }
        Message::Order { view, digest, .. } => format!("Order v{} {}", view.0, short(digest)),
        Message::Phase(certificate) => format!("Phase {}", qc(certificate)),
        Message::NewView { view, high } => format!("NewView v{} with {}", view.0, qc(high)),
        Message::Complain { view, high, .. } => format!("Complain v{} with {}", view.0, qc(high)),
        Message::Advance(Proof::Tc(t)) => format!("Advance {}", tc(t)),
        Message::Advance(Proof::Qc(certificate)) => format!("Advance {}", qc(certificate)),
        Message::Advance(Proof::Commit(proof)) => {
            format!("Advance commit of v{} {}", proof.header.view.0, short(&proof.header.digest()))
        }
        Message::Status(status) => format!("Status h{} {}", status.height, qc(&status.high)),
        Message::Fetch(want) => {
            format!("Fetch {}", format!("{want:?}").split(['(', ' ']).next().unwrap_or(""))
        }
        Message::Blocks(blocks) => {
            format!("Blocks {} headers, {} bodies", blocks.headers.len(), blocks.bodies.len())
        }
        Message::Forward(items) => format!("Forward {} items", items.len()),
        Message::Attest { state, .. } => format!("Attest position {}", state.position.0),
    }
}

fn written(record: &Record) -> String {
    match record {
        Record::Safety(s) => format!(
            "Safety voted v{} proposed v{} ordered v{} complained v{} lock v{} high v{} tc v{}",
            s.voted.view.0,
            s.proposed.view.0,
            s.ordered.view.0,
            s.complained.0,
            s.lock.view.0,
            s.high.view.0,
            s.tc.0
        ),
        Record::Qc(certificate) => qc(certificate),
        Record::Tc(t) => tc(t),
        Record::Block { header, .. } => format!("block {} v{}", short(&header.digest()), header.view.0),
        Record::Commit { digest, last } => format!("Commit {} up to position {}", short(digest), last.0),
        Record::Checkpoint(anchor) => format!("Checkpoint at {}", anchor.certificate.state().position.0),
        Record::Listening => "Listening".to_owned(),
        Record::Rejoined => "Rejoined".to_owned(),
        Record::Stopped(stopped) => format!("Stopped {:?} at {}", stopped.why, stopped.at),
    }
}

fn told(output: &Delivered) -> String {
    match output {
        Delivered::Entry(entry) => {
            let payload = String::from_utf8_lossy(&entry.payload);
            format!(
                "entry {} {payload:?}{}",
                entry.position.0,
                if entry.last { ", the last of its block" } else { "" }
            )
        }
        Delivered::Stable(checkpoint) => format!("stable {}", checkpoint.position.0),
        Delivered::Jump(checkpoint) => format!("jump to {}", checkpoint.position.0),
        Delivered::Proof { position, proof } => {
            format!("proof of {}: {}", position.0, if proof.is_some() { "given" } else { "none" })
        }
        Delivered::Barrier(ticket) => format!("barrier {}", ticket.0),
        Delivered::Refused { ticket, .. } => format!("refused {}", ticket.0),
    }
}
