//! Beginning messages at a pace, and retrying them.

use synod_chopchop::certificate::Legitimacy;
use synod_chopchop::message::{ClientMessage, Nack, Submit};
use synod_chopchop::statement::Submission;
use synod_crypto::Signature;
use synod_machine::{Span, Time};
use synod_wire::{Blob, Bytes};

use super::config::Conduct;
use super::job::Task;
use super::machine::{BEGIN, LoadClient, Step};
use super::member::Stage;

/// Submissions that one job signs.
const TOGETHER: usize = 512;
/// Turns of beginning whose messages may be begun at once after a pause.
const BURST: u64 = 4;
/// Retransmissions to one broker.
const ATTEMPTS_MAX: u32 = 8;
/// When a broker that does not know an id yet is asked again.
const UNKNOWN: Span = Span::secs(1);

/// The operation that pays 1 to `payee`.
const fn payment(payee: u32) -> [u8; 8] {
    (payee as u64 | 1 << 32).to_le_bytes()
}

/// Pixels of a side of the picture that a crowd paints.
const PICTURE: u64 = 256;

/// The operation of the `number`th stroke, from 0, of a member of a crowd whose members paint `each` pixels: all strokes
/// together fill rows of 256 pixels from the top of the board, no two of them the same place, none of them black.
#[must_use]
pub const fn stroke(member: u32, each: u32, number: u32) -> u64 {
    let place = member as u64 * each as u64 + number as u64;
    let (x, y) = (place % PICTURE, place / PICTURE % 2_048);
    let colour = x << 16 | (y & 0xff) << 8 | (255 - x);
    x | y << 11 | colour << 22
}

impl Conduct {
    /// Whether what the member says is what it must say. The silent say nothing wrong.
    #[must_use]
    pub const fn keeps_rules(self) -> bool {
        matches!(self, Self::Correct | Self::Silent)
    }
}

impl LoadClient {
    /// The payload of the message that a member began last.
    pub(super) fn payload(&self, at: u32) -> [u8; 8] {
        match (self.paints, self.members.get(at as usize)) {
            (Some(each), Some(member)) => {
                let member_number = self.crowd.members.0.saturating_add(at);
                stroke(member_number, each, member.begun.saturating_sub(1)).to_le_bytes()
            }
            _ => payment(self.crowd.payee),
        }
    }

    fn message(&self, at: u32) -> Blob<65_535> {
        let bytes = Bytes::copy_from_slice(&self.payload(at));
        Blob::try_from(bytes).unwrap_or_else(|_| unreachable!("eight bytes are a message"))
    }

    pub(super) fn broadcast(&mut self, goal: u32) {
        self.goal = goal;
        let idle = |member: &super::member::Member| member.stage == Stage::Idle && member.begun < goal;
        self.ready = (0..).zip(&self.members).filter(|(_, member)| idle(member)).map(|(at, _)| at).collect();
    }

    /// Begins as many messages as the pace allows.
    pub(super) fn begin(&mut self, turn: &mut Step<'_>) {
        let each = u64::from(self.crowd.pace.per_second) * BEGIN.as_millis();
        self.allowance = self.allowance.saturating_add(each).min(each * BURST);
        let room = self.crowd.pace.unshown.saturating_sub(self.unshown) as usize;
        let most = usize::try_from(self.allowance / 1_000).unwrap_or(usize::MAX);
        let count = most.min(room).min(self.ready.len());
        self.allowance -= count as u64 * 1_000;
        let members: Vec<u32> = self.ready.drain(..count).collect();
        for part in members.chunks(TOGETHER) {
            self.begin_these(part, turn);
        }
    }

    fn begin_these(&mut self, members: &[u32], turn: &mut Step<'_>) {
        for at in members {
            let Some(member) = self.members.get_mut(*at as usize) else { continue };
            member.k0 = member.next_k;
            member.next_k += 1;
            member.begun += 1;
            member.rounds = 0;
            // Forgeries are never shown a root.
            let counts = member.conduct != Conduct::Forged;
            self.unshown += u32::from(counts && !core::mem::replace(&mut member.unshown, counts));
            self.stats.begun += 1;
        }
        self.sign(members, turn);
    }

