//! One member, from its start to the end of a history.

use std::collections::{BTreeMap, VecDeque};

use synod_astro::{Batches, Input, Job, Message, Opened, Output, Word};
use synod_broadcast::SignedBroadcast;
use synod_broadcast::signed::{self, Acked, Certificate, Except, Said};
use synod_crypto::Hash;
use synod_machine::{
    Condition, Effect, Event, Job as _, Log, Machine as _, Recover as _, Rng, Span, Time, To, Turn, Wall,
};
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes};

use super::cast::{Cast, HONEST};

type Replica = synod_astro::Replica<SignedBroadcast<Batches>>;
type Spoken = Message<signed::Message>;

/// Events of one history; a machine that does not come to rest is a bug.
const EVENTS_MAX: u32 = 10_000;

/// What happens to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Stimulus {
    /// The owner hands it an item.
    Hand(u8),
    /// The liar's next batch comes.
    Batch,
}

/// What became of a history.
#[derive(Clone, Debug, Default)]
pub(super) struct Lived {
    /// Its signatures on the liar's batches, by number.
    pub(super) said: BTreeMap<u64, Said>,
    /// What settled, by place.
    pub(super) settled: BTreeMap<u64, Hash>,
    /// Events.
    pub(super) steps: u64,
}

/// A member in its history.
struct Member<'a> {
    cast: &'a Cast,
    own: u8,
    replica: Replica,
    blobs: BTreeMap<Hash, Bytes>,
    waiting: VecDeque<Event<Replica>>,
    lived: Lived,
}

/// The liar's word on one of its batches, all of it.
fn vouched(cast: &Cast, opened: &Opened) -> Said {
    let except = Except::default();
    let (lot, digest) = (opened.lot(), opened.digest);
    let statement =
        Acked { context: cast.view().context, lot, digest, except: except.digest(), authorized: true };
    let own = NodeId(u32::from(HONEST));
    let signature = cast.keys(HONEST).sign(cast.view().scope(), own, statement).signature;
    Said { member: HONEST, except, authorized: true, signature }
}

/// A certificate of a batch by these and the liar.
pub(super) fn certificate(cast: &Cast, opened: &Opened, mut said: Vec<Said>) -> Option<Certificate> {
    said.push(vouched(cast, opened));
    let said = said.try_into().ok()?;
    let (context, epoch) = (cast.view().context, cast.view().roster.epoch());
    Some(Certificate { context, epoch, lot: opened.lot(), digest: opened.digest, said })
}

/// Plays a history, and shows the member these certificates behind it.
pub(super) fn live(
    cast: &Cast,
    own: u8,
    (lane, stimuli): (&[Opened], &[Stimulus]),
    certificates: &[Certificate],
) -> Lived {
    let log = Log { condition: Condition::Fresh, records: &mut core::iter::empty() };
    let replica = match Replica::recover(cast.setup(own), log) {
        Ok(replica) => replica,
        Err(refused) => unreachable!("an empty log is a fresh replica: {refused}"),
    };
    let (blobs, lived) = (BTreeMap::new(), Lived::default());
    let mut member = Member { cast, own, replica, blobs, waiting: VecDeque::new(), lived };
    member.run(Event::Start);
    let mut batches = lane.iter();
    for stimulus in stimuli {
        match stimulus {
            Stimulus::Hand(item) => {
                let line = cast.item(*item).line.clone();
                member.run(Event::Input(Input::Signed { ticket: 1, line }));
            }
            Stimulus::Batch => {
                let Some(opened) = batches.next() else { continue };
                let Ok(payload) = Blob::try_from(opened.payload()) else { continue };
                let (lot, signature) = (opened.lot(), vouched(cast, opened).signature);
                member.hear(signed::Message::Prepare { lot, payload, signature });
            }
        }
    }
    for certificate in certificates {
        member.hear(signed::Message::Commit(certificate.clone()));
    }
    member.lived
}

impl Member<'_> {
    fn hear(&mut self, message: signed::Message) {
        let from = NodeId(u32::from(HONEST));
        self.run(Event::Message { from, message: Message::Broadcast(message) });
    }

    /// An event, and all that follows from it inside the machine.
    fn run(&mut self, event: Event<Replica>) {
        self.waiting.push_back(event);
        while let Some(event) = self.waiting.pop_front() {
            self.lived.steps += 1;
            assert!(self.lived.steps < u64::from(EVENTS_MAX), "a machine does not come to rest");
            let mut effects = Vec::new();
            let mut rng = Rng::new(0, NodeId(0), 0);
            let mut turn = Turn::new(Time(Span::secs(1).0), Wall(1_000_000), &mut rng, &mut effects);
            self.replica.step(event, &mut turn);
            self.replica.invariants();
            effects.into_iter().for_each(|effect| self.carry_out(effect));
        }
    }

    fn carry_out(&mut self, effect: Effect<Replica>) {
        match effect {
            Effect::Compute(job) => {
                let job: Job<<SignedBroadcast<Batches> as synod_machine::Machine>::Job> = job;
                self.waiting.push_back(Event::Done(job.run(&self.cast.keys(self.own))));
            }
            Effect::Store { name, bytes } => drop(self.blobs.insert(name, bytes)),
            Effect::Erase(name) => drop(self.blobs.remove(&name)),
            Effect::Load(name) => {
                let bytes = self.blobs.get(&name).cloned();
                self.waiting.push_back(Event::Loaded { name, bytes });
            }
            Effect::Send { to, message } => self.said(to, message),
            Effect::Output(Output::Settled { entries, .. }) => {
                self.lived.settled.extend(entries.into_iter().map(|(entry, digest)| (entry.id.n, digest)));
            }
            _ => {}
        }
    }

    fn said(&mut self, to: To, message: Spoken) {
        match message {
            Message::Broadcast(signed::Message::Ack(ack)) if ack.lot.source == HONEST => {
                self.lived.said.insert(ack.lot.sequence, ack.said);
            }
            // Whoever is asked for an entry below a certified one has it.
            Message::Own(Word::Want { digest, .. }) => {
                let from = match to {
                    To::Node(from) => Some(from),
                    To::Set(set) => set.iter().next(),
                };
                if let (Some(from), Some(item)) = (from, self.cast.find(&digest)) {
                    let message = Message::Own(Word::Here(item.line.clone()));
                    self.waiting.push_back(Event::Message { from, message });
                }
            }
            _ => {}
        }
    }
}
