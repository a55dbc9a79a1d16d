//! Worlds of one machine: a test plays everybody else by hand, with real keys.

pub(crate) mod servers;
pub(crate) mod world;

use synod_crypto::bls::{BlsMembers, BlsSecret, combine};
use synod_crypto::{Hash, Keys, Seed, Statement};
use synod_machine::{Effect, Event, Job as _, Machine, Rng, Time, Turn, Wall};
use synod_quorum::{Epoch, Member as Voter, Model, NodeId, Quorums, Roster};

use crate::certificate::Aggregate;
use crate::certified::aggregate_of;
use crate::config::{Cluster, Rules};
use crate::directory::Member;
use crate::statement::BlsKeyBytes;

/// Number of servers of every world here that asks for no other.
pub(crate) const SERVERS: u32 = 4;

/// The keys of a name: servers are 0 and up, clients 1,000 and up.
pub(crate) fn keys(name: u64) -> Keys {
    let seed = Seed::new(Hash::of(&name.to_le_bytes()).0);
    Keys::ed25519(&seed, [7; 32]).with_bls(BlsSecret::new(&seed))
}

/// The keys of client `id`.
pub(crate) fn client_keys(id: u32) -> Keys {
    keys(1_000 + u64::from(id))
}

/// Four servers, one of which may be faulty.
pub(crate) fn cluster_with(rules: Rules) -> Cluster {
    cluster_of(SERVERS, rules)
}

/// So many servers, fewer than a third of which may be faulty.
pub(crate) fn cluster_of(servers: u32, rules: Rules) -> Cluster {
    let all: Vec<Keys> = (0..u64::from(servers)).map(keys).collect();
    let voters = all.iter().map(|keys| Voter { key: keys.public(), power: 1 }).collect();
    let roster = Roster::new(Epoch(1), voters).expect("distinct keys");
    let bls = all.iter().map(|keys| keys.bls_public().expect("they have one")).collect();
    let bls = BlsMembers::new(bls).expect("distinct keys");
    let quorums = Quorums::new(Model::Byzantine, servers).expect("four suffice");
    Cluster::new(Hash::of(b"cluster"), roster, bls, quorums, rules).expect("sound")
}

/// The same with the rules of the specification.
pub(crate) fn cluster() -> Cluster {
    cluster_with(Rules::default())
}

/// What the directory says of these keys.
pub(crate) fn member(keys: &Keys) -> Member {
    let bls = keys.bls_public().expect("they have one").to_bytes();
    Member { bls: BlsKeyBytes(bls), ed: keys.public() }
}

/// What these servers sign together, enough of them or not.
pub(crate) fn signed_by<S: Statement>(cluster: &Cluster, servers: &[u32], statement: &S) -> Aggregate {
    let votes: Vec<_> = servers
        .iter()
        .map(|server| {
            let vote = keys(u64::from(*server)).sign_bls(&cluster.scope(), statement);
            (NodeId(*server), vote.expect("they sign"))
        })
        .collect();
    let of = (statement.clone(), cluster.scope());
    let certificate = combine(of, &votes, cluster.bls(), |_| true, &keys(0)).expect("they signed");
    aggregate_of(&certificate, cluster).expect("members")
}

/// One machine, the keys its jobs hold, and the time.
pub(crate) struct Hand<M: Machine> {
    pub(crate) machine: M,
    pub(crate) now: Time,
    keys: Keys,
    rng: Rng,
}

impl<M: Machine> Hand<M> {
    pub(crate) fn new(machine: M, keys: Keys) -> Self {
        Self { machine, now: Time::ZERO, keys, rng: Rng::new(3, NodeId(0), 0) }
    }

    /// Steps the event; jobs are among the effects and wait.
    pub(crate) fn step_alone(&mut self, event: Event<M>) -> Vec<Effect<M>> {
        let mut effects = Vec::new();
        let wall = Wall(self.now.0 / 1_000_000);
        self.machine.step(event, &mut Turn::new(self.now, wall, &mut self.rng, &mut effects));
        self.machine.invariants();
        effects
    }

    /// What a job that waited answers.
    pub(crate) fn run(&self, job: M::Job) -> Event<M> {
        Event::Done(job.run(&self.keys))
    }

    /// Steps the event and every job it starts; all other effects, in order.
    pub(crate) fn step(&mut self, event: Event<M>) -> Vec<Effect<M>> {
        let mut events = std::collections::VecDeque::from([event]);
        let mut seen = Vec::new();
        while let Some(event) = events.pop_front() {
            let mut effects = Vec::new();
            let wall = Wall(self.now.0 / 1_000_000);
            self.machine.step(event, &mut Turn::new(self.now, wall, &mut self.rng, &mut effects));
            self.machine.invariants();
            for effect in effects {
                match effect {
                    Effect::Compute(job) => events.push_back(Event::Done(job.run(&self.keys))),
                    other => seen.push(other),
                }
            }
        }
        seen
    }
}

/// What was sent, to whom.
pub(crate) fn sent<M: Machine>(effects: Vec<Effect<M>>) -> Vec<(synod_machine::To, M::Message)> {
    let sends = effects.into_iter().filter_map(|effect| match effect {
        Effect::Send { to, message } => Some((to, message)),
        _ => None,
    });
    sends.collect()
}

/// The names of the faults that were blamed.
pub(crate) fn blamed<M: Machine>(effects: &[Effect<M>]) -> Vec<&'static str> {
    let names = effects.iter().filter_map(|effect| match effect {
        Effect::Blame { fault, .. } => Some(fault.name),
        _ => None,
    });
    names.collect()
}
