//! Members that come and go: what a node hosts then in the place of a replica, and what it tells of views.
//!
//! The genesis names all who may ever be members, with their keys and addresses: the founders, and those in reserve. Which of them are
//! members is the view's business, which a quorum of operators changes one member at a time.
//!
//! *Orders.* Entering a view is a restart of the replica alone: what it had admitted and not recorded is forgotten, and callers still
//! wait. So what has not settled is ordered once more under its name as soon as the new view has told what settled; the replica
//! says of what it has that it exists. An order goes to the replica with the lock held under which it was seen not to have
//! settled, so the word that its name may be forgotten comes behind it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use synod_astro::Output;
use synod_astro::member::{self, Member};
use synod_astro::views::{Change, Endorsement, Founding, Operator, Refusal as Why, Roll, View};
use synod_broadcast::{SignedBroadcast, signed};
use synod_config::{Genesis, NodeKey, SynError};
use synod_crypto::{Keys, PublicKey, Seed, Signature};
use synod_machine::host::{Host, LaneLog};
use synod_quorum::NodeId;
use tokio::sync::oneshot;

use super::node::{caps, openings, parameters};
use super::orders::State;
use super::teller::{Answer, RETRY_MS, Reply};
use super::words::{Asked, Denied};
use super::{Claim, Seat, Teller};
use crate::error::invalid;
use crate::plan::{Connect, REPLICA, damaged, host};
use crate::server::Setup;

/// The machine as it is hosted where members come and go.
type Hosted = Member<SignedBroadcast<synod_astro::Batches>, signed::Certificate>;
/// Gives a change to the machine; false where it has no room.
pub(crate) type GiveChange = Box<dyn Fn(Endorsement) -> bool + Send + Sync>;

/// What a node is in the view that is current as far as it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It stands in reserve, or has not entered a view since it started.
    Aside,
    /// A member.
    Member,
    /// A view is over, and the next one has not begun here.
    Between,
    /// It was a member and is none any more.
    Left,
    /// It cannot join: lanes are longer than members keep them.
    TooFar,
}

impl Standing {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Aside => "aside",
            Self::Member => "member",
            Self::Between => "between",
            Self::Left => "left",
            Self::TooFar => "too_far",
        }
    }
}

/// The members as a node knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// How many changes were made; `None` at a node that entered no view since it started.
    pub view: Option<u32>,
    /// What this node is.
    pub standing: Standing,
    /// Their numbers.
    pub members: Vec<u8>,
}

#[derive(Default)]
struct Known {
    standing: Option<Standing>,
    roll: Option<Arc<Roll>>,
    /// A view began, and what has not settled is not ordered again yet.
    has_begun: bool,
    asking: Vec<(Change, Reply<()>)>,
}

/// Most changes that wait for their members' word.
const ASKING_MAX: usize = 256;

/// What a teller knows of views, where they change.
pub(super) struct Views {
    /// Of all whom the genesis names.
    keys: Vec<PublicKey>,
    founding: Arc<Founding>,
    known: Mutex<Known>,
    machine: OnceLock<GiveChange>,
}

