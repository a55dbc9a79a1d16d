//! A replica: `minbft`'s as a machine, with an application behind it.

use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use hmac::Hmac;
use minbft::output::ViewInfo;
use minbft::{Config, MinBft, Output, PeerMessage, RequestPayload};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use shared_ids::{ClientId, ReplicaId, RequestId};
use synod_crypto::Hash;
use synod_flip::Flip;
use synod_machine::{
    Bounded, Event, Full, Link, Log, Machine, Message, Never, Queue, QueueSpec, Recover, Turn, Unrecoverable,
    Wall,
};
use synod_quorum::{NodeId, NodeSet};
use synod_service::{App, At, Position, Replies, Request as Executed};
use synod_wire::{Blob, Bytes, wire};
use usig::Usig;
use usig::hmac::UsigHmac;

use crate::counts::Counts;
use crate::rig::{REPLICAS, SIZE_MAX};
use crate::uses::Uses;

/// Bytes of a message of `minbft` besides a request, at most: signatures, identifiers, lists of them.
const BESIDE: u32 = 4 << 10;
const BODY_MAX: usize = (SIZE_MAX + BESIDE) as usize;
/// Messages that wait for one receiver.
const DEPTH: u32 = 128;
/// Batches between two checkpoints, as many as slots between those of uBFT.
const CHECKPOINT: u64 = 256;
/// The one client, as `minbft` calls it.
const CLIENT: ClientId = ClientId::from_u64(0);

wire! {
    /// What replicas and the client say.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) enum Said {
        /// The client's request.
        0 = Ask {
            /// Rises by one.
            id: u64,
            /// What is asked.
            op: Blob<{ SIZE_MAX as usize }>,
        },
        /// A replica's result of it.
        1 = Reply {
            /// Of which request.
            id: u64,
            /// What the application gave.
            result: Blob<{ SIZE_MAX as usize }>,
        },
        /// What a replica of `minbft` says to the others.
        2 = Peer {
            /// As `bincode` writes it.
            body: Blob<BODY_MAX>,
        },
        /// A replica has heard from all others and takes requests.
        3 = Ready,
    }
}

impl Message for Said {
    fn queue(&self) -> Queue {
        Queue(0)
    }
}

/// The queue of replicas and client, for requests of so many bytes.
pub(crate) fn queues(size: u32) -> Vec<QueueSpec> {
    vec![QueueSpec { depth: DEPTH, frame_max: size.saturating_add(BESIDE), full: Full::EvictOldest }]
}

/// A request, as `minbft` wants it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    id: u64,
    #[serde(with = "serde_bytes")]
    op: Vec<u8>,
}

impl RequestPayload for Request {
    fn id(&self) -> RequestId {
        RequestId::from_u64(self.id)
    }

    /// Whoever writes into the client's ring is the client: there is no signature to look at, as with uBFT.
    fn verify(&self, _: ClientId) -> anyhow::Result<()> {
        Ok(())
    }
}

type Counter = Uses<UsigHmac<Hmac<Sha256>>>;
type Peer = PeerMessage<<Counter as Usig>::Attestation, Request, <Counter as Usig>::Signature>;

/// What a replica is made of.
pub(crate) struct Settings {
    pub(crate) me: u32,
    pub(crate) size: u32,
    pub(crate) each_use: Duration,
    pub(crate) counts: Arc<Counts>,
}

/// See the module.
pub(crate) struct Replica {
    me: NodeId,
    minbft: MinBft<Request, Counter>,
    /// What is said to each replica as soon as it can be reached.
    hello: Vec<Bytes>,
    client: Option<NodeId>,
    is_ready: bool,
    app: Flip,
    replies: Replies,
    position: u64,
    counts: Arc<Counts>,
}

impl Replica {
    fn others(&self) -> NodeSet {
        NodeSet::first(REPLICAS).without(self.me)
    }

    /// Says what `minbft` wants to be said, and executes what it ordered.
    fn act(&mut self, output: Output<Request, Counter>, turn: &mut Turn<'_, Self>) {
        let Output { broadcasts, responses, errors, view_info, ready_for_client_requests, .. } = output;
        self.counts.erred(errors.len() + usize::from(!matches!(view_info, ViewInfo::InView(0))));
        for broadcast in &broadcasts {
            match encoded(broadcast) {
                Some(body) => turn.send(self.others(), Said::Peer { body }),
                None => self.counts.erred(1),
            }
        }
        if ready_for_client_requests && !self.is_ready {
            self.is_ready = true;
            self.greet(turn);
        }
        for (_, request) in responses {
            self.execute(&request, turn);
        }
    }

