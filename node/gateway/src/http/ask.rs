//! One operation: asking the backend, and what its outcome means in HTTP.

use std::time::Duration;

use bytes::Bytes;
use synod_config::{Code, SynError, code, explain, format_duration};
use synod_host::{Call, Mode, Operation, Outcome};
use synod_kv::Reply;
use tokio::sync::oneshot::{self, error::RecvError};
use tokio::time::{Instant, timeout};

use crate::{
    problem::Problem,
    resp_server::reply_code,
    shared::{Shared, backend_deadline},
    traffic::Api,
};

/// What a request is called that has no id.
const UNNAMED: &str = "an unnamed request";

/// What to do, by whom, until when.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) lane: u64,
    pub(super) operation: Bytes,
    pub(super) mode: Mode,
    pub(super) deadline: Duration,
}

/// What was answered.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) reply: Reply,
    /// Where it was executed; 0 when unknown.
    pub(super) position: u64,
}

impl Ask {
    /// Asks and waits, until the deadline at most.
    pub(super) async fn perform(self, shared: &Shared) -> Result<Told, Problem> {
        let (sender, receiver) = oneshot::channel();
        let call = Call {
            lane: self.lane,
            operations: vec![Operation { body: self.operation, mode: self.mode }],
            deadline: backend_deadline(self.deadline),
            reply: sender,
        };
        let waiting = Waiting { what: UNNAMED, longest: self.deadline, deadline: self.deadline };
        let asked = async {
            shared.backend.call(call);
            receiver.await
        };
        let told = outcome(shared, asked, waiting, |outcomes| match outcomes.into_iter().next() {
            Some(outcome) => told(outcome, self.deadline),
            None => Err(unknown(code::CONNECTION_LOST, UNNAMED, self.deadline)),
        });
        told.await
    }
}

/// How long an answer is waited for.
pub(super) struct Waiting<'a> {
    /// What it is the outcome of.
    pub(super) what: &'a str,
    /// How long at most.
    pub(super) longest: Duration,
    /// The deadline that its user knows.
    pub(super) deadline: Duration,
}

/// Waits for an answer and counts what became of it; `told` says what it means.
///
/// # Errors
/// What `told` says, SYN-3501 and SYN-3502 where no answer comes.
pub(super) async fn outcome<A, T>(
    shared: &Shared,
    answer: impl Future<Output = Result<A, RecvError>>,
    waiting: Waiting<'_>,
    told: impl FnOnce(A) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let Waiting { what, longest, deadline } = waiting;
    let begun = Instant::now();
    let flight = Flight::begin(shared);
    let answered = timeout(longest, answer).await;
    flight.end(begun.elapsed());
    let told = match answered {
        Ok(Ok(answer)) => told(answer),
        Ok(Err(_)) => Err(unknown(code::CONNECTION_LOST, what, deadline)),
        Err(_) => Err(unknown(code::DEADLINE_PASSED, what, deadline)),
    };
    match &told {
        Ok(_) => shared.traffic.accepted(Api::Http, 1),
        Err(problem) => shared.traffic.refused(Api::Http, problem.code()),
    }
    told
}

/// An operation in flight; one whose request ends early is counted out too.
pub(super) struct Flight<'a>(Option<&'a Shared>);

impl<'a> Flight<'a> {
    pub(super) fn begin(shared: &'a Shared) -> Self {
        shared.traffic.began(Api::Http, 1);
        Self(Some(shared))
    }

    pub(super) fn end(mut self, duration: Duration) {
        if let Some(shared) = self.0.take() {
            shared.traffic.ended(Api::Http, 1, duration);
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.traffic.abandoned(Api::Http, 1);
        }
    }
}

fn told(outcome: Outcome, deadline: Duration) -> Result<Told, Problem> {
    match outcome {
        Outcome::Accepted { value, position } => match Reply::decode(&value) {
            Some(Reply::Error(text)) => Err(denied(&value, &text)),
            Some(reply) => Ok(Told { reply, position }),
            None => Err(strange()),
        },
        Outcome::Rejected { code, retry_ms } => Err(rejected(Code::new(code), retry_ms)),
        Outcome::Unknown(id) => {
            let id = id.map(|id| id.to_string());
            let what = id.as_deref().unwrap_or(UNNAMED);
            Err(unknown(code::DEADLINE_PASSED, what, deadline).of_request(id))
        }
    }
}

/// The store's refusal, in its own words.
fn denied(reply: &[u8], text: &[u8]) -> Problem {
    let code = reply_code(reply).unwrap_or(code::BUG);
    SynError::with_message(code, &String::from_utf8_lossy(text)).into()
}

/// A reply of another form than its operation has.
pub(super) fn strange() -> Problem {
    SynError::with_message(code::BUG, "the reply does not have the form of its operation").into()
}

fn rejected(number: Code, retry_ms: u32) -> Problem {
    let error = if number == code::BUSY {
        SynError::of(number, &[("retry_ms", &retry_ms.to_string())])
    } else {
        // The words of the template are known where the refusal was made, not here.
        let name = explain(number).map_or("refused", |entry| entry.name);
        SynError::with_message(number, &name.replace('_', " "))
    };
    Problem::from(error).after_ms(retry_ms)
}

fn unknown(code: Code, what: &str, deadline: Duration) -> Problem {
    SynError::of(code, &[("id", what), ("deadline", &format_duration(deadline))]).into()
}
