//! The broadcast under the replicas of each profile.

use std::sync::Arc;
use synod_astro::{BackedBatches, Batches, Carrier, Channel, Parameters, Profile};
use synod_broadcast::{Bracha, SignedBroadcast, bracha, signed};
use synod_machine::Machine;
use synod_machine::broadcast::View;
use synod_quorum::NodeId;

/// A broadcast that replicas of this process run over.
pub(super) trait Carries:
    Carrier + Machine<Message: Send, Timer: Send, Record: Send> + Send + 'static
{
    /// Whose replicas these are.
    const PROFILE: Profile;

    /// How the broadcast of a member is set up.
    fn channel(view: &Arc<View>, me: NodeId, parameters: &Parameters) -> Channel<Self>;
}

impl Carries for Bracha {
    const PROFILE: Profile = Profile::I;

    fn channel(view: &Arc<View>, me: NodeId, parameters: &Parameters) -> Channel<Self> {
        let (members, bounds) = (view.roster.all(), parameters.bounds());
        let own = synod_broadcast::Config { me, members, bounds };
        Box::new(move |delivered| bracha::Setup { config: own.clone(), delivered })
    }
}

impl Carries for SignedBroadcast<BackedBatches> {
    const PROFILE: Profile = Profile::II;

    fn channel(view: &Arc<View>, me: NodeId, parameters: &Parameters) -> Channel<Self> {
        Box::new(signed::Setup::under(me, Arc::clone(view), parameters.bounds()))
    }
}

impl Carries for SignedBroadcast<Batches> {
    const PROFILE: Profile = Profile::Funded;

    fn channel(view: &Arc<View>, me: NodeId, parameters: &Parameters) -> Channel<Self> {
        Box::new(signed::Setup::under(me, Arc::clone(view), parameters.bounds()))
    }
}
