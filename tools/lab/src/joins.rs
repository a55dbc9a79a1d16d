//! Members that join one by one while payments go on (profile II-F).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_astro::member::{self, Input, Member, Network, Output};
use synod_astro::views::{Change, Endorsement, Founding, Operator};
use synod_astro::{Batches, Parameters, Refusal};
use synod_broadcast::{SignedBroadcast, signed};
use synod_crypto::Hash;
use synod_ledger::{AccountId, Units};
use synod_machine::host::{Host, HostConfig};
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Desk, Harness, Keyring, Mode, Refused, Seat, Told, Violation, World};

use crate::astro::{BEGIN, LIMIT, REPLICA, account, opening, order};
use crate::circumstances::Circumstances;
use crate::timeline::{Timeline, later};

type Machine = Member<SignedBroadcast<Batches>, signed::Certificate>;

/// Members of the first view.
pub const FOUNDERS: u32 = 4;
/// Batches of a lane that members keep: whoever joins takes all there are.
const RETAIN: u64 = 1 << 14;
/// Between a join and the next.
const REST: Span = Span::millis(500);
/// Within which a join is over, or never is.
const PATIENCE: Span = Span::secs(60);
/// Names of operators' keys, which are no nodes'.
const OPERATORS: u64 = 1 << 40;

/// One join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// Members with the one who joined.
    pub members: u32,
    /// From its request to its part in payments, in microseconds.
    pub latency_us: u64,
    /// The longest time in which a member that was there promised nothing, in microseconds.
    pub pause_us: u64,
    /// The longest time around the join in which no payment settled, in ms.
    pub gap_ms: u64,
    /// Payments a second from the request to the part in payments and as long again.
    pub during: u64,
}

/// What came of all joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Each, in order.
    pub joins: Vec<Join>,
    /// Payments a second before the first join.
    pub before: u64,
    /// Payments a second after the last join.
    pub after: u64,
}

fn founding(keyring: &Keyring) -> Arc<Founding> {
    let member = |id: u8| (id, keyring.public(u64::from(id)));
    let founders = 0..u8::try_from(FOUNDERS).unwrap_or(4);
    let operators = (0..4).map(|at| keyring.public(OPERATORS + at)).collect();
    let cluster = Hash::of(b"synod lab joins");
    Arc::new(Founding { cluster, shard: 0, members: founders.map(member).collect(), operators })
}

fn endorsed(founding: &Founding, keyring: &Keyring, change: Change) -> Endorsement {
    let sign = |operator: u8| {
        let (scope, sworn) = founding.endorsed(change);
        let keys = keyring.keys(OPERATORS + u64::from(operator));
        let signature = keys.sign(scope, NodeId(u32::from(operator)), sworn).signature;
        Operator { operator, signature }
    };
    let signed = [0, 1, 2].map(sign).to_vec();
    Endorsement { change, signed: signed.try_into().unwrap_or_default() }
}

fn config(me: NodeId, founding: &Arc<Founding>) -> member::Config<SignedBroadcast<Batches>> {
    let network: Arc<Network<SignedBroadcast<Batches>>> =
        Arc::new(|me, view, begun, bounds| Box::new(signed::Setup::begun(me, view, begun, bounds)));
    member::Config {
        me,
        founding: Arc::clone(founding),
        genesis: (0..FOUNDERS).map(|of| opening(account(of, 1))).collect(),
        caps: (0..FOUNDERS).map(|of| (of, Units(LIMIT))).collect(),
        parameters: Parameters { owners_sign: false, retain: RETAIN, ..Parameters::default() },
        trusts_owners: false,
        network,
    }
}

fn world(nodes: u32, circumstances: &Circumstances) -> World {
    let options = circumstances.options();
    let keyring = Keyring::new(options.crypto, options.seed);
    let (founding, seed) = (founding(&keyring), options.seed);
    let seats = (0..nodes).map(|id| Seat::new(NodeId(id), &[REPLICA])).collect();
    World::new(synod_sim::Setup {
        links: Box::new(|_, _| Some(Mode::Connection)),
        options,
        ..synod_sim::Setup::new(seats, move |node, machine, log, life| {
            let seed = seed ^ u64::from(life) << 48;
            let host = HostConfig { own: node, machine, seed, jobs_max: 4_096, checked: false };
            Ok(Box::new(Host::<Machine>::open(host, config(node, &founding), log)?))
        })
    })
}

