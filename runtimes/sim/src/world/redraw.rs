//! Another future for the same past: everything that will be drawn is drawn anew.

use synod_machine::Span;

use super::run::World;
use crate::draw::Draws;
use crate::happening::Happening;
use crate::scenario::Incident;

impl World {
    /// Draws the future anew, once. What is under way goes on: frames that left arrive when they would have.
    pub(super) fn redraw(&mut self) {
        let Some(redraw) = self.options.redraw.take() else { return };
        let draws = Draws::new(redraw.seed);
        self.draws = draws;
        self.heard = None;
        self.wish_ties = draws.stream("harness", 0);
        self.network.redraw(draws);
        for (node, entity) in self.nodes.iter_mut().zip(0_u64..) {
            node.ties = draws.stream("node tie", entity);
            node.disk = draws.stream("disk", entity);
            node.lots = draws.stream("node", entity);
        }
        for (actor, entity) in self.actors.iter_mut().zip(0_u64..) {
            if let Some(actor) = actor {
                actor.draws = draws.stream("strategy", entity);
            }
        }
        self.redraw_incidents(draws);
    }

    /// Faults that have not begun hit others at other times; who counts as faulty stays who it is.
    fn redraw_incidents(&mut self, draws: Draws) {
        let coming: Vec<(u32, Incident)> = (0_u32..)
            .zip(&self.incidents.list)
            .filter(|(_, incident)| incident.at.0 > self.now)
            .map(|(index, incident)| (index, incident.clone()))
            .collect();
        let last = coming.iter().map(|(_, incident)| incident.at.0).max().unwrap_or(0);
        for (index, mut incident) in coming {
            let mut stream = draws.stream("incident again", u64::from(incident.id));
            incident.at = Span(stream.between(self.now, last));
            incident.lasts = Span(stream.below(incident.lasts.0.saturating_mul(2).saturating_add(1)));
            if !incident.family.costs_budget() {
                let everybody = self.nodes.len();
                for node in &mut incident.nodes {
                    let other = crate::network::place(stream.index(everybody));
                    let same = |place: u32| self.nodes.get(place as usize).map(|node| node.id.is_member());
                    *node = if same(other) == same(*node) { other } else { *node };
                }
            }
            self.incidents.replaced.insert(index);
            let index = crate::network::place(self.incidents.list.len());
            let (at, end) = (incident.at.0, incident.at.0.saturating_add(incident.lasts.0));
            self.incidents.list.push(incident);
            let tie = stream.tie();
            self.plan.push(at, tie, 0, Happening::Incident { index, step: 0 });
            self.plan.push(end, tie.wrapping_add(1), 0, Happening::Incident { index, step: u32::MAX });
        }
    }
}
