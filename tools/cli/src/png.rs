//! Pictures as PNG: rows that say what changed, runs of equal bytes, fixed codes.
//!
//! A board is mostly one colour or like the row above it, and then a row is one run. A library would press harder and bring
//! five crates; this writes 80 KiB for an empty board of 12 MiB.
//!
//! *Bounds.* The picture, and at most 9 bits for each of its bytes.

/// Bytes of a pixel: red, green, blue.
const PIXEL: usize = 3;
/// The longest run of one code.
const RUN_MAX: usize = 258;
/// The shortest run that is worth a code.
const RUN_MIN: usize = 4;

/// A picture whose pixels are red, green, blue, row by row; pixels of an unfinished row are left out.
pub(crate) fn encode(width: u32, pixels: &[u8]) -> Vec<u8> {
    let row = usize::try_from(width).unwrap_or(usize::MAX).saturating_mul(PIXEL).max(PIXEL);
    let rows = u32::try_from(pixels.len() / row).unwrap_or(u32::MAX);
    let mut head = Vec::with_capacity(13);
    head.extend_from_slice(&width.to_be_bytes());
    head.extend_from_slice(&rows.to_be_bytes());
    // Eight bits per colour, three colours, the one way to press and to filter, no interlace.
    head.extend_from_slice(&[8, 2, 0, 0, 0]);
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut out, b"IHDR", &head);
    chunk(&mut out, b"IDAT", &pressed(&filtered(pixels, row)));
    chunk(&mut out, b"IEND", &[]);
    out
}

fn chunk(out: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    out.extend_from_slice(&u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(name);
    out.extend_from_slice(data);
    let sum = name.iter().chain(data).fold(u32::MAX, |sum, byte| crc(sum, *byte));
    out.extend_from_slice(&(!sum).to_be_bytes());
}

/// Each row as the difference to the row above or to the pixel before, whichever has more zeros; a byte says which.
fn filtered(pixels: &[u8], row: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(pixels.len() + pixels.len() / row);
    let mut above = vec![0; row];
    for line in pixels.chunks_exact(row) {
        let before = [0; PIXEL].iter().chain(line);
        let left: Vec<u8> = line.iter().zip(before).map(|(a, b)| a.wrapping_sub(*b)).collect();
        let up: Vec<u8> = line.iter().zip(&above).map(|(a, b)| a.wrapping_sub(*b)).collect();
        let zeros = |all: &[u8]| all.iter().filter(|byte| **byte == 0).count();
        let (kind, best) = if zeros(&up) >= zeros(&left) { (2, up) } else { (1, left) };
        out.push(kind);
        out.extend_from_slice(&best);
        above.copy_from_slice(line);
    }
    out
}

/// Bits, the lowest first.
#[derive(Default)]
struct Bits {
    out: Vec<u8>,
    held: u64,
    count: u32,
}

impl Bits {
    fn push(&mut self, value: u32, count: u32) {
        self.held |= u64::from(value) << self.count;
        self.count += count;
        while self.count >= 8 {
            self.out.push(self.held.to_le_bytes()[0]);
            self.held >>= 8;
            self.count -= 8;
        }
    }

    /// A symbol under its fixed code, whose highest bit comes first.
    fn symbol(&mut self, symbol: u32) {
        let (code, count) = match symbol {
            0..=143 => (0x30 + symbol, 8),
            144..=255 => (0x190 + symbol - 144, 9),
            256..=279 => (symbol - 256, 7),
            _ => (0xc0 + symbol - 280, 8),
        };
        self.push(code.reverse_bits() >> (32 - count), count);
    }

    /// The byte before, so many times again: 3 to 258.
    fn run(&mut self, length: usize) {
        let beyond = u32::try_from(length.saturating_sub(3)).unwrap_or(0);
        match beyond {
            0..=7 => self.symbol(257 + beyond),
            255 => self.symbol(285),
            _ => {
                let extra = beyond.ilog2() - 2;
                self.symbol(265 + 4 * (extra - 1) + (beyond >> extra & 3));
                self.push(beyond & ((1 << extra) - 1), extra);
            }
        }
        // The distance: one back.
        self.push(0, 5);
    }
}

/// The bytes as a zlib stream of one block.
fn pressed(bytes: &[u8]) -> Vec<u8> {
    let mut bits = Bits { out: vec![0x78, 0x01], ..Bits::default() };
    // The last block, of fixed codes.
    bits.push(0b011, 3);
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        bits.symbol(u32::from(*byte));
        at += 1;
        let rest = bytes.get(at..).unwrap_or_default();
        let mut same = rest.iter().take_while(|other| *other == byte).count();
        at += same;
        while same >= RUN_MIN {
            // No rest shorter than a run is left behind.
            let part = if same > RUN_MAX && same < RUN_MAX + 3 { RUN_MAX - 3 } else { same.min(RUN_MAX) };
            bits.run(part);
            same -= part;
        }
        (0..same).for_each(|_| bits.symbol(u32::from(*byte)));
    }
    bits.symbol(256);
    bits.push(0, 7);
    let mut out = bits.out;
    out.extend_from_slice(&adler(bytes).to_be_bytes());
    out
}