/// The customers of the founders, one each with one payment under way, and what members tell of views.
struct Town {
    begun: bool,
    orders: u64,
    /// Orders that have not settled, by name.
    open: BTreeMap<u64, (AccountId, Time)>,
    /// By member: since when it promises nothing.
    stopped: BTreeMap<NodeId, Time>,
    /// The pause of each member of which one ended.
    pauses: BTreeMap<NodeId, Span>,
    /// Who takes part in which number of view, and since when.
    resumed: BTreeMap<(NodeId, u32), Time>,
    too_far: BTreeSet<NodeId>,
    timeline: Timeline,
}

impl Town {
    fn next(&mut self, spender: AccountId, desk: &mut Desk) {
        self.orders += 1;
        self.open.insert(self.orders, (spender, desk.now()));
        self.give(self.orders, desk);
    }

    fn give(&self, name: u64, desk: &mut Desk) {
        let Some((spender, _)) = self.open.get(&name) else { return };
        let to = account((spender.registrar + 1) % FOUNDERS, 1);
        let input = Input::Pay(order(*spender, to, name));
        desk.input(NodeId(spender.registrar), REPLICA, Span::ZERO, input);
    }

    fn paid(&mut self, node: NodeId, output: &synod_astro::Output, desk: &mut Desk) {
        match output {
            synod_astro::Output::Settled { first, entries } => {
                for (position, (entry, _)) in (*first..).zip(entries) {
                    // Kept at once: what was told is told again in the next view otherwise.
                    let kept = Input::Pay(synod_astro::Input::Kept(position));
                    desk.input(node, REPLICA, Span::ZERO, kept);
                    let name = u64::try_from(entry.transfer).unwrap_or(0);
                    if entry.id.spender.registrar == node.0
                        && let Some((spender, since)) = self.open.remove(&name)
                    {
                        self.timeline.count(desk.now(), Span(desk.now().0.saturating_sub(since.0)));
                        self.next(spender, desk);
                    }
                }
            }
            synod_astro::Output::Refused { ticket, why: Refusal::Busy(ms) } => {
                desk.wake(Span::millis(u64::from((*ms).max(1))), *ticket);
            }
            _ => {}
        }
    }

    /// What waits at a member is given again: entering a view is as a restart.
    fn give_again(&self, node: NodeId, desk: &mut Desk) {
        for (name, (spender, _)) in &self.open {
            if spender.registrar == node.0 {
                self.give(*name, desk);
            }
        }
    }
}

impl Harness for Town {
    fn told(&mut self, told: Told, desk: &mut Desk) {
        match told.output.downcast_ref::<Output>() {
            Some(Output::Pay(output)) => self.paid(told.node, output, desk),
            Some(Output::Stopped(_)) => {
                self.stopped.entry(told.node).or_insert(told.time);
            }
            Some(Output::Resumed(roll)) => {
                self.resumed.entry((told.node, roll.view().number())).or_insert(told.time);
                if let Some(since) = self.stopped.remove(&told.node) {
                    let pause = Span(told.time.0.saturating_sub(since.0));
                    let longest = self.pauses.entry(told.node).or_default();
                    *longest = (*longest).max(pause);
                }
                self.give_again(told.node, desk);
            }
            Some(Output::TooFar(_)) => {
                self.too_far.insert(told.node);
            }
            _ => {}
        }
    }

    fn refused(&mut self, refused: Refused, desk: &mut Desk) {
        if let Some(Input::Pay(synod_astro::Input::Order { ticket, .. })) = refused.input.downcast_ref() {
            desk.wake(Span::millis(5), *ticket);
        }
    }

