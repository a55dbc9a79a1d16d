//! What is measured.

use std::path::PathBuf;

/// Requests in flight at most: what a replica lets a session have waiting.
pub(crate) const CLOSED_MAX: u32 = synod_ubft::sessions::SESSION_WINDOW_MAX;
/// Bytes of a request at most.
pub(crate) const SIZE_MAX: u32 = 8 << 10;
/// Bytes of a batch at most: sixteen of them, as a replica that is behind is told, fit a slot of a ring (1 MiB).
const BATCH_BYTES_MAX: u32 = 63 << 10;
/// What a request has beyond its size: the words of a command, and its place in a batch.
const EXTRA: u32 = 128;

/// What is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum App {
    /// Reverses its input: the paper's toy.
    Flip,
    /// SET of a value of the size.
    Kv,
    /// Answers alike whatever it is asked.
    Noop,
    /// Orders of one trader, which meet each other.
    Book,
}

impl App {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Flip => "flip",
            Self::Kv => "kv",
            Self::Noop => "noop",
            Self::Book => "book",
        }
    }
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// Three replicas of uBFT.
    Synod,
    /// One server.
    Unreplicated,
}

impl System {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Synod => "synod",
            Self::Unreplicated => "unreplicated",
        }
    }
}

/// Where replicas, client and registers stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Replicas at one poller, the client at another, registers in this process.
    Cooperative,
    /// A process for each replica and memory node; the client is this one.
    Isolated,
}

impl Placement {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Cooperative => "cooperative",
            Self::Isolated => "isolated",
        }
    }
}

/// A process of a run: its name, and the folder where all have their doors.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
}

/// Replicas of MinBFT, which another program runs behind those of the same run.
#[derive(Clone, Debug)]
pub(crate) struct Baseline {
    pub(crate) program: PathBuf,
    /// A row for each: how long a use of the trusted counter takes beyond the counter itself.
    pub(crate) uses_us: Vec<u32>,
}

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) struct UbftBench {
    /// The runs that the gates need, in place of one: a gate that is missed ends with an error.
    pub(crate) is_suite: bool,
    pub(crate) placement: Placement,
    /// This process is a part of another's run.
    pub(crate) part: Option<Part>,
    /// The applications, one after the other.
    pub(crate) apps: Vec<App>,
    /// The systems, one after the other; a ratio needs both.
    pub(crate) systems: Vec<System>,
    /// What is measured behind them, in a program of its own.
    pub(crate) baseline: Option<Baseline>,
    /// Bytes of a request.
    pub(crate) size: u32,
    /// Requests in flight at most.
    pub(crate) closed: u32,
    /// Requests of a second, due at times fixed in advance; none where each waits for an earlier one.
    pub(crate) rate: Option<u32>,
    /// Requests of a slot at most.
    pub(crate) batch: u32,
    /// Requests whose times are taken.
    pub(crate) samples: u32,
    /// Requests before them.
    pub(crate) warmup: u32,
    /// Messages of a replica that the others remember.
    pub(crate) tail: u32,
    /// Slots that are worked on.
    pub(crate) window: u32,
    /// Without the fast path every slot is signed.
    pub(crate) fast_path: bool,
    /// Followers promise with what they lock (specification, 4.18).
    pub(crate) is_merged: bool,
    /// Each replica's signatures are made and checked by a thread beside its poller, and not by it.
    pub(crate) has_crypto_thread: bool,
    /// Where the result is written as well.
    pub(crate) out: Option<PathBuf>,
}

impl UbftBench {
    /// The longest operation, as replicas are configured: rings have room for what is sent and no more.
    pub(super) fn op_max(&self) -> u32 {
        self.size.saturating_add(EXTRA)
    }

    /// The longest result.
    pub(super) fn reply_max(&self) -> u32 {
        self.size.saturating_add(EXTRA).max(1 << 10)
    }

    /// Bytes of a batch: room for as many requests as it may have, up to [`BATCH_BYTES_MAX`].
    pub(super) fn batch_bytes(&self) -> u32 {
        let wanted = self.batch.saturating_mul(self.size.saturating_add(2 * EXTRA));
        wanted.max(self.op_max().saturating_add(2 * EXTRA)).clamp(1 << 10, BATCH_BYTES_MAX)
    }

    /// The word for whether promises go with what is locked.
    pub(super) const fn merge(&self) -> &'static str {
        if self.is_merged { "on" } else { "off" }
    }

    /// Whether only the time of one request in flight is measured.
    pub(super) fn is_alone(&self) -> bool {
        self.closed == 1 && self.rate.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(size: u32, batch: u32) -> UbftBench {
        UbftBench {
            is_suite: false,
            placement: Placement::Cooperative,
            part: None,
            apps: vec![App::Flip],
            systems: vec![System::Synod],
            baseline: None,
            size,
            closed: 1,
            rate: None,
            batch,
            samples: 100,
            warmup: 0,
            tail: 256,
            window: 512,
            fast_path: true,
            is_merged: false,
            has_crypto_thread: true,
            out: None,
        }
    }

    #[test]
    fn a_batch_has_room_for_its_requests_up_to_what_a_message_carries() {
        for (size, batch, bytes) in
            [(64, 1, 1_024), (32, 16, 4_608), (32, 64, 18_432), (8_192, 1, 8_576), (8_192, 16, 64_512)]
        {
            let plan = plan(size, batch);
            assert_eq!(plan.batch_bytes(), bytes, "{size} {batch}");
            assert!(plan.op_max() >= size && plan.batch_bytes() >= plan.op_max() + 128, "{size} {batch}");
        }
    }
}
