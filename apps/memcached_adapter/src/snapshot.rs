//! The state as chunks: what is hashed, transferred and restored.
//!
//! Chunk 0 is the header: format, quota, length of the stream. The others are the stream, cut every 64 KiB: agreed time, the
//! last virtual id, a flush that is to come, then each key by bytes with its id, its deadline, its flags and its value. A
//! restore empties the server, stores each value, reads all of it back, and is taken only if that is byte for byte what came.
//!
//! *Bounds.* While it restores, the stream; no length field is believed before the bytes have come.

use synod_service::{Arriving, Chunks};
use synod_wire::{Bytes, Limits, Reader, Wire, Writer, wire};

use crate::adapter::{Adapter, Config, Kept};
use crate::command::{KEY_MAX, VALUE_MAX};
use crate::keyspace::{Item, Keyspace};
use crate::server::{Ask, Reply, Server};

const FORMAT: u8 = 1;
/// Values that are read or stored in one go.
const AT_ONCE: usize = 128;

wire! {
    /// Chunk 0.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Header {
        pub(crate) format: u8,
        pub(crate) quota: u64,
        pub(crate) bytes: u64,
    }
}

/// All chunks of a state.
pub(crate) fn chunks<S: Server>(adapter: &Adapter<S>) -> Chunks {
    let stream = encode(adapter);
    let header = Header { format: FORMAT, quota: adapter.config.bytes_max, bytes: stream.len() as u64 };
    Chunks::cut(&header, &stream)
}

/// Begins with chunk 0; `None` when it is of a state with another quota.
pub(crate) fn begin(chunk: &[u8], config: &Config) -> Option<Arriving> {
    let header = Header::decode(Bytes::copy_from_slice(chunk), &Limits::default()).ok()?;
    (header.format == FORMAT && header.quota == config.bytes_max).then(|| Arriving::begin(header.bytes))?
}

/// The stream of a state, with values as the server has them. A value that it lost stands as none.
pub(crate) fn encode<S: Server>(adapter: &Adapter<S>) -> Bytes {
    let kept = &adapter.kept;
    let mut out = Writer::with_capacity(1 << 12);
    kept.position.write(&mut out);
    kept.time.write(&mut out);
    kept.cas.write(&mut out);
    kept.flush_at.write(&mut out);
    out.count(kept.keys.len());
    let all: Vec<(&Bytes, &Item)> = kept.keys.iter().collect();
    for some in all.chunks(AT_ONCE) {
        let asks: Vec<Ask> = some.iter().map(|(key, _)| Ask::Get((*key).clone())).collect();
        for ((key, item), reply) in some.iter().zip(adapter.server.ask(&asks)) {
            blob(key, &mut out);
            item.cas.write(&mut out);
            item.deadline.write(&mut out);
            let value = if let Reply::Value(value) = reply { value } else { None };
            value.is_some().write(&mut out);
            if let Some((flags, data)) = value {
                flags.write(&mut out);
                blob(&data, &mut out);
            }
        }
    }
    out.freeze()
}

fn blob(bytes: &[u8], out: &mut Writer) {
    out.count(bytes.len());
    out.bytes(bytes);
}

/// Builds the state of a stream on an emptied server.
pub(crate) fn restore<S: Server>(server: &S, stream: &Bytes) -> Option<Kept> {
    let mut input = Reader::new(stream, &Limits { frame_max: u32::MAX }).ok()?;
    let mut kept = Kept {
        position: u64::read(&mut input).ok()?,
        time: u64::read(&mut input).ok()?,
        cas: u64::read(&mut input).ok()?,
        flush_at: Option::read(&mut input).ok()?,
        keys: Keyspace::default(),
    };
    let mut asks = Vec::new();
    for _ in 0..input.count(u32::MAX as usize).ok()? {
        let key = read_blob(&mut input, KEY_MAX)?;
        let cas = u64::read(&mut input).ok()?;
        let deadline = Option::<u64>::read(&mut input).ok()?;
        let (true, flags) = (bool::read(&mut input).ok()?, u32::read(&mut input).ok()?) else { return None };
        let data = read_blob(&mut input, VALUE_MAX)?;
        let late = deadline.is_some_and(|deadline| deadline <= kept.time);
        let plain = !key.is_empty() && key.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
        if late || !plain || cas > kept.cas || kept.keys.get(&key).is_some() {
            return None;
        }
        kept.keys.put(&key, Item { cas, deadline, length: data.len() as u64 });
        asks.push(Ask::Set { key, flags, data });
        if asks.len() == AT_ONCE {
            server.ask(&std::mem::take(&mut asks));
        }
    }
    server.ask(&asks);
    (input.remaining() == 0).then_some(kept)
}

fn read_blob(input: &mut Reader, max: usize) -> Option<Bytes> {
    let length = input.count(max).ok()?;
    input.take(length).ok()
}
