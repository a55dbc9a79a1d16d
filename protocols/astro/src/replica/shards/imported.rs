//! Who is told that entries are credited: every member of the shard that they left, again and again until it has settled them.

use std::collections::{BTreeMap, VecDeque};

use synod_crypto::Hash;
use synod_machine::{Span, Time, Turn};
use synod_quorum::NodeId;
use synod_wire::List;

use super::super::{Carrier, Replica, say};
use crate::bundle::Place;
use crate::words::{IMPORTED_MAX, Word};

/// Credited entries of one shard that are remembered while a member of it does not answer.
const TOLD_MAX: usize = 65_536;

/// What was credited of one shard's, oldest first, since all of its members had heard.
#[derive(Clone, Debug)]
pub(super) struct Told {
    /// How many came before these.
    gone: u64,
    /// Each with the bundle that proves it, if it is here.
    entries: VecDeque<(Place, Option<Hash>)>,
    /// How far each member is, in its order.
    heard: Vec<u64>,
    due: Time,
    wait: Span,
}

impl Told {
    pub(super) fn new(members: usize) -> Self {
        Self { gone: 0, entries: VecDeque::new(), heard: vec![0; members], due: Time::ZERO, wait: Span::ZERO }
    }

    fn last(&self) -> u64 {
        self.gone.saturating_add(self.entries.len() as u64)
    }

    /// Takes an entry in; gives the bundle of the one that is forgotten for it.
    pub(super) fn push(&mut self, place: Place, name: Option<Hash>) -> Option<Hash> {
        self.entries.push_back((place, name));
        if self.entries.len() <= TOLD_MAX {
            return None;
        }
        self.gone = self.gone.saturating_add(1);
        self.entries.pop_front().and_then(|(_, name)| name)
    }

    /// Forgets the bundles, which others have as well.
    pub(super) fn take_names(&mut self) -> impl Iterator<Item = Hash> {
        self.entries.iter_mut().filter_map(|(_, name)| name.take())
    }

    /// A member has settled so many; gives the bundles of those that all have.
    fn hear(&mut self, member: usize, upto: u64) -> Vec<Hash> {
        let last = self.last();
        if let Some(heard) = self.heard.get_mut(member) {
            *heard = (*heard).max(upto.min(last));
        }
        let least = self.heard.iter().copied().min().unwrap_or_default();
        let mut names = Vec::new();
        while self.gone < least
            && let Some((_, name)) = self.entries.pop_front()
        {
            self.gone += 1;
            names.extend(name);
        }
        names
    }

    /// What a member has not heard, as much as one message holds, and the number of the first.
    fn unheard(&self, member: usize) -> Option<(u64, Vec<Place>)> {
        let from = self.heard.get(member).copied()?.max(self.gone);
        let skipped = usize::try_from(from - self.gone).ok()?;
        let places = self.entries.iter().skip(skipped).take(IMPORTED_MAX).map(|(place, _)| *place);
        let places: Vec<Place> = places.collect();
        (!places.is_empty()).then_some((from.saturating_add(1), places))
    }

    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        self.entries.iter().map(|(place, _)| *place)
    }

    /// The bundle that proves an entry.
    fn name(&self, place: Place) -> Option<Hash> {
        self.entries.iter().rev().find(|(told, _)| *told == place).and_then(|(_, name)| *name)
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.entries.len() * size_of::<(Place, Option<Hash>)>() + self.heard.len() * 8 + size_of::<Self>())
            as u64
    }

    pub(super) const fn bytes_max() -> u64 {
        (TOLD_MAX * size_of::<(Place, Option<Hash>)>() + 128 * 8 + size_of::<Self>()) as u64
    }
}