    fn greet(&self, turn: &mut Turn<'_, Self>) {
        if let Some(client) = self.client.filter(|_| self.is_ready) {
            turn.send(client, Said::Ready);
        }
    }

    fn execute(&mut self, request: &Request, turn: &mut Turn<'_, Self>) {
        self.position += 1;
        self.counts.executed_one();
        let at = At { position: Position(self.position), time: Wall(turn.wall().0), draw: Hash::ZERO };
        let executed = Executed { session: 1, sequence: request.id, body: &request.op };
        self.app.execute(&at, &mut [executed].into_iter(), &mut self.replies);
        for result in self.replies.drain() {
            match (self.client, Blob::try_from(result)) {
                (Some(client), Ok(result)) => turn.send(client, Said::Reply { id: request.id, result }),
                _ => self.counts.erred(1),
            }
        }
    }
}

fn encoded(message: &Peer) -> Option<Blob<BODY_MAX>> {
    Blob::try_from(Bytes::from(bincode::serialize(message).ok()?)).ok()
}

impl Machine for Replica {
    type Input = Never;
    type Message = Said;
    type Timer = u8;
    type Record = Never;
    type Job = Never;
    type Output = Never;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Message { from, message: Said::Peer { body } } if self.others().contains(from) => {
                match bincode::deserialize::<Peer>(&body) {
                    Ok(message) => {
                        let output =
                            self.minbft.handle_peer_message(ReplicaId::from_u64(u64::from(from.0)), message);
                        self.act(output, turn);
                    }
                    Err(_) => self.counts.erred(1),
                }
            }
            Event::Message { message: Said::Ask { id, op }, .. } => {
                let request = Request { id, op: op.to_vec() };
                let output = self.minbft.handle_client_message(CLIENT, request);
                self.act(output, turn);
            }
            Event::Link { peer, link: Link::Up } if self.others().contains(peer) => {
                for body in self.hello.iter().filter_map(|body| Blob::try_from(body.clone()).ok()) {
                    turn.send(peer, Said::Peer { body });
                }
            }
            Event::Link { peer, link: Link::Up } => {
                self.client = Some(peer);
                self.greet(turn);
            }
            _ => {}
        }
    }
}

impl Bounded for Replica {
    fn bytes(&self) -> u64 {
        0
    }

    fn bytes_max(&self) -> u64 {
        0
    }
}

impl Recover for Replica {
    type Config = Settings;

    fn queues(settings: &Settings) -> Vec<QueueSpec> {
        queues(settings.size)
    }

    fn recover(settings: Settings, _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        let Settings { me, each_use, counts, .. } = settings;
        let wrong = |why: &dyn core::fmt::Display| Unrecoverable(why.to_string());
        let key = vec![u8::try_from(me).unwrap_or(0) + 1; 32].into_boxed_slice();
        let counter = UsigHmac::try_new(key).map_err(|error| wrong(&error))?;
        let counter = Uses::new(counter, each_use, Arc::clone(&counts));
        let config = Config {
            n: NonZeroU64::new(u64::from(REPLICAS)).ok_or_else(|| wrong(&"no replicas"))?,
            t: u64::from(REPLICAS / 2),
            id: ReplicaId::from_u64(u64::from(me)),
            batch_timeout: Duration::from_secs(60),
            max_batch_size: NonZeroUsize::new(1),
            initial_timeout_duration: Duration::from_secs(60),
            checkpoint_period: NonZeroU64::new(CHECKPOINT).ok_or_else(|| wrong(&"no checkpoints"))?,
        };
        let (minbft, output) = MinBft::new(counter, config).map_err(|error| wrong(&error))?;
        let hello: Option<Vec<Bytes>> =
            output.broadcasts.iter().map(|message| encoded(message).map(Blob::into_bytes)).collect();
        Ok(Self {
            me: NodeId(me),
            minbft,
            hello: hello.ok_or_else(|| wrong(&"a first message is too long"))?,
            client: None,
            is_ready: output.ready_for_client_requests,
            app: Flip::default(),
            replies: Replies::default(),
            position: 0,
            counts,
        })
    }

    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}
