//! Instances of the gate, the controls, and one exploration.

use std::time::Instant;

use synod_hotstuff::Pack;

use super::cluster::Cluster;
use super::instance::Instance;
use crate::models::bounded::explored;
use crate::models::report::InstanceReport;

const fn instance(pack: Pack, views: u64, twin: u8, stale: bool, deviations: u8) -> Instance {
    Instance { pack, views, twin, stale, deviations }
}

/// An instance of a few seconds.
pub const SMALL: Instance = instance(Pack::Chain2Order, 4, 2, false, 1);

/// The planted bugs that must be found, each with the instance that finds it.
pub const CONTROLS: [(&str, Instance); 6] = [
    ("H5", instance(Pack::Chain3, 4, 2, false, 1)),
    ("O1", instance(Pack::Chain2Order, 4, 1, false, 1)),
    ("O2", instance(Pack::Chain2Order, 4, 1, false, 1)),
    ("O3", instance(Pack::Chain2Order, 4, 2, true, 2)),
    ("O4", instance(Pack::Chain2Order, 4, 1, false, 1)),
    ("O5", instance(Pack::Chain2Order, 4, 1, false, 1)),
];

/// Every pack at one number of deviations, basic for 2 views and the chained packs for 4, with each member as the twin
/// whose role differs: the leaders of those views, and one member that leads none of them. The stale proposer needs a
/// view that a timeout certificate opens above a certified block: that is the fourth of chain2+order. The smallest come
/// first, for what they leave of their time goes to the others.
#[must_use]
pub fn standard(deviations: u8) -> Vec<Instance> {
    let casts: [(Pack, u64, &[u8], bool); 4] = [
        (Pack::Chain2Order, 4, &[0, 1, 2, 3], false),
        (Pack::Chain2Order, 4, &[2], true),
        (Pack::Basic, 2, &[1, 2, 3], false),
        (Pack::Chain3, 4, &[0, 1, 2, 3], false),
    ];
    let all = casts.into_iter().flat_map(|(pack, views, twins, stale)| {
        twins.iter().map(move |twin| instance(pack, views, *twin, stale, deviations))
    });
    all.collect()
}

/// Explores one instance, depth first, until its frontier is empty, a property is violated or the deadline comes.
#[must_use]
pub fn explore(instance: Instance, deadline: Instant) -> InstanceReport {
    explored(Cluster::new(instance, deadline))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use synod_hotstuff::Pack;

    use super::{Instance, SMALL, explore, standard};

    fn explored(instance: Instance) -> crate::models::report::InstanceReport {
        explore(instance, Instant::now() + Duration::from_secs(120))
    }

    #[test]
    fn one_deviation_among_twins_breaks_no_promise() {
        let report = explored(SMALL);
        assert_eq!(report.broken, None);
        assert!(report.exhausted && report.reached && report.unique > 5_000, "{report:?}");
    }

    #[test]
    fn without_deviations_every_pack_and_cast_delivers_the_command() {
        let instances = standard(0);
        assert_eq!(instances.len(), 12);
        for instance in instances {
            let report = explored(instance);
            assert!(report.exhausted && report.reached && report.broken.is_none(), "{report:?}");
        }
    }

    #[test]
    fn equal_explorations_have_equal_figures() {
        let instance = Instance { pack: Pack::Basic, deviations: 0, ..SMALL };
        let (first, second) = (explored(instance), explored(instance));
        assert_eq!((first.states, first.unique, first.steps), (second.states, second.unique, second.steps));
    }
}
