//! Outcomes as answers of RESP, and as counts.

use synod_config::{Code, code, explain};
use synod_host::Outcome;

use crate::{
    resp::Answer,
    traffic::{Api, Traffic},
};

/// The id of a request that was never named.
const NAMELESS: &str = "none";

/// The SYN code in the error reply of an application: `WORD SYN-NNNN text`.
pub(crate) fn reply_code(reply: &[u8]) -> Option<Code> {
    let text = reply.strip_prefix(b"-")?;
    let at = text.windows(4).position(|window| window == b"SYN-")?;
    let digits = text.get(at..at + 8)?;
    Code::parse(std::str::from_utf8(digits).ok()?)
}

/// Turns the outcomes of one call into answers and counts them.
pub(super) fn answer(outcome: Outcome, accepted: &mut u64, traffic: &Traffic) -> Answer {
    match outcome {
        Outcome::Accepted { value, .. } => {
            match reply_code(&value) {
                None => *accepted += 1,
                Some(code) => traffic.refused(Api::Resp, code),
            }
            Answer::Reply(value)
        }
        Outcome::Rejected { code, retry_ms } => {
            traffic.refused(Api::Resp, Code::new(code));
            rejected(Code::new(code), retry_ms)
        }
        Outcome::Unknown(id) => {
            traffic.refused(Api::Resp, code::DEADLINE_PASSED);
            Answer::Unknown { id: id.map_or_else(|| NAMELESS.to_owned(), |id| id.to_string()) }
        }
    }
}

fn rejected(number: Code, retry_ms: u32) -> Answer {
    if number == code::BUSY {
        Answer::Busy { retry_ms: u64::from(retry_ms) }
    } else if number == code::NO_QUORUM {
        Answer::NoQuorum
    } else {
        let text = explain(number).map_or("refused", |entry| entry.name);
        Answer::Refused { code: number.number(), text: text.to_owned() }
    }
}

/// The answer when nobody said what became of an operation.
pub(super) fn unknown(traffic: &Traffic) -> Answer {
    traffic.refused(Api::Resp, code::DEADLINE_PASSED);
    Answer::Unknown { id: NAMELESS.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_an_error_reply_is_found_and_of_nothing_else() {
        assert_eq!(reply_code(b"-WRONGTYPE SYN-3004 Operation\r\n"), Some(code::WRONG_TYPE));
        assert_eq!(reply_code(b"-ERR SYN-30"), None);
        assert_eq!(reply_code(b"-ERR no code\r\n"), None);
        assert_eq!(reply_code(b"$8\r\nSYN-3004\r\n"), None);
        assert_eq!(reply_code(b""), None);
    }

    #[test]
    fn refusals_keep_their_meaning() {
        assert_eq!(rejected(code::BUSY, 7), Answer::Busy { retry_ms: 7 });
        assert_eq!(rejected(code::NO_QUORUM, 7), Answer::NoQuorum);
        let draining = Answer::Refused { code: 3405, text: "draining".to_owned() };
        assert_eq!(rejected(code::DRAINING, 0), draining);
    }
}
