//! The parts of the network: directed links, connections and the queues they carry.

use std::collections::VecDeque;

use synod_machine::{Link, Queue, QueueSpec};
use synod_wire::Bytes;

use crate::draw::Stream;

/// How a pair of nodes is joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Order is kept per queue; a reset loses a suffix and is seen as `Link` Down, then Up.
    #[default]
    Connection,
    /// Each frame for itself: lost, doubled or overtaken; no `Link` events.
    Datagram,
}

/// A frame on its way.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) machine: u8,
    pub(crate) queue: Queue,
    pub(crate) body: Bytes,
    pub(crate) cause: u64,
    /// The strategy that touched it.
    pub(crate) touched: Option<&'static str>,
    /// The queue it waits in, for accounting; none for datagrams.
    pub(crate) channel: Option<u32>,
}

/// What the network asks to be told about later.
#[derive(Debug)]
pub(crate) enum NetEvent {
    /// The front of a queue may have arrived.
    Arrive { channel: u32 },
    /// A datagram arrives.
    Datagram { dir: u32, parcel: Box<Parcel> },
    /// Both ends try to connect.
    Connect { pair: u32, generation: u32 },
    /// A connection that carries nothing is given up.
    Expire { pair: u32, generation: u32 },
    /// A node learns what became of a connection.
    Notice { place: u32, peer: u32, life: u32, link: Link },
}

/// A disturbance of one directed link, with its own stream: taking it away leaves other draws unchanged.
#[derive(Debug)]
pub(crate) struct Weather {
    pub(crate) incident: u32,
    pub(crate) kind: WeatherKind,
    pub(crate) stream: Stream,
}

/// What disturbs a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeatherKind {
    /// Datagrams are lost, in parts per million.
    Loss(u32),
    /// Datagrams arrive twice, in parts per million.
    Duplicate(u32),
    /// Datagrams are held back by up to this many nanoseconds, so that others overtake them.
    Reorder(u64),
    /// An exponential delay of this mean, in nanoseconds, on top of the latency.
    Delay(u64),
    /// A log-normal delay of this median, in nanoseconds, on top of the latency: two thirds lie within a factor of two.
    LogNormal(u64),
    /// A rare delay: parts per million, and the longest in nanoseconds.
    Spike(u32, u64),
    /// Bytes per second.
    Band(u64),
}

/// One direction of one pair.
pub(crate) struct Dir {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) latency: u64,
    pub(crate) jitter: u64,
    pub(crate) stream: Stream,
    pub(crate) blocked: u32,
    pub(crate) clogged_until: u64,
    pub(crate) weathers: Vec<Weather>,
    pub(crate) band_free: u64,
    pub(crate) flying: u32,
    pub(crate) channels: Vec<u32>,
}

impl Dir {
    pub(crate) const fn pair(dir: u32) -> u32 {
        dir / 2
    }

    /// When a frame of `bytes` that leaves at `now` arrives.
    pub(crate) fn transit(&mut self, now: u64, bytes: u64) -> u64 {
        let mut delay = self.latency + self.stream.exponential(self.jitter);
        let mut start = now;
        for weather in &mut self.weathers {
            match weather.kind {
                WeatherKind::Delay(mean) => delay += weather.stream.exponential(mean),
                WeatherKind::LogNormal(median) => delay += weather.stream.log_normal(median),
                WeatherKind::Spike(ppm, max) => {
                    let spike = weather.stream.below(max);
                    delay += if weather.stream.chance(ppm) { spike } else { 0 };
                }
                WeatherKind::Reorder(window) => delay += weather.stream.below(window),
                WeatherKind::Band(rate) => {
                    let took = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
                    start = start.max(self.band_free) + u64::try_from(took).unwrap_or(u64::MAX >> 2);
                    self.band_free = start;
                }
                WeatherKind::Loss(_) | WeatherKind::Duplicate(_) => {}
            }
        }
        start.max(self.clogged_until).saturating_add(delay)
    }

    /// How many copies of a datagram arrive.
    pub(crate) fn copies(&mut self) -> u32 {
        let mut copies = 1;
        for weather in &mut self.weathers {
            match weather.kind {
                WeatherKind::Loss(ppm) if weather.stream.chance(ppm) => return 0,
                WeatherKind::Duplicate(ppm) if weather.stream.chance(ppm) => copies = 2,
                _ => {}
            }
        }
        copies
    }
}

/// The state of one connection.
pub(crate) struct Pair {
    pub(crate) mode: Mode,
    pub(crate) up: bool,
    pub(crate) generation: u32,
    /// Whether frames sent while it is down wait for it.
    pub(crate) keeps: bool,
    /// The latest `Down` notice; the connection is not made again before.
    pub(crate) noticed: u64,
    /// Undecodable frames of this connection, by direction.
    pub(crate) strikes: [u32; 2],
    pub(crate) stream: Stream,
}

/// A frame in a queue between two machines.
#[derive(Debug)]
pub(crate) struct Flight {
    /// `u64::MAX` while the connection is down.
    pub(crate) arrival: u64,
    pub(crate) generation: u32,
    pub(crate) body: Bytes,
    pub(crate) cause: u64,
    pub(crate) touched: Option<&'static str>,
}

/// The queue of one machine towards one peer.
pub(crate) struct Channel {
    pub(crate) dir: u32,
    pub(crate) machine: u8,
    pub(crate) queue: Queue,
    pub(crate) spec: QueueSpec,
    pub(crate) flights: VecDeque<Flight>,
    pub(crate) last: u64,
    /// Frames the receiver took and has not handled yet.
    pub(crate) waiting: u32,
}

impl Channel {
    pub(crate) fn full(&self) -> bool {
        self.flights.len() as u64 + u64::from(self.waiting) >= u64::from(self.spec.depth)
    }
}