/// CRC-32 with one byte more.
fn crc(sum: u32, byte: u8) -> u32 {
    let step = |sum: u32, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    (0..8).fold(sum ^ u32::from(byte), step)
}

/// Adler-32.
fn adler(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1_u32, 0_u32);
    // So many bytes do not overflow.
    for part in bytes.chunks(5_000) {
        for byte in part {
            a += u32::from(*byte);
            b += a;
        }
        (a, b) = (a % 65_521, b % 65_521);
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a zlib stream of one block of fixed codes and runs of the byte before.
    fn unpressed(stream: &[u8]) -> Vec<u8> {
        let (body, sum) = stream[2..].split_at(stream.len() - 6);
        let mut bits = body.iter().flat_map(|byte| (0..8).map(move |at| u32::from(byte >> at & 1)));
        let mut number =
            |count: u32| (0..count).fold(0, |value, at| value | bits.next().expect("more bits") << at);
        assert_eq!(number(3), 0b011);
        let mut out = Vec::new();
        loop {
            let mut code = 0;
            let mut symbol = None;
            for length in 1..=9 {
                code = code << 1 | number(1);
                symbol = match (length, code) {
                    (7, 0..=23) => Some(code + 256),
                    (8, 0x30..=0xbf) => Some(code - 0x30),
                    (8, 0xc0..=0xc7) => Some(code - 0xc0 + 280),
                    (9, 0x190..=0x1ff) => Some(code - 0x190 + 144),
                    _ => continue,
                };
                break;
            }
            let length = match symbol.expect("a symbol") {
                256 => break,
                literal @ 0..=255 => {
                    out.push(u8::try_from(literal).expect("a byte"));
                    continue;
                }
                symbol @ 257..=264 => symbol - 254,
                285 => 258,
                symbol => {
                    let (extra, step) = ((symbol - 261) / 4, (symbol - 261) % 4);
                    3 + ((4 + step) << extra) + number(extra)
                }
            };
            assert_eq!(number(5), 0, "one back");
            let last = *out.last().expect("a byte before");
            out.extend(std::iter::repeat_n(last, length as usize));
        }
        assert_eq!(sum, adler(&out).to_be_bytes());
        out
    }

    fn unfiltered(rows: &[u8], row: usize) -> Vec<u8> {
        let mut out: Vec<u8> = Vec::new();
        for line in rows.chunks(row + 1) {
            let start = out.len();
            for (at, byte) in line[1..].iter().enumerate() {
                let back = if line[0] == 2 { row } else { PIXEL };
                let known =
                    (line[0] == 2 || at >= PIXEL).then(|| start + at).and_then(|at| at.checked_sub(back));
                let before = known.map_or(0, |at| out[at]);
                out.push(byte.wrapping_add(before));
            }
        }
        out
    }

    fn data(file: &[u8]) -> &[u8] {
        // Signature 8, header 25, then length, name, data, sum.
        let length = u32::from_be_bytes(file[33..37].try_into().expect("four bytes")) as usize;
        assert_eq!(&file[37..41], b"IDAT");
        &file[41..41 + length]
    }

    #[test]
    fn what_is_written_is_the_picture() {
        let mut pixels: Vec<u8> = (0..64 * 40 * 3_u32).map(|at| ((at * at) >> 7).to_le_bytes()[0]).collect();
        pixels[3_000..6_000].fill(200);
        let file = encode(64, &pixels);
        assert_eq!(&file[..8], b"\x89PNG\r\n\x1a\n");
        assert_eq!((&file[16..20], &file[20..24]), (&[0, 0, 0, 64][..], &[0, 0, 0, 40][..]));
        assert_eq!(unfiltered(&unpressed(data(&file)), 64 * 3), pixels);
    }

    #[test]
    fn runs_of_every_length_come_back() {
        for length in (1..800).chain([10_000]) {
            let bytes = [vec![7; length], vec![8], vec![250; length]].concat();
            assert_eq!(unpressed(&pressed(&bytes)), bytes, "{length}");
        }
    }

    #[test]
    fn an_empty_board_is_small() {
        let file = encode(2_048, &vec![0; 2_048 * 2_048 * 3]);
        assert!(file.len() < 90_000, "{} bytes", file.len());
    }

    #[test]
    fn sums_are_the_known_ones() {
        assert_eq!(adler(b"Wikipedia"), 0x11e6_0398);
        let sum = b"123456789".iter().fold(u32::MAX, |sum, byte| crc(sum, *byte));
        assert_eq!(!sum, 0xcbf4_3926);
    }
}
