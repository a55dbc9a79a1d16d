//! The words of a run: what the roles say and write, as the paper calls it.

use core::any::Any;

use synod_chopchop::client::Output;
use synod_chopchop::message::{ClientMessage, ServerMessage, StoreMessage};
use synod_chopchop::server::ServerOutput;
use synod_chopchop::vocabulary::Message;
use synod_crypto::Hash;
use synod_quorum::NodeId;
use synod_sim::{Mark, Said, Words};
use synod_wire::Bytes;

use super::plan::{BROKERS, CLIENTS, ORDERER};
use super::{sight, strategy};
use crate::oracle::chopchop::Kept;
use crate::sight::REPLICA;
use crate::words::HotStuffWords;

/// Names everything of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChopChopWords;

fn short(digest: &Hash) -> String {
    format!("{digest:?}").chars().take(4).collect()
}

/// The kind of message in a frame.
#[must_use]
pub fn kind(body: &Bytes) -> Option<&'static str> {
    Some(match sight::opened(body)? {
        Message::Client(message) => match message {
            ClientMessage::Submit(_) => "submit",
            ClientMessage::Inclusion(_) => "inclusion",
            ClientMessage::MultiSig { .. } => "multi_sig",
            ClientMessage::Delivery(_) => "delivery",
            ClientMessage::Ack { .. } => "ack",
            ClientMessage::Nack { .. } => "nack",
            ClientMessage::Query { .. } => "query",
            ClientMessage::State(_) => "client_state",
            ClientMessage::SignUp(_) => "sign_up",
            ClientMessage::Signed(_) => "signed",
            ClientMessage::Challenge { .. } => "challenge",
            ClientMessage::Claim { .. } => "claim",
        },
        Message::Store(message) => match message {
            StoreMessage::Batch(_) => "batch",
            StoreMessage::Ask(_) => "ask",
            StoreMessage::Shard(_) => "shard",
            StoreMessage::Refuse(_) => "refuse",
            StoreMessage::Credit(_) => "credit",
            StoreMessage::HeldAsk => "held_ask",
            StoreMessage::Held(_) => "held",
            StoreMessage::Pull(_) => "pull",
            StoreMessage::Piece(_) => "piece",
            StoreMessage::Gone { .. } => "gone",
        },
        Message::Server(message) => match message {
            ServerMessage::Order(_) => "order",
            ServerMessage::Delivered(_) => "delivered",
            ServerMessage::Certify(_) => "certify",
            ServerMessage::HeightAsk(_) => "height_ask",
            ServerMessage::Height(_) => "height",
            ServerMessage::StateAsk(_) => "state_ask",
            ServerMessage::State(_) => "state",
            ServerMessage::DirPull { .. } => "dir_pull",
            ServerMessage::Cards(_) => "cards",
            ServerMessage::Mark(_) => "mark",
            ServerMessage::Transfer(_) => "transfer",
        },
        Message::Ordering(never) => match never {},
    })
}

fn client(message: &ClientMessage) -> Said {
    match message {
        ClientMessage::Submit(submit) => {
            Said::marked(format!("SUBMIT k0={} of client {}", submit.k0, submit.id), Mark::Promise)
        }
        ClientMessage::Inclusion(shown) => {
            let closed = if shown.closed { ", closed" } else { "" };
            Said::plain(format!("INCLUSION k={} of {} entries{closed}", shown.k, shown.shape.count))
        }
        ClientMessage::MultiSig { id, .. } => Said::marked(format!("MULTISIG of client {id}"), Mark::Promise),
        ClientMessage::Delivery(delivery) => {
            let text = format!("DELIVERY h={} {} exceptions", delivery.height, delivery.exc_count);
            Said::marked(text, Mark::Certificate)
        }
        ClientMessage::Nack { why, .. } => Said::plain(format!("NACK {why:?}")),
        ClientMessage::State(state) => Said::plain(format!("STATE next_k={}", state.next_k)),
        ClientMessage::Signed(signed) => Said::plain(format!("SIGNED id={}", signed.id)),
        ClientMessage::Ack { height } => Said::plain(format!("ACK h={height}")),
        ClientMessage::Query { .. } => Said::plain("QUERY"),
        ClientMessage::SignUp(_) => Said::plain("SIGNUP"),
        ClientMessage::Challenge { .. } => Said::plain("CHALLENGE"),
        ClientMessage::Claim { .. } => Said::plain("CLAIM"),
    }
}

fn store(message: &StoreMessage) -> Said {
    match message {
        StoreMessage::Batch(upload) => {
            let asks = if upload.asks() { ", asks" } else { "" };
            match upload.as_messages() {
                Some(sealed) => {
                    Said::plain(format!("BATCH k={} of {}{asks}", sealed.header.k, sealed.header.count))
                }
                None => Said::plain(format!("BATCH of cards{asks}")),
            }
        }
        StoreMessage::Ask(digest) => Said::plain(format!("ASK {}", short(digest))),
        StoreMessage::Shard(shard) => {
            Said::marked(format!("SHARD of {}", short(&shard.digest)), Mark::Promise)
        }
        StoreMessage::Refuse(refused) => {
            Said::plain(format!("REFUSE {} {:?}", short(&refused.digest), refused.why))
        }
        StoreMessage::Credit(credit) => Said::plain(format!("CREDIT {}B H={}", credit.bytes, credit.height)),
        StoreMessage::HeldAsk => Said::plain("HELD?"),
        StoreMessage::Held(held) => Said::plain(format!("HELD {}", held.len())),
        StoreMessage::Pull(pull) => Said::plain(format!("PULL {}", short(&pull.digest))),
        StoreMessage::Piece(piece) => {
            Said::plain(format!("PIECE of {} {}B", short(&piece.digest), piece.bytes.len()))
        }
        StoreMessage::Gone { digest, stable } => {
            Said::plain(format!("GONE {} stable h={stable}", short(digest)))
        }
    }
}

