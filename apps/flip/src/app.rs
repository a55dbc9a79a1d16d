//! Flip as an application.

use synod_crypto::{Hash, Hasher, merkle};
use synod_service::{App, At, Replies, Request, Unrecoverable};
use synod_wire::Bytes;

/// Bytes of the one chunk: the count, the position of the last request, the chain.
const STATE_BYTES: usize = 48;

/// Answers requests with their bytes reversed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flip {
    executed: u64,
    position: u64,
    chain: Hash,
}

impl Flip {
    /// How many requests were executed.
    #[must_use]
    pub const fn executed(&self) -> u64 {
        self.executed
    }

    fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(STATE_BYTES);
        out.extend_from_slice(&self.executed.to_le_bytes());
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(&self.chain.0);
        Bytes::from(out)
    }

    /// The state of a chunk; `None` when it is none, or one that no requests lead to.
    fn decode(chunk: &[u8]) -> Option<Self> {
        let (executed, rest) = chunk.split_first_chunk::<8>()?;
        let (position, chain) = rest.split_first_chunk::<8>()?;
        let state = Self {
            executed: u64::from_le_bytes(*executed),
            position: u64::from_le_bytes(*position),
            chain: Hash(chain.try_into().ok()?),
        };
        let fresh = state.executed == 0;
        (fresh == (state.position == 0) && fresh == (state.chain == Hash::ZERO)).then_some(state)
    }
}

impl App for Flip {
    fn execute(&mut self, at: &At, requests: &mut dyn Iterator<Item = Request<'_>>, replies: &mut Replies) {
        // One link for each call: for a short request by itself that is two blocks of the hash.
        let mut hasher = Hasher::new("synod flip");
        hasher.add(&self.chain.0);
        let before = self.executed;
        for request in requests {
            let asked = [request.session, request.sequence].map(u64::to_le_bytes);
            hasher.add(asked.as_flattened()).add(request.body);
            self.executed += 1;
            self.position = at.position.0;
            replies.push(request.body.iter().rev().copied().collect());
        }
        if self.executed > before {
            self.chain = hasher.finish();
        }
    }

    /// Any question is answered as a request would be, and changes nothing.
    fn query(&self, question: &[u8]) -> Option<Bytes> {
        Some(question.iter().rev().copied().collect())
    }

    fn root(&mut self) -> Hash {
        merkle::Tree::new(vec![merkle::leaf(&self.encode())]).root()
    }

    fn chunks(&self) -> u32 {
        1
    }

    fn chunk(&self, index: u32) -> Bytes {
        if index == 0 { self.encode() } else { Bytes::new() }
    }

    fn restore(&mut self, index: u32, chunk: &[u8]) -> Result<(), Unrecoverable> {
        *self = Self::default();
        let state = Self::decode(chunk).filter(|_| index == 0);
        *self = state.ok_or_else(|| Unrecoverable(format!("chunk {index} is no state of flip")))?;
        Ok(())
    }

    fn bytes(&self) -> u64 {
        STATE_BYTES as u64
    }

    fn invariants(&self) {
        assert_eq!(self.executed == 0, self.chain == Hash::ZERO, "the chain begins with the first request");
    }
}