impl Views {
    pub(super) fn new(keys: Vec<PublicKey>, founding: Arc<Founding>) -> Self {
        Self { keys, founding, known: Mutex::default(), machine: OnceLock::new() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standing(&self) -> Standing {
        self.known().standing.unwrap_or(Standing::Aside)
    }
}

/// The founders and the operators of a genesis.
///
/// # Errors
/// SYN-1001 for a genesis of another protocol, or one whose members stay.
pub fn founding(genesis: &Genesis) -> Result<Founding, SynError> {
    let pay = genesis.pay().filter(|pay| pay.has_views());
    let pay = pay.ok_or_else(|| invalid("the members of this cluster are there for good"))?;
    let founders = usize::try_from(pay.founders).unwrap_or(usize::MAX);
    let members = (0_u8..).zip(genesis.members()).take(founders).map(|(id, member)| (id, member.ed25519));
    let operators = genesis.operators().iter().map(|operator| operator.ed25519);
    let founding = Founding {
        cluster: genesis.id(),
        shard: 0,
        members: members.collect(),
        operators: operators.collect(),
    };
    founding.fault().map_or(Ok(founding), |why| Err(invalid(why)))
}

/// The change that makes this member of the genesis one, or has it leave.
#[must_use]
pub fn change(genesis: &Genesis, member: u8, joins: bool) -> Option<Change> {
    let key = genesis.members().get(usize::from(member))?.ed25519;
    Some(if joins { Change::Join { member, key } } else { Change::Leave { member } })
}

/// An operator's signature of a change, with the operator's number; `None` for a key of no operator.
#[must_use]
pub fn endorse(founding: &Founding, change: Change, key: &NodeKey) -> Option<(u8, Signature)> {
    let operator = founding.operators.iter().position(|operator| *operator == key.public())?;
    let operator = u8::try_from(operator).ok()?;
    let (scope, sworn) = founding.endorsed(change);
    // What is random in these keys serves checks of many signatures at once, of which there are none.
    let keys = Keys::ed25519(key.seed(), [0; 32]);
    Some((operator, keys.sign(scope, NodeId(u32::from(operator)), sworn).signature))
}

/// The members that begin.
pub(super) fn first(founding: &Founding) -> Result<Arc<Roll>, SynError> {
    Roll::of(founding, &View::default()).ok_or_else(|| invalid("the founders make no view"))
}

/// Recovers the machine, and the teller that speaks with it.
pub(super) fn recover(
    setup: &Setup,
    log: LaneLog,
) -> Result<(Box<dyn synod_machine::host::Hosted>, Arc<Teller>), SynError> {
    let config = config(&setup.genesis, setup.own)?;
    let founding = Arc::clone(&config.founding);
    let first = first(&founding)?.broadcasts();
    let machine = Host::<Hosted>::open(host(setup, REPLICA), config, log).map_err(damaged)?;
    let (kept, last) = machine.machine().replica().map_or((0, 0), |replica| (replica.kept(), replica.last()));
    let seat = Seat::of(&setup.genesis, setup.own);
    let claim = Claim { cluster: first.cluster, member: setup.own.0, seat, kept, last };
    let keys = setup.genesis.members().iter().map(|member| member.ed25519).collect();
    let teller = Teller::open_in(&setup.data, &claim, first, Some(Views::new(keys, founding)))?;
    Ok((Box::new(machine), teller))
}

fn config(
    genesis: &Genesis,
    own: NodeId,
) -> Result<member::Config<SignedBroadcast<synod_astro::Batches>>, SynError> {
    let config = member::Config {
        me: own,
        founding: Arc::new(founding(genesis)?),
        genesis: openings(genesis, 0)?,
        caps: caps(genesis, 0)?,
        // A state does not tell of what owners signed: institutions vouch for all here.
        parameters: synod_astro::Parameters { owners_sign: false, ..parameters(genesis)? },
        trusts_owners: false,
        network: Arc::new(|me, view, begun, bounds| Box::new(signed::Setup::begun(me, view, begun, bounds))),
    };
    config.fault().map_or(Ok(config), |why| Err(invalid(why)))
}

/// Where outputs go: all to the teller. Whoever else asks a machine that began to promise finds no room before its turn has ended, so
/// what tells that all is told comes this way.
pub(super) fn connect(teller: &Arc<Teller>) -> Connect {
    let teller = Arc::clone(teller);
    Box::new(move |_, output, deliveries| {
        let Ok(output) = output.downcast::<member::Output>() else { return };
        let may_wait =
            matches!(*output, member::Output::Resumed(_) | member::Output::Pay(Output::Looked { .. }));
        teller.hear_member(*output);
        if may_wait && teller.waits_for_room() {
            deliveries.input(REPLICA, member::Input::Pay(teller.knocking()));
        }
    })
}

/// Whether a receipt says what the founders' signatures show.
pub(super) fn is_of_founders(
    receipt: &synod_astro::PaymentReceipt,
    view: &synod_machine::broadcast::View,
) -> bool {
    // Only public keys are used: the secret is one that nobody has.
    let keys = Keys::ed25519(&Seed::new([0; 32]), [0; 32]);
    synod_astro::verify_receipt::<signed::Certificate>(receipt, view, &keys).is_ok()
}

impl Teller {
    /// From here on the machine can be asked for changes.
    pub(crate) fn begin_changes(&self, give: GiveChange) {
        if let Some(views) = &self.views {
            // A second call has nothing to add: there is one runtime.
            let _ = views.machine.set(give);
        }
    }

    /// Whether members come and go.
    #[must_use]
    pub const fn has_views(&self) -> bool {
        self.views.is_some()
    }

    /// The members as this node knows them; `None` where they are there for good.
    #[must_use]
    pub fn members(&self) -> Option<Members> {
        let known = self.views.as_ref()?.known();
        let roll = known.roll.as_ref();
        Some(Members {
            view: roll.map(|roll| roll.id().number),
            standing: known.standing.unwrap_or(Standing::Aside),
            members: roll.map(|roll| roll.keys().keys().copied().collect()).unwrap_or_default(),
        })
    }

    /// Why no order is taken now.
    pub(super) fn unready(&self) -> Denied {
        match self.views.as_ref().map(Views::standing) {
            Some(Standing::Aside | Standing::Left | Standing::TooFar) => Denied::NotMember,
            None | Some(Standing::Member | Standing::Between) => Denied::Busy(RETRY_MS),
        }
    }

    /// Whether there is no replica that answers: this node entered no view, or is in none any more.
    pub(super) fn has_nobody(&self) -> bool {
        self.unready() == Denied::NotMember
    }

    /// Has a member of the genesis join or leave; answered when a quorum of the current members has recorded it.
    pub fn change(&self, (member, joins): (u8, bool), signed: Vec<(u8, Signature)>) -> Answer<()> {
        let (reply, answer) = oneshot::channel();
        if let Err(why) = self.ask_for((member, joins), signed, reply) {
            let (reply, why) = *why;
            // Who asked may have gone.
            let _ = reply.send(Err(why));
        }
        answer
    }

    fn ask_for(
        &self,
        (member, joins): (u8, bool),
        signed: Vec<(u8, Signature)>,
        reply: Reply<()>,
    ) -> Result<(), Box<(Reply<()>, Denied)>> {
        let Some(views) = &self.views else { return Err(Box::new((reply, Denied::NotMember))) };
        let Some(key) = views.keys.get(usize::from(member)).copied() else {
            return Err(Box::new((reply, Denied::NotMember)));
        };
        let change = if joins { Change::Join { member, key } } else { Change::Leave { member } };
        let signed: Vec<Operator> =
            signed.into_iter().map(|(operator, signature)| Operator { operator, signature }).collect();
        let Ok(signed) = signed.try_into() else { return Err(Box::new((reply, Denied::Unendorsed))) };
        if self.has_nobody() {
            return Err(Box::new((reply, Denied::NotMember)));
        }
        let mut known = views.known();
        if known.roll.as_ref().is_some_and(|roll| roll.view().contains(&change)) {
            drop(known);
            let _ = reply.send(Ok(()));
            return Ok(());
        }
        // The machine passes over what makes no view and says nothing of it.
        let is_possible = known.roll.as_ref().is_none_or(|roll| {
            let with = roll.view().and(&View::of([change]).unwrap_or_default());
            let next = with.and_then(|with| Roll::of(&views.founding, &with));
            next.is_some_and(|next| next.members() != roll.members())
        });
        if !is_possible {
            return Err(Box::new((reply, Denied::NotMember)));
        }
        known.asking.retain(|(_, reply)| !reply.is_closed());
        if known.asking.len() >= ASKING_MAX {
            return Err(Box::new((reply, Denied::Busy(RETRY_MS))));
        }
        known.asking.push((change, reply));
        drop(known);
        if !views.machine.get().is_some_and(|give| give(Endorsement { change, signed })) {
            views.answer(change, Err(Denied::Busy(RETRY_MS)));
        }
        Ok(())
    }

    /// Whether the replica has not told that all is told, or nothing comes of it that would let it have what waits.
    fn waits_for_room(&self) -> bool {
        let state = self.state();
        !self.has_nobody() && (!state.is_ready || state.is_stuck())
    }

    /// A word of the machine that hosts the replica.
    pub(crate) fn hear_member(&self, output: member::Output) {
        let Some(views) = &self.views else { return };
        match output {
            member::Output::Pay(output) => self.hear(output),
            member::Output::Confirmed(change) => views.answer(change, Ok(())),
            member::Output::Stopped(view) => {
                views.known().standing = Some(Standing::Between);
                self.state().is_ready = false;
                tracing::info!(view = view.number, "a view is over: payments wait for the next one");
            }
            member::Output::Resumed(roll) => self.on_resumed(views, roll),
            member::Output::Left(view) => {
                views.known().standing = Some(Standing::Left);
                self.state().is_ready = false;
                tracing::info!(
                    view = view.number,
                    "this node is no member any more: stop it, and erase its key"
                );
            }
            member::Output::TooFar(view) => {
                views.known().standing = Some(Standing::TooFar);
                tracing::error!(
                    view = view.number,
                    "lanes are longer than members keep batches of: this node cannot join"
                );
            }
            member::Output::Refused { change: Some(change), why } => {
                let answer = match why {
                    Why::Made => Ok(()),
                    Why::Endorsement => Err(Denied::Unendorsed),
                    Why::Busy | Why::StateTooLong => Err(Denied::Busy(RETRY_MS)),
                };
                views.answer(change, answer);
            }
            member::Output::Refused { change: None, why } => {
                tracing::error!(?why, "what this node has to tell the next view's members found no place");
            }
            member::Output::Contradiction { view, .. } => {
                tracing::error!(
                    view = view.number(),
                    "lists of views contradict each other: more members lie than may"
                );
            }
        }
    }

    fn on_resumed(&self, views: &Views, roll: Arc<Roll>) {
        let number = roll.id().number;
        let mut known = views.known();
        let made = |(change, _): &mut (Change, Reply<()>)| roll.view().contains(change);
        let told: Vec<_> = known.asking.extract_if(.., made).collect();
        (known.standing, known.roll, known.has_begun) = (Some(Standing::Member), Some(roll), true);
        drop(known);
        for (_, reply) in told {
            // Who asked may have gone.
            let _ = reply.send(Ok(()));
        }
        self.state().is_ready = false;
        tracing::info!(view = number, "payments go on in this view");
    }

    /// The replica told what had settled before. Where a view began meanwhile, what has not settled is ordered again.
    pub(super) fn on_told(&self) {
        let Some(views) = &self.views else {
            self.state().is_ready = true;
            return;
        };
        let mut known = views.known();
        if known.standing != Some(Standing::Member) {
            return;
        }
        let has_begun = std::mem::take(&mut known.has_begun);
        drop(known);
        let mut state = self.state();
        state.is_ready = true;
        if has_begun {
            State::again(&mut state);
        }
        drop(state);
        self.give_queued();
    }
}

impl Views {
    /// What became of a change, to all who asked for it.
    fn answer(&self, change: Change, told: Asked<()>) {
        let mut known = self.known();
        let asked: Vec<_> = known.asking.extract_if(.., |(asked, _)| *asked == change).collect();
        drop(known);
        for (_, reply) in asked {
            // Who asked may have gone.
            let _ = reply.send(told);
        }
    }
}
