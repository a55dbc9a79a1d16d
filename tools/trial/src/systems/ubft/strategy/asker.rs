//! A client that lies with its own key (specification, section 6, and T29 to T31, T49): what it asks is edited on its way to each replica.

use synod_crypto::{Claim, Hash, Keys, PublicKey, Scope, Signature, Verified};
use synod_machine::{Message as _, To};
use synod_quorum::{Epoch, NodeId};
use synod_sim::{Act, Deed, Strategy};
use synod_ubft::Config;
use synod_ubft::batch::{INLINE_MAX, Slot};
use synod_ubft::epoch::Change;
use synod_ubft::message::{ClientStatement, Message, Registration};
use synod_ubft::snapshot::Part;
use synod_wire::{Blob, Bytes};

use super::super::sight::{opened, sealed};

const HALF: u32 = 500_000;
/// Copies of a request in a flood.
const COPIES: usize = 40;

/// What a lying client does with what it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Another operation under its number for each replica, signed for some.
    Others,
    /// To one replica alone, signed or not; the others hear nothing.
    Alone,
    /// Beside it: numbers outside its window, sessions that are another's, a replica's or nobody's, and sessions put on its own link.
    Foreign,
    /// Beside it: operations above the bound, signatures of nothing, and words that only replicas speak.
    Unfit,
    /// Each request many times, and as many reads.
    Flood,
}

impl Asks {
    /// All of them, with the names by which they are drawn.
    pub const ALL: [(&str, Self); 5] = [
        ("others", Self::Others),
        ("alone", Self::Alone),
        ("foreign", Self::Foreign),
        ("unfit", Self::Unfit),
        ("flood", Self::Flood),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, asks)| *asks == self).map_or("", |(name, _)| name)
    }
}

/// A request as the client is about to make it.
struct Request {
    to: NodeId,
    session: u64,
    id: u64,
    op: Blob<INLINE_MAX>,
}

/// See the module.
pub(crate) struct Asker {
    genesis: Config,
    key: PublicKey,
    asks: Asks,
}

impl Asker {
    pub(crate) fn new(genesis: Config, key: PublicKey, asks: Asks) -> Self {
        Self { genesis, key, asks }
    }

    fn sign(&self, keys: &Keys, statement: ClientStatement) -> Box<Signature> {
        let scope = Scope { cluster: self.genesis.cluster, epoch: Epoch(0) };
        let signed: Verified<Claim<ClientStatement>> = keys.sign(scope, NodeId::GUESTS, statement);
        Box::new(signed.signature)
    }

    fn ask(&self, keys: &Keys, (session, id): (u64, u64), op: &Blob<INLINE_MAX>, is_signed: bool) -> Message {
        let statement = ClientStatement::Asked { session, id, op: Hash::of(op.bytes()) };
        let signature = is_signed.then(|| self.sign(keys, statement));
        Message::Ask { session, id, op: op.clone(), signature }
    }

    /// The same operation with another last byte.
    fn another(act: &mut Act<'_>, op: &Blob<INLINE_MAX>) -> Blob<INLINE_MAX> {
        let mut bytes = op.bytes().to_vec();
        if let Some(last) = bytes.last_mut() {
            *last = last.wrapping_add(1).wrapping_add(u8::try_from(act.draws.below(3)).unwrap_or(0));
        }
        Bytes::from(bytes).try_into().unwrap_or_default()
    }

    /// What it says of sessions and numbers that are not its to use.
    fn foreign(&self, act: &mut Act<'_>, keys: &Keys, request: &Request) -> Vec<Message> {
        let Request { to, session, id, op } = request;
        let own = [*id + 17, *id + 1_000, 0, (1 << 62) - 1, 1 << 62, u64::MAX].map(|id| (*session, id));
        let n = u64::from(self.genesis.roster.size());
        let near = [-64, -1, 1, 64].map(|step| session.saturating_add_signed(step));
        let others = near.into_iter().chain([0, n - 1, n, (1 << 62) - 2, (1 << 62) - 1, u64::MAX]);
        let all = own.into_iter().chain(others.map(|session| (session, *id)));
        let mut said: Vec<Message> =
            all.map(|name| self.ask(keys, name, op, act.draws.chance(HALF))).collect();
        let replica = to.member().unwrap_or(0);
        for session in near.into_iter().chain([n - 1]) {
            let sequence = act.draws.draw() >> 2;
            let signature = self.sign(keys, ClientStatement::Attach { session, replica, sequence });
            said.push(Message::Attach { session, sequence, signature });
        }
        said
    }

