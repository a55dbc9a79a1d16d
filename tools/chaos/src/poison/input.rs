//! The inputs, by index.

use synod_fuzz::input::generate;
use synod_fuzz::{Target, find};
use synod_hotstuff::Message;
use synod_machine::Message as Spoken;
use synod_net::foreign;
use synod_service::ClientMessage;
use synod_wire::{Drawn, Limits, Wire};

/// The ordering machine of a node.
const REPLICA: u8 = 0;
/// The executing machine of a node.
const EXECUTOR: u8 = 1;
/// Longest gateway request.
const REQUEST_MAX: usize = 16 << 10;

/// By which door an input comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A faulty member's link.
    Member,
    /// A client's link.
    Guest,
    /// A Redis client.
    Resp,
    /// A browser or script.
    Http,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Member, Self::Guest, Self::Resp, Self::Http];
}

/// One input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// What is written.
    pub bytes: Vec<u8>,
    /// Whether it was drawn whole, so that a node must look into it, and not cut or flipped afterwards.
    pub whole: bool,
}

impl Input {
    /// The input `index` of `way` under `seed`; equal arguments give equal inputs.
    #[must_use]
    pub fn draw(way: Way, seed: u64, index: u64) -> Self {
        let mut from = Drawn::new(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        match way {
            // Of ten frames of a member one is not whole, and one in eighty of these breaks the framing itself.
            Way::Member => member(&mut from, seed, index),
            Way::Guest => guest(&mut from, seed, index),
            Way::Resp => Self { bytes: mutated("resp-parser", seed, index), whole: false },
            Way::Http => Self { bytes: request(&mut from, seed, index), whole: false },
        }
    }
}

fn target(name: &str) -> Option<&'static Target> {
    find(name)
}

fn mutated(name: &str, seed: u64, index: u64) -> Vec<u8> {
    let mut bytes = target(name).map(|target| generate(target, seed, index)).unwrap_or_default();
    bytes.truncate(REQUEST_MAX);
    bytes
}

fn whole(name: &str, from: &mut Drawn) -> Vec<u8> {
    target(name).map(|target| (target.seed)(from)).unwrap_or_default()
}

fn framed(machine: u8, queue: u8, body: &[u8], whole: bool) -> Input {
    Input { bytes: foreign::frame(machine, queue, body).unwrap_or_default(), whole }
}

fn queue(from: &mut Drawn) -> u8 {
    u8::try_from(from.below(3)).unwrap_or(0)
}

fn member(from: &mut Drawn, seed: u64, index: u64) -> Input {
    let queue = queue(from);
    match index % 10 {
        9 if index % 80 == 79 => Input { bytes: broken(from), whole: false },
        9 => framed(REPLICA, queue, &versioned::<Message>(&mutated("hotstuff-message", seed, index)), false),
        7 | 8 => spoken::<ClientMessage>(EXECUTOR, &whole("service-message", from)),
        _ => spoken::<Message>(REPLICA, &whole("hotstuff-message", from)),
    }
}

/// A message on its own queue: on another one it counts as a frame that does not decode.
fn spoken<M: Wire + Spoken>(machine: u8, body: &[u8]) -> Input {
    let message = M::decode(body.to_vec().into(), &Limits::default());
    let queue = message.as_ref().map_or(0, |message| message.queue().0);
    framed(machine, queue, &versioned::<M>(body), message.is_ok())
}

/// A body as links carry it: the version of the vocabulary comes first.
fn versioned<M: Spoken>(body: &[u8]) -> Vec<u8> {
    [&[M::VERSION], body].concat()
}

fn guest(from: &mut Drawn, seed: u64, index: u64) -> Input {
    let queue = queue(from);
    match index % 4 {
        0 => framed(
            EXECUTOR,
            queue,
            &versioned::<ClientMessage>(&mutated("service-message", seed, index)),
            false,
        ),
        1 if index % 32 == 1 => Input { bytes: broken(from), whole: false },
        1 => framed(EXECUTOR, queue, &mutated("service-item", seed, index), false),
        _ => spoken::<ClientMessage>(EXECUTOR, &whole("service-message", from)),
    }
}

/// A header that lies: about the length, the queue, the machine or its flags.
fn broken(from: &mut Drawn) -> Vec<u8> {
    let length = [0, 1, 64 << 10, 4 << 20, 16 << 20, (16 << 20) + 1, u32::MAX];
    let at = usize::try_from(from.below(length.len() as u64)).unwrap_or(0);
    let [a, b, c, d] = length[at].to_le_bytes();
    let [queue, machine, flags, ..] = from.next().to_le_bytes();
    let machine = [REPLICA, EXECUTOR, machine, foreign::LINK][usize::from(flags & 3)];
    let flag = if flags & 0x0c == 0 { flags | 1 } else { 0 };
    vec![a, b, c, d, queue & 3, machine, flag, 0, 1, 2, 3, 4]
}

fn request(from: &mut Drawn, seed: u64, index: u64) -> Vec<u8> {
    let routes = ["/v1/txn", "/v1/kv/a", "/v1/kv/%", "/v1/kv", "/v1/watch", "/healthz", "/", "*", "/../x"];
    let verbs = ["GET", "PUT", "POST", "DELETE", "PRI", "g", ""];
    let (route, verb) = (pick(from, &routes), pick(from, &verbs));
    let name = pick(from, &["http-transaction", "http-value", "http-percent", "http-problem", "resp-parser"]);
    let body = mutated(name, seed, index);
    let length = match from.below(4) {
        0 => body.len().to_string(),
        1 => "18446744073709551616".to_owned(),
        2 => "-1".to_owned(),
        _ => body.len().saturating_add(7).to_string(),
    };
    if index % 5 == 4 {
        // No request at all.
        return body;
    }
    let head = format!("{verb} {route} HTTP/1.1\r\nHost: synod\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), &body].concat()
}

fn pick<'a>(from: &mut Drawn, of: &[&'a str]) -> &'a str {
    let at = usize::try_from(from.below(of.len() as u64)).unwrap_or(0);
    of.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::mem::{Discriminant, discriminant};

    use super::*;

    const HEADER: usize = 8;

    #[test]
    fn equal_arguments_give_equal_inputs_and_no_way_is_silent() {
        for way in Way::ALL {
            let drawn = |seed| (0..500).map(|index| Input::draw(way, seed, index)).collect::<Vec<_>>();
            assert!(drawn(1) == drawn(1) && drawn(1) != drawn(2), "{way:?}");
            assert!(drawn(1).iter().filter(|input| input.bytes.len() > 4).count() > 300, "{way:?}");
        }
    }

    #[test]
    fn a_members_frames_hold_every_kind_of_message_on_every_queue() {
        let mut kinds: Vec<Discriminant<Message>> = Vec::new();
        let mut queues = BTreeSet::new();
        for input in (0..1_000).map(|index| Input::draw(Way::Member, 7, index)) {
            let (header, body) = input.bytes.split_at(HEADER);
            if header[5] != REPLICA || !input.whole {
                queues.extend((header[4] < 3).then_some(header[4]));
                continue;
            }
            assert_eq!(body[0], Message::VERSION);
            let message = Message::decode(body[1..].to_vec().into(), &Limits::default());
            let kind = discriminant(&message.expect("a whole frame decodes"));
            queues.insert(header[4]);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        assert_eq!(queues, BTreeSet::from([0, 1, 2]));
        assert!(kinds.len() >= 10, "{} kinds", kinds.len());
    }
}
