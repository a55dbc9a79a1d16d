//! Lies to those who catch up, and to clients.

use synod_crypto::Hash;
use synod_hotstuff::{Blocks, Message, Status, View};
use synod_machine::broadcast::{Position, Submit};
use synod_machine::{Message as _, To, Wall};
use synod_quorum::NodeId;
use synod_service::{Answered, ClientMessage, ExecutorOutput, Part, Reply, StateChunk, StateSummary};
use synod_sim::{Act, Deed};
use synod_wire::{Bytes, Limits, Wire, Writer};

use super::liar::{Edited, Lie, Move};

/// Name of the number that tells colluders the last checkpoint.
const CHECKPOINT: &str = "checkpoint";

/// Answers ranges with holes, statuses with false heights.
pub(super) struct FalseBlocks;

impl Move for FalseBlocks {
    fn play(&mut self, lie: &mut Lie<'_, '_>) -> bool {
        let choice = lie.act.draws.draw();
        lie.edit(|_, _, message| match message {
            Message::Blocks(blocks) => {
                let mut headers: Vec<_> = blocks.headers.iter().cloned().collect();
                let mut bodies: Vec<_> = blocks.bodies.iter().cloned().collect();
                let at = usize::try_from(choice / 4 % (headers.len().max(1) as u64)).unwrap_or(0);
                match choice % 4 {
                    0 if headers.len() > 1 => drop(headers.remove(at.min(headers.len() - 2))),
                    1 if !bodies.is_empty() => bodies.clear(),
                    2 => headers.reverse(),
                    _ => return Edited::Nothing,
                }
                let (Ok(headers), Ok(bodies)) = (headers.try_into(), bodies.try_into()) else {
                    return Edited::Nothing;
                };
                Edited::Other(vec![Message::Blocks(Blocks { headers, bodies, ..blocks })])
            }
            Message::Status(status) => {
                let (height, view) = (status.height + choice % 5_000, View(status.view.0 + choice % 3));
                Edited::Other(vec![Message::Status(Status { height, view, ..status })])
            }
            _ => Edited::Same,
        })
    }
}

/// The executor of a liar answers clients falsely, and keeps chunks of state to itself; or it only denies to readers what
/// it confirms to those who wrote it.
pub(super) fn lie(act: &mut Act<'_>, name: &str, readers_only: bool) -> bool {
    let choice = act.draws.below(4);
    if choice == 0 || name == "byz.B1" {
        return false;
    }
    act.split_sends();
    let mut changed = !readers_only && invent(act);
    for deed in act.deeds.iter_mut() {
        if let Deed::Send { to: To::Node(_), body, .. } = deed
            && let Some(other) = altered(body, readers_only)
        {
            *body = other;
            changed = true;
        }
    }
    changed
}

/// Sends a state of its own invention, unasked, to a member that may be fetching that of the last checkpoint.
fn invent(act: &mut Act<'_>) -> bool {
    for deed in act.deeds.iter() {
        let Deed::Output(output) = deed else { continue };
        if let Some(ExecutorOutput::Submit(Submit::Applied { position, root: Some(_) })) =
            output.downcast_ref()
        {
            act.board.numbers.insert(CHECKPOINT.to_owned(), position.0);
        }
    }
    let Some(position) = act.board.numbers.get(CHECKPOINT).copied().map(Position) else { return false };
    let members: Vec<NodeId> = act.peers.iter().copied().filter(|peer| peer.is_member()).collect();
    let choice = act.draws.draw();
    let Some(to) = act.draws.pick(&members).copied() else { return false };
    let root = Hash::of(&choice.to_le_bytes());
    let time = Wall(choice >> 24);
    let summary = StateSummary {
        position,
        time,
        app_root: root,
        app_chunks: 1,
        sessions_root: root,
        sessions_chunks: 1,
    };
    let Ok(bytes) = summary.encode().try_into() else { return false };
    let chunk = StateChunk { position, part: Part::Summary, bytes, path: synod_wire::List::default() };
    let message = ClientMessage::StateChunk(chunk);
    act.inject(to, message.queue(), sealed(&message));
    true
}

fn sealed(message: &ClientMessage) -> Bytes {
    let mut out = Writer::with_capacity(1 + message.size_hint());
    out.byte(ClientMessage::VERSION);
    message.write(&mut out);
    out.freeze()
}

/// The frame with every result changed, or that of a read alone; `None` when it holds none.
fn altered(body: &Bytes, readers_only: bool) -> Option<Bytes> {
    let limits = Limits { frame_max: 16 << 20 };
    let message = (body.first() == Some(&ClientMessage::VERSION))
        .then(|| ClientMessage::decode(body.slice(1..), &limits).ok())
        .flatten()?;
    let message = match message {
        ClientMessage::Answer(mut answer) => {
            let Answered::Body(value) = &answer.value else { return None };
            answer.value = Answered::Body(earlier(value)?.try_into().ok()?);
            ClientMessage::Answer(answer)
        }
        _ if readers_only => return None,
        ClientMessage::Replies(mut batch) => {
            let mut replies: Vec<Reply> = batch.replies.iter().cloned().collect();
            for reply in &mut replies {
                match reply {
                    Reply::Executed { answer, .. } => *answer = falsified(answer)?,
                    Reply::Opened { session, .. } => *session += 1,
                    Reply::Refused { .. } => {}
                }
            }
            batch.replies = replies.try_into().ok()?;
            ClientMessage::Replies(batch)
        }
        ClientMessage::StateChunk(mut chunk) => {
            chunk.bytes = flipped(&chunk.bytes)?.try_into().ok()?;
            ClientMessage::StateChunk(chunk)
        }
        _ => return None,
    };
    Some(sealed(&message))
}

fn flipped(bytes: &[u8]) -> Option<Bytes> {
    let mut bytes = bytes.to_vec();
    *bytes.last_mut()? ^= 1;
    Some(Bytes::from(bytes))
}

/// The answer to a read as it was one command ago: the application counts what it executed.
fn earlier(value: &[u8]) -> Option<Bytes> {
    let count = u64::from_le_bytes(value.try_into().ok()?);
    Some(Bytes::copy_from_slice(&count.checked_sub(1)?.to_le_bytes()))
}

fn falsified(answer: &Answered) -> Option<Answered> {
    Some(match answer {
        Answered::Digest(digest) | Answered::Gone(digest) => {
            let mut other = *digest;
            other.0[0] ^= 1;
            Answered::Digest(other)
        }
        Answered::Body(body) => Answered::Body(flipped(body)?.try_into().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::{altered, sealed};
    use synod_machine::broadcast::Position;
    use synod_service::{Answer, Answered, ClientMessage};
    use synod_wire::Bytes;

    fn answer(count: u64) -> Bytes {
        let value = Answered::Body(Bytes::copy_from_slice(&count.to_le_bytes()).try_into().expect("short"));
        sealed(&ClientMessage::Answer(Answer { id: 1, executed: Position(9), understood: true, value }))
    }

    #[test]
    fn readers_hear_what_was_true_one_command_ago() {
        for readers_only in [false, true] {
            assert_eq!(altered(&answer(7), readers_only), Some(answer(6)));
            assert_eq!(altered(&answer(0), readers_only), None, "nothing was before the first command");
        }
    }
}