    fn wake(&mut self, token: u64, desk: &mut Desk) {
        match token {
            0 => (0..FOUNDERS).for_each(|of| self.next(account(of, 1), desk)),
            name => self.give(name, desk),
        }
    }

    fn started(&mut self, _: NodeId, _: u32, desk: &mut Desk) {
        if !self.begun {
            self.begun = true;
            desk.wake(BEGIN, 0);
        }
    }
}

/// Joins one by one up to `members`.
///
/// # Errors
/// A join that is not over in a minute of virtual time, or what broke.
pub fn join_up_to(members: u32, circumstances: &Circumstances) -> Result<Joined, String> {
    let mut world = world(members, circumstances);
    let keyring = Keyring::new(circumstances.options().crypto, circumstances.seed);
    let founding = founding(&keyring);
    let mut town = Town {
        begun: false,
        orders: 0,
        open: BTreeMap::new(),
        stopped: BTreeMap::new(),
        pauses: BTreeMap::new(),
        resumed: BTreeMap::new(),
        too_far: BTreeSet::new(),
        timeline: Timeline::new(Span::millis(100)),
    };
    let first = later(BEGIN, Span::secs(1));
    let to_text = |violation: Violation| violation.to_string();
    world.run(Time(first.0), &mut town).map_err(to_text)?;
    let before = town.timeline.rate(BEGIN, first);
    let mut joins = Vec::new();
    for id in FOUNDERS..members {
        town.pauses.clear();
        let asked = Span(world.now().0);
        let key = keyring.public(u64::from(id));
        let change = Change::Join { member: u8::try_from(id).unwrap_or(u8::MAX), key };
        let input = Input::Change(endorsed(&founding, &keyring, change));
        // A node without a part takes no inputs; whoever has one asks for it, as `synod member add` does.
        world.input(NodeId(0), REPLICA, Span::ZERO, Box::new(input));
        let number = id + 1 - FOUNDERS;
        let runs = |town: &Town| (0..=id).all(|of| town.resumed.contains_key(&(NodeId(of), number)));
        while !runs(&town) {
            if Span(world.now().0 - asked.0) > PATIENCE {
                return Err(format!(
                    "member {id} has not joined within a minute; too far: {:?}",
                    town.too_far
                ));
            }
            let until = Time(world.now().0 + Span::millis(20).0);
            world.run(until, &mut town).map_err(to_text)?;
        }
        let until = later(Span(world.now().0), REST);
        world.run(Time(until.0), &mut town).map_err(to_text)?;
        let takes_part = town.resumed.get(&(NodeId(id), number)).copied().unwrap_or_default();
        let latency = Span(takes_part.0.saturating_sub(asked.0));
        joins.push(Join {
            members: id + 1,
            latency_us: latency.0 / 1_000,
            pause_us: town.pauses.values().map(|pause| pause.0 / 1_000).max().unwrap_or(0),
            gap_ms: town.timeline.gap_ms(asked, until),
            during: town.timeline.rate(asked, later(asked, Span(2 * latency.0))),
        });
    }
    let end = later(Span(world.now().0), Span::secs(1));
    world.run(Time(end.0), &mut town).map_err(to_text)?;
    let after = town.timeline.rate(Span(end.0 - Span::secs(1).0), end);
    Ok(Joined { joins, before, after })
}

#[cfg(test)]
mod tests {
    use super::join_up_to;
    use crate::circumstances::{Circumstances, PriceList, Scale};

    #[test]
    fn members_join_one_by_one_and_payments_go_on() {
        let circumstances = Circumstances { seed: 4, prices: PriceList::Today, scale: Scale::Quick };
        let joined = join_up_to(6, &circumstances).expect("both join");
        assert_eq!(joined.joins.iter().map(|join| join.members).collect::<Vec<_>>(), [5, 6]);
        for join in &joined.joins {
            assert!(
                join.latency_us > 0 && join.pause_us > 0 && join.latency_us >= join.pause_us / 2,
                "{join:?}"
            );
            assert!(join.gap_ms < 2_000, "{join:?}");
        }
        assert!(joined.before > 0 && joined.after * 2 > joined.before, "{joined:?}");
    }
}
