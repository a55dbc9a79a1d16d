//! One client whose operations are kept.

use super::book::{Book, name};
use super::resp::{Line, Told};
use crate::chaos::load::{ask, command};
use crate::exit::bug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use synod_chaos::Draw;
use synod_chaos::linear::{Action, Answer, Operation};
use synod_config::SynError;
use synod_host::{ClusterClient, Mode, Outcome};
use synod_kv::Reply;

/// Keys of a round.
const KEYS: usize = 3;
/// Operations of a client in a round.
const OPERATIONS: usize = 24;
/// Pause between two operations, so that most of the load is the lanes'.
const PAUSE: Duration = Duration::from_millis(3);
/// Pause of a client that has nobody to talk to, or is ahead of the others.
const WAIT: Duration = Duration::from_millis(20);
/// The lane of these calls.
const LANE: usize = 2_000;

/// How a client reaches the cluster.
pub(super) enum Way {
    /// Believing f + 1 members.
    Verified(Arc<ClusterClient>, tokio::runtime::Runtime),
    /// Over RESP, by a server that believes f + 1 members.
    Resp(SocketAddr, Option<Line>),
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// This.
    Answer(Answer),
    /// It never takes effect.
    Nothing,
    /// Nobody knows.
    Unknown,
}

impl Way {
    pub(super) fn resp(server: SocketAddr) -> Self {
        Self::Resp(server, None)
    }

    pub(super) fn verified(client: Arc<ClusterClient>) -> Result<Self, SynError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self::Verified(client, runtime.map_err(|error| bug("runtime", &error))?))
    }

    /// Whether there is somebody to call.
    fn is_there(&mut self) -> bool {
        if let Self::Resp(server, line @ None) = self {
            *line = Line::connect(*server).ok();
        }
        !matches!(self, Self::Resp(_, None))
    }

    fn call(&mut self, key: &str, action: Action) -> Came {
        let words = words(key, action);
        let told = match self {
            Self::Verified(client, runtime) => {
                let mode = if action.is_read() { Mode::Quorum } else { Mode::Ordered };
                let (verb, rest) = words.split_first().expect("a command has a name");
                let rest: Vec<&[u8]> = rest.iter().map(String::as_bytes).collect();
                let asked = ask(client, LANE, vec![command(verb, &rest, mode)]);
                match runtime.block_on(asked).pop() {
                    Some(Outcome::Accepted { value, .. }) => Reply::decode(&value).map(told),
                    Some(Outcome::Rejected { .. }) => return Came::Nothing,
                    _ => None,
                }
            }
            Self::Resp(_, line) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let told = line.as_mut().and_then(|line| line.call(&words).ok());
                if told.is_none() {
                    *line = None;
                }
                told
            }
        };
        match told {
            None | Some(Told::Refusal) => Came::Unknown,
            // An answer of another kind than that of its operation is one that nothing explains.
            Some(told) => Came::Answer(answer(action, &told).unwrap_or(Answer::Value(Some(u64::MAX)))),
        }
    }
}

fn told(reply: Reply) -> Told {
    match reply {
        Reply::Simple(_) => Told::Status,
        Reply::Integer(number) => Told::Number(number),
        Reply::Bulk(text) => Told::Text(String::from_utf8_lossy(&text).into_owned()),
        Reply::Null => Told::Nothing,
        _ => Told::Refusal,
    }
}

/// An operation as a command.
fn words(key: &str, action: Action) -> Vec<String> {
    let key = key.to_owned();
    let command = |verb: &str, rest: Vec<String>| [vec![verb.to_owned()], rest].concat();
    match action {
        Action::Get => command("GET", vec![key]),
        Action::Put(value) => command("SET", vec![key, value.to_string()]),
        Action::Delete => command("DEL", vec![key]),
        Action::Increment => command("INCR", vec![key]),
        Action::Swap { new, .. } => command("SET", vec![key, new.to_string(), "NX".to_owned()]),
    }
}

/// What a reply says about an operation; `None` for one that cannot be its reply.
fn answer(action: Action, told: &Told) -> Option<Answer> {
    match (action, told) {
        (Action::Get, Told::Nothing) => Some(Answer::Value(None)),
        (Action::Get, Told::Text(text)) => Some(Answer::Value(Some(text.parse().ok()?))),
        (Action::Put(_), Told::Status) => Some(Answer::Done),
        (Action::Delete, Told::Number(removed @ 0..=1)) => Some(Answer::Was(*removed == 1)),
        (Action::Increment, Told::Number(value)) => Some(Answer::Value(Some(u64::try_from(*value).ok()?))),
        (Action::Swap { .. }, Told::Status) => Some(Answer::Was(true)),
        (Action::Swap { .. }, Told::Nothing) => Some(Answer::Was(false)),
        _ => None,
    }
}

/// The next operation; values that are put are never put twice.
fn drawn(draw: &mut Draw, fresh: u64) -> Action {
    match draw.below(10) {
        0..=3 => Action::Get,
        4..=6 => Action::Put(fresh),
        7 => Action::Delete,
        8 => Action::Increment,
        _ => Action::Swap { expected: None, new: fresh },
    }
}

/// Goes through rounds until the book is closed.
pub(super) fn run(number: u32, mut way: Way, book: &Book, seed: u64) {
    let mut draw = Draw::new(seed ^ (u64::from(number) << 32) ^ 0x6869_7374);
    // Increments, at most some thousand in a round, never make one value out of another.
    let mut fresh = (u64::from(number) + 1) << 48;
    for round in 0_u64.. {
        while !book.may_enter(round) && !book.is_stopped() {
            std::thread::sleep(WAIT);
        }
        if book.is_stopped() {
            return;
        }
        book.enter(round);
        for _ in 0..OPERATIONS {
            if book.is_stopped() {
                break;
            }
            if !way.is_there() {
                std::thread::sleep(WAIT);
                break;
            }
            fresh += 1 << 16;
            let (key, action, called) = (draw.below(KEYS), drawn(&mut draw, fresh), book.now());
            let came = way.call(&name(round, key), action);
            let answered = match came {
                Came::Nothing => None,
                Came::Unknown => Some(None),
                Came::Answer(answer) => Some(Some((book.now(), answer))),
            };
            if let Some(answered) = answered {
                book.saw(round, key, Operation { client: number, action, called, answered });
            }
            if !matches!(came, Came::Answer(_)) {
                // One operation in doubt a round and client keeps histories decidable.
                std::thread::sleep(WAIT);
                break;
            }
            std::thread::sleep(PAUSE);
        }
        book.leave(round);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_answer_their_own_operation_only() {
        let swap = Action::Swap { expected: None, new: 4 };
        assert_eq!(words("k", swap), ["SET", "k", "4", "NX"]);
        assert_eq!(answer(swap, &Told::Nothing), Some(Answer::Was(false)));
        assert_eq!(answer(Action::Get, &Told::Text("12".to_owned())), Some(Answer::Value(Some(12))));
        assert_eq!(answer(Action::Get, &Told::Text("+LIE".to_owned())), None);
        assert_eq!(answer(Action::Put(1), &Told::Number(1)), None);
        assert_eq!(answer(Action::Delete, &Told::Number(2)), None);
        assert_eq!(answer(Action::Increment, &Told::Number(-1)), None);
    }
}