    /// Has the messages of these members signed under their numbers.
    pub(super) fn sign(&mut self, members: &[u32], turn: &mut Step<'_>) {
        let hash = |payload: [u8; 8]| self.crowd.cluster.domains().msg.hash(&payload);
        // Payments are all the same; strokes are not.
        let messages: Vec<_> = match self.paints {
            None => vec![hash(payment(self.crowd.payee)); members.len()],
            Some(_) => members.iter().map(|at| hash(self.payload(*at))).collect(),
        };
        let mut said = Vec::with_capacity(members.len());
        for (at, message) in members.iter().zip(messages) {
            let Some(member) = self.members.get_mut(*at as usize) else { continue };
            member.stage = Stage::Beginning;
            member.shown.clear();
            (member.included, member.explain, member.attempts) = (false, false, 0);
            let (id, k0, parity) = (member.id, member.k0, member.parity);
            said.push((*at, Submission { id, k0, parity, message }));
        }
        let signs = said.len();
        self.compute(Task::Submissions(self.next_nonce(), said), signs, turn);
    }

    pub(super) fn submissions_signed(&mut self, signed: Vec<(u32, u64, Signature)>, turn: &mut Step<'_>) {
        for (at, k0, mut t) in signed {
            let Some(member) = self.members.get_mut(at as usize) else { continue };
            if member.stage != Stage::Beginning || member.k0 != k0 {
                continue;
            }
            if member.conduct == Conduct::Forged {
                t.0[0] ^= 1;
            }
            (member.t, member.stage, member.since) = (t, Stage::Flying, turn.now());
            self.submit(at, turn);
            self.be_patient(at, turn.now());
        }
    }

    fn submit(&mut self, at: u32, turn: &mut Step<'_>) {
        let Some(member) = self.members.get(at as usize) else { return };
        let best = self.best.as_ref().filter(|_| member.explain).cloned().map(Legitimacy::Delivered);
        let submit = Submit {
            id: member.id,
            k0: member.k0,
            message: self.message(at),
            parity: member.parity,
            t: member.t,
            legitimacy: best,
        };
        let broker = member.broker;
        self.stats.submits += 1;
        self.say(at, broker, ClientMessage::Submit(submit), turn);
    }

    /// Sets the times at which this member does something again.
    fn be_patient(&mut self, at: u32, now: Time) {
        let Some(rounds) = self.members.get(at as usize).map(|member| member.rounds) else { return };
        let (patience, again) = (now + self.patience(rounds), now + self.silence());
        if let Some(member) = self.members.get_mut(at as usize) {
            member.patience = patience;
        }
        self.set_due(at, Some(patience.min(again)));
    }

    /// Silence after which a message is sent again: a broker answers it when its window closes, whatever that takes now.
    fn silence(&self) -> Span {
        self.inclusion_trip.times(3, self.crowd.pace.retransmit)
    }

    /// Silence: the message is sent again, or to the next broker.
    pub(super) fn flight_due(&mut self, at: u32, turn: &mut Step<'_>) {
        let (now, silence) = (turn.now(), self.silence());
        let Some(member) = self.members.get_mut(at as usize) else { return };
        if now >= member.patience {
            self.stats.other_broker += 1;
            self.next_broker(at);
            self.submit(at, turn);
            self.be_patient(at, now);
            return;
        }
        let patience = member.patience;
        if member.included || member.attempts >= ATTEMPTS_MAX {
            self.set_due(at, Some(patience));
            return;
        }
        member.attempts += 1;
        let wait = silence.times(1 << member.attempts.min(6));
        self.stats.retransmits += 1;
        self.submit(at, turn);
        self.set_due(at, Some(patience.min(now + wait)));
    }

    /// A link was made anew: what the broker says goes to the old one until it hears of the new one.
    pub(super) fn linked(&mut self, (broker, at): (u32, u32), turn: &mut Step<'_>) {
        let flies =
            |member: &&super::member::Member| member.stage == Stage::Flying && member.broker == broker;
        if self.members.get(at as usize).filter(flies).is_some() {
            self.stats.retransmits += 1;
            self.submit(at, turn);
        }
    }

    pub(super) fn on_nack(
        &mut self,
        (broker, at): (u32, u32),
        why: Nack,
        retry_ms: u32,
        turn: &mut Step<'_>,
    ) {
        self.stats.nacks += 1;
        let now = turn.now();
        let Some(member) = self.members.get_mut(at as usize) else { return };
        if member.broker != broker {
            return;
        }
        let retry = Span::millis(u64::from(retry_ms)).max(Span::millis(50));
        match (why, member.stage) {
            (Nack::NeedCertificate, Stage::Flying) if !member.explain && self.best.is_some() => {
                member.explain = true;
                self.submit(at, turn);
            }
            (Nack::Busy, Stage::Flying | Stage::Enrolling) => {
                self.stats.busy += 1;
                let due = match member.stage {
                    Stage::Flying => member.patience.min(now + retry),
                    _ => now + retry,
                };
                self.set_due(at, Some(due));
            }
            (Nack::NotInDirectory, Stage::Flying) => {
                let due = member.patience.min(now + UNKNOWN);
                self.set_due(at, Some(due));
            }
            _ => {}
        }
    }
}