fn server(message: &ServerMessage) -> Said {
    match message {
        ServerMessage::Order(item) => {
            Said::marked(format!("ORDER {}", short(item.digest())), Mark::Certificate)
        }
        ServerMessage::Delivered(verdict) => {
            let said = &verdict.statement;
            let text =
                format!("DELIVERED h={} {} {} exceptions", said.height, short(&said.digest), said.exc_count);
            Said::marked(text, Mark::Promise)
        }
        ServerMessage::Certify(digest) => Said::plain(format!("CERTIFY {}", short(digest))),
        ServerMessage::HeightAsk(ask) => Said::plain(format!("HEIGHT? {}", ask.height)),
        ServerMessage::Height(signed) => {
            Said::marked(format!("HEIGHT {}", signed.statement.height), Mark::Promise)
        }
        ServerMessage::StateAsk(ask) => Said::plain(format!("STATE? client {}", ask.id)),
        ServerMessage::State(signed) => {
            let (id, next_k) = (signed.statement.id, signed.statement.next_k);
            Said::marked(format!("STATE of client {id} next_k={next_k}"), Mark::Promise)
        }
        ServerMessage::DirPull { from } => Said::plain(format!("DIR_PULL from {from}")),
        ServerMessage::Cards(cards) => {
            Said::plain(format!("CARDS {} of {}", cards.members.len(), cards.length))
        }
        ServerMessage::Mark(mark) => Said::marked(format!("MARK h={}", mark.height), Mark::Promise),
        ServerMessage::Transfer(_) => Said::plain("part of a state"),
    }
}

/// What replicas of the ordering layer say.
fn ordering(body: &Bytes) -> Said {
    let inside = strategy::bare(body).and_then(|bare| HotStuffWords.frame(REPLICA, &bare));
    inside.unwrap_or_else(|| Said::plain(format!("order {}B", body.len())))
}

impl Words for ChopChopWords {
    fn frame(&self, _: u8, body: &Bytes) -> Option<Said> {
        Some(match sight::opened(body) {
            Some(Message::Client(message)) => client(&message),
            Some(Message::Store(message)) => store(&message),
            Some(Message::Server(message)) => server(&message),
            _ => ordering(body),
        })
    }

    fn record(&self, machine: u8, record: &Bytes) -> Option<Said> {
        let kept = match machine {
            super::plan::STORE => sight::of_store(record)?,
            super::plan::SERVER => sight::of_server(record)?,
            super::plan::CLIENT => {
                let promise = sight::of_client(record)?;
                let flight = promise.flight.map_or(String::new(), |(k, ..)| format!(", in flight k0={k}"));
                return Some(Said::marked(format!("Next({}{flight})", promise.next_k), Mark::Promise));
            }
            _ => return None,
        };
        Some(match kept {
            Kept::Pinned(digest) => Said::marked(format!("Pinned({})", short(&digest)), Mark::Promise),
            Kept::Released(digest) => Said::plain(format!("Released({})", short(&digest))),
            Kept::Mark(height) => Said::marked(format!("Mark(h={height})"), Mark::Promise),
        })
    }

    fn output(&self, _: u8, output: &dyn Any) -> Option<Said> {
        if let Some(output) = output.downcast_ref::<ServerOutput>() {
            return Some(match output {
                ServerOutput::Apply(apply) => {
                    let (height, count) = (apply.height, apply.batch.header().count);
                    let lost = apply.exceptions.exc_count();
                    let text = format!("delivers h={height}: {count} entries, {lost} exceptions");
                    Said::marked(text, Mark::Commit)
                }
                ServerOutput::Checkpoint { height, .. } => Said::plain(format!("checkpoint h={height}")),
                ServerOutput::Jump { height, .. } => {
                    Said::marked(format!("jumps to h={height}"), Mark::Commit)
                }
                ServerOutput::FalseWitness { .. } => Said::plain("a false witness"),
                ServerOutput::Store(_) => Said::plain("to the store"),
            });
        }
        output.downcast_ref::<Output>().map(|output| match output {
            Output::Delivered { tokens, receipt } => {
                let proof = if receipt.is_some() { "with a receipt" } else { "the same again" };
                Said::marked(format!("is told that {tokens:?} is delivered, {proof}"), Mark::Commit)
            }
            Output::Refused { why, .. } => Said::plain(format!("refuses: {why}")),
            Output::SignedUp { id } => Said::marked(format!("is client {id}"), Mark::Commit),
            Output::CardRefused => Said::plain("its card has no id"),
            Output::Resynced { next_k } => Said::plain(format!("stands at {next_k}")),
        })
    }

    fn node(&self, id: NodeId) -> String {
        match id.0 {
            0..BROKERS => format!("s{}", id.0),
            BROKERS..CLIENTS => format!("b{}", id.0 - BROKERS),
            _ if id == ORDERER => "order".to_owned(),
            _ => format!("c{}", id.0 - CLIENTS),
        }
    }
}