impl<B: Carrier> Replica<B> {
    /// Tells the shards of these entries that they are credited.
    pub(super) fn tell_imported(&mut self, places: &[Place], turn: &mut Turn<'_, Self>) {
        let (now, resend, life) = (turn.now(), self.config.parameters.resend, self.importer.life);
        let mut shards: BTreeMap<u16, Vec<Place>> = BTreeMap::new();
        for place in places {
            shards.entry(place.id.spender.shard).or_default().push(*place);
        }
        for (shard, places) in shards {
            let Some(neighbour) = self.config.shards.get(shard) else { continue };
            let Some(told) = self.importer.told.get_mut(&shard) else {
                // Nothing of that shard's was credited: a planted bug says so all the same.
                let places = List::try_from(places).unwrap_or_default();
                for node in &neighbour.nodes {
                    say(turn, *node, Word::Imported { life: 0, first: 0, places: places.clone() });
                }
                continue;
            };
            told.wait = resend;
            told.due = Time(now.0.saturating_add(resend.0));
            for (member, node) in neighbour.nodes.iter().enumerate() {
                if let Some((first, places)) = told.unheard(member) {
                    let places = List::try_from(places).expect("one message holds them");
                    say(turn, *node, Word::Imported { life, first, places });
                }
            }
        }
    }

    /// Tells members again that did not answer.
    pub(super) fn tell_again(&mut self, turn: &mut Turn<'_, Self>) {
        let (now, parameters, life) = (turn.now(), self.config.parameters, self.importer.life);
        for (shard, told) in &mut self.importer.told {
            let Some(neighbour) = self.config.shards.get(*shard).filter(|_| told.due <= now) else {
                continue;
            };
            told.wait = told.wait.max(parameters.resend).times(2).min(parameters.resend_max);
            told.due = Time(now.0.saturating_add(told.wait.0));
            for (member, node) in neighbour.nodes.iter().enumerate() {
                if let Some((first, places)) = told.unheard(member) {
                    let places = List::try_from(places).expect("one message holds them");
                    say(turn, *node, Word::Imported { life, first, places });
                }
            }
        }
    }

    /// A member of another shard credited entries of this one.
    pub(in super::super) fn on_imported(
        &mut self,
        from: NodeId,
        (life, first): (u64, u64),
        places: &[Place],
        turn: &mut Turn<'_, Self>,
    ) {
        let Some((shard, member)) = self.config.shards.member(from) else { return };
        let own = self.book().shard();
        let places: Vec<Place> =
            places.iter().take_while(|place| place.id.spender.shard == own).copied().collect();
        self.count_imported((shard, member), &places, turn);
        let mut upto = first.saturating_sub(1);
        let mut is_whole = true;
        for place in places {
            let is_known = self.is_settled(place.id)
                || self
                    .ledger
                    .slot(place.id)
                    .is_some_and(|slot| slot.digest == place.digest && slot.is_certified);
            if !is_known {
                self.ask_abroad(place, from, turn);
            }
            is_whole &= is_known;
            upto = upto.saturating_add(u64::from(is_whole));
        }
        if first > 0 {
            say(turn, from, Word::Heard { life, upto });
        }
    }

    /// A member of another shard has settled what it was told.
    pub(in super::super) fn on_heard_import(&mut self, from: NodeId, (life, upto): (u64, u64)) {
        if life != self.importer.life {
            return;
        }
        let Some((shard, member)) = self.config.shards.member(from) else { return };
        let Ok(member) = usize::try_from(member.0) else { return };
        let Some(told) = self.importer.told.get_mut(&shard) else { return };
        for name in told.hear(member, upto) {
            self.importer.release(name);
        }
    }

    /// The bundle that proves an entry of another shard.
    pub(super) fn proof_of(&self, place: Place) -> Option<&std::sync::Arc<crate::bundle::Bundle>> {
        let inbound = self.importer.inbound.get(&place.id).filter(|known| known.digest == place.digest);
        let told = || self.importer.told.get(&place.id.spender.shard)?.name(place);
        self.importer.bundle(inbound.map(|known| known.name).or_else(told)?)
    }
}
