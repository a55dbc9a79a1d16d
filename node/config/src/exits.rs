//! Exit codes: one meaning each, the same for every verb.

/// What the process tells its caller when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked was done.
    Success = 0,
    /// Something failed for which no better code exists.
    Failure = 1,
    /// The command line was wrong; nothing was tried.
    Usage = 2,
    /// A file, a key or an identity is invalid.
    Invalid = 3,
    /// No connection could be made.
    Unreachable = 4,
    /// The request was rejected, or its sender is not authorised.
    Rejected = 5,
    /// Too few members answer.
    NoQuorum = 6,
    /// It is not known whether the request took effect; its id is printed.
    Unknown = 7,
    /// A verification or a safety check failed.
    Unsafe = 8,
    /// Data is damaged or could not be stored.
    Damaged = 9,
    /// The user interrupted; the process stopped cleanly.
    Interrupted = 130,
    /// The process aborted because of a bug.
    Aborted = 134,
    /// The supervisor ended the process; it stopped cleanly.
    Terminated = 143,
}

impl Exit {
    /// The number given to the operating system.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// One row of [`EXITS`].
#[derive(Clone, Copy, Debug)]
pub struct ExitRow {
    /// The code.
    pub exit: Exit,
    /// One sentence for documents and `--help`.
    pub meaning: &'static str,
}

const fn row(exit: Exit, meaning: &'static str) -> ExitRow {
    ExitRow { exit, meaning }
}

/// Every exit code, in ascending order.
pub const EXITS: &[ExitRow] = &[
    row(Exit::Success, "success"),
    row(Exit::Failure, "failure without a better code"),
    row(Exit::Usage, "usage: the command line is wrong"),
    row(Exit::Invalid, "configuration or identity invalid"),
    row(Exit::Unreachable, "cannot connect"),
    row(Exit::Rejected, "rejected or unauthorised"),
    row(Exit::NoQuorum, "no quorum"),
    row(Exit::Unknown, "outcome unknown; the request id is printed"),
    row(Exit::Unsafe, "verification or safety check failed"),
    row(Exit::Damaged, "data damaged or storage failed"),
    row(Exit::Interrupted, "interrupted after a clean stop"),
    row(Exit::Aborted, "aborted: a bug"),
    row(Exit::Terminated, "terminated after a clean stop"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_sorted_and_no_two_collide() {
        assert_eq!(EXITS.len(), 13);
        for pair in EXITS.windows(2) {
            assert!(pair[0].exit.number() < pair[1].exit.number(), "{:?}", pair[1]);
            assert_ne!(pair[0].meaning, pair[1].meaning);
        }
    }

    #[test]
    fn exit_numbers_are_those_of_the_contract() {
        let numbers: Vec<u8> = EXITS.iter().map(|row| row.exit.number()).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 130, 134, 143]);
    }
}