    /// What nobody may say, or no client.
    fn unfit(&self, act: &mut Act<'_>, keys: &Keys, request: &Request) -> Vec<Message> {
        let Request { session, id, op, .. } = request;
        let longest = usize::try_from(self.genesis.parameters.request_inline_max).unwrap_or(0);
        let long = Blob::try_from(Bytes::from(vec![0; longest + 1])).unwrap_or_default();
        let forged = Box::new(Signature([act.draws.draw().to_le_bytes()[0]; 64]));
        let registration = Registration { key: self.key, nonce: act.draws.draw() >> 3 };
        let change = Change::Rejoin { node: 0, incarnation: 9, signature: *forged };
        vec![
            self.ask(keys, (*session, *id), &long, false),
            Message::Ask { session: *session, id: *id, op: op.clone(), signature: Some(forged.clone()) },
            Message::Register { registration, signature: forged.clone() },
            Message::Attach { session: *session, sequence: 1 << 61, signature: forged.clone() },
            Message::Echo { session: *session, id: *id, op: Hash::of(op.bytes()) },
            Message::Forward { session: *session, id: *id, op: op.clone(), signature: forged },
            Message::FetchLog { from: Slot(0) },
            Message::FetchChunk { low: Slot(0), part: Part::App(0) },
            Message::Hello { incarnation: 9, epoch: Epoch(0) },
            Message::Change(Box::new(change)),
            Message::FetchStanding,
        ]
    }

    /// What becomes of a request: what is said in its place.
    fn edit(&self, act: &mut Act<'_>, keys: &Keys, request: &Request, own: &Message) -> Vec<Message> {
        let Request { to, session, id, op } = request;
        match self.asks {
            Asks::Others => {
                let op = Self::another(act, op);
                let is_signed = act.draws.chance(HALF);
                vec![self.ask(keys, (*session, *id), &op, is_signed)]
            }
            Asks::Alone => {
                let n = u64::from(self.genesis.roster.size().max(1));
                let is_it = u64::from(to.0) == id % n;
                let is_signed = act.draws.chance(HALF);
                if is_it { vec![self.ask(keys, (*session, *id), op, is_signed)] } else { Vec::new() }
            }
            Asks::Foreign => [vec![own.clone()], self.foreign(act, keys, request)].concat(),
            Asks::Unfit => [vec![own.clone()], self.unfit(act, keys, request)].concat(),
            Asks::Flood => {
                let read = |id| Message::Read { id, question: op.clone() };
                let reads = (0..COPIES as u64).map(read);
                std::iter::repeat_n(own.clone(), COPIES).chain(reads).collect()
            }
        }
    }
}

impl Strategy for Asker {
    fn name(&self) -> &'static str {
        self.asks.name()
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        act.split_sends();
        let keys = act.keys;
        let Some(keys) = keys.get(&act.node) else { return false };
        let mut is_changed = false;
        for deed in core::mem::take(act.deeds) {
            let Deed::Send { to: To::Node(to), body, .. } = &deed else {
                act.deeds.push(deed);
                continue;
            };
            let own = opened(body);
            let Some(own @ Message::Ask { session, id, op, .. }) = &own else {
                act.deeds.push(deed);
                continue;
            };
            let request = Request { to: *to, session: *session, id: *id, op: op.clone() };
            is_changed = true;
            for said in self.edit(act, keys, &request, own) {
                act.inject(request.to, said.queue(), sealed(&said));
            }
        }
        is_changed
    }
}
