//! One-way latencies of the presets, by region.

use synod_machine::Span;

/// How far nodes are from one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// The same one-way delay for every pair.
    Constant(Span),
    /// One data centre: 0.1 ms.
    Lan,
    /// Four European regions, about 20 ms apart.
    Europe,
    /// Fourteen regions around the world.
    World,
    /// Two clusters; the region is the cluster. 0.25 ms within one, this much between them.
    Two(Span),
}

/// One-way delays between four European regions in tenths of a millisecond.
const EUROPE: [[u64; 4]; 4] =
    [[3, 130, 180, 240], [130, 3, 110, 200], [180, 110, 3, 160], [240, 200, 160, 3]];

/// Where the fourteen regions lie, as (west to east, south to north) in units of about 100 km on a cylinder of 400
/// units: coarse, but every triangle of delays is possible.
const WORLD: [(u64, u64); 14] = [
    (64, 142),  // North America, west
    (112, 139), // North America, east
    (116, 145), // Canada
    (148, 77),  // South America
    (193, 153), // Ireland
    (200, 151), // Britain
    (210, 150), // Central Europe
    (220, 159), // Scandinavia
    (256, 126), // Gulf
    (220, 66),  // Africa, south
    (281, 119), // India
    (315, 101), // Singapore
    (355, 135), // Japan
    (368, 66),  // Australia
];

impl Latency {
    /// Number of distinct regions; nodes are placed by their region modulo this number.
    #[must_use]
    pub const fn regions(&self) -> u32 {
        match self {
            Self::Constant(_) | Self::Lan => 1,
            Self::Two(_) => 2,
            Self::Europe => 4,
            Self::World => 14,
        }
    }

    /// The one-way delay from region `a` to region `b`, without jitter.
    #[must_use]
    pub fn one_way(&self, a: u32, b: u32) -> Span {
        let (a, b) = ((a % self.regions()) as usize, (b % self.regions()) as usize);
        match self {
            Self::Constant(span) => *span,
            Self::Lan => Span::micros(100),
            Self::Two(far) => {
                if a == b {
                    Span::micros(250)
                } else {
                    *far
                }
            }
            Self::Europe => Span::micros(EUROPE[a][b] * 100),
            Self::World => Span::micros(250 + world(WORLD[a], WORLD[b])),
        }
    }

    /// The largest one-way delay, without jitter.
    #[must_use]
    pub fn largest(&self) -> Span {
        let regions = || 0..self.regions();
        regions().flat_map(|a| regions().map(move |b| self.one_way(a, b))).max().unwrap_or(Span::ZERO)
    }
}

/// Microseconds between two places: distance along the surface, 100 km per 0.75 ms.
fn world(a: (u64, u64), b: (u64, u64)) -> u64 {
    let east = a.0.abs_diff(b.0);
    let (east, north) = (east.min(400 - east), a.1.abs_diff(b.1));
    (east * east + north * north).isqrt() * 750
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_symmetric_and_within_its_promise() {
        for (preset, low, high) in [
            (Latency::Constant(Span::millis(3)), 3_000, 3_000),
            (Latency::Lan, 100, 100),
            (Latency::Europe, 300, 24_000),
            (Latency::World, 250, 160_000),
            (Latency::Two(Span::millis(66)), 250, 66_000),
        ] {
            for a in 0..preset.regions() {
                for b in 0..preset.regions() {
                    let span = preset.one_way(a, b);
                    assert_eq!(span, preset.one_way(b, a));
                    assert!(
                        (Span::micros(low)..=Span::micros(high)).contains(&span),
                        "{preset:?} {a} {b} {span}"
                    );
                }
            }
        }
        assert!(Latency::World.largest() > Span::millis(100));
    }
}
