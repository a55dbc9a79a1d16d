//! Bytes as they are on a wire of Ethernet.

/// Bytes of a segment's payload, and what Ethernet, IP and TCP add to each: headers, checksum, preamble and gap.
const SEGMENT: u64 = 1_448;
const AROUND: u64 = 66;

/// Bytes on the wire for these bytes of a stream.
pub(super) const fn on_wire(bytes: u64) -> u64 {
    bytes + bytes.div_ceil(SEGMENT) * AROUND
}

/// Bits that the id of each of `count` distinct clients of `space` must have at least: log2 of the number of sets, per id.
pub(super) fn entropy_bits(count: u32, space: u32) -> f64 {
    let ln_factorial = |n: f64| {
        // Stirling with two terms: below 1e-9 bits per id for the counts of a batch.
        if n < 2.0 { 0.0 } else { n * n.ln() - n + 0.5 * (std::f64::consts::TAU * n).ln() + 1.0 / (12.0 * n) }
    };
    let (n, u) = (f64::from(count), f64::from(space));
    if count == 0 || count >= space {
        return 0.0;
    }
    (ln_factorial(u) - ln_factorial(n) - ln_factorial(u - n)) / n / std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::{entropy_bits, on_wire};

    #[test]
    fn every_begun_segment_has_its_headers() {
        assert_eq!([on_wire(0), on_wire(1), on_wire(1_448), on_wire(1_449)], [0, 67, 1_514, 1_581]);
    }

    #[test]
    fn the_bound_is_that_of_the_specification() {
        let bytes = entropy_bits(65_536, 257_000_000) / 8.0;
        assert!((bytes - 1.67).abs() < 0.01, "{bytes}");
        assert!((entropy_bits(2, 4) - 6_f64.log2() / 2.0).abs() < 0.05, "six sets of two");
        assert!(entropy_bits(4, 4).abs() < 1e-9, "there is one such set");
    }
}
