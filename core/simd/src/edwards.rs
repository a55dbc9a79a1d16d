//! Points of edwards25519, eight side by side: reading encodings, and sums of multiples.
//!
//! *Reading* takes a power of 252 bits, sixteen encodings at a time in two vectors, since a power is a chain of products that wait
//! for each other. A point is given where its root was found and squared again; `None` leaves an encoding to the library.
//!
//! *Sums.* Straus's way: eight points go through a group side by side, each with its multiples up to 8, and add for each digit of
//! base 16 what it names to the sum of that digit's place. The sums of the places are put together once for all groups, and the
//! lanes at the end. The addition formulas are complete, for points of small order as well.

use crate::field25519::{F, Limbs, difference, frozen, of_bytes};
use crate::lanes::Eight;

/// -121665/121666, of the curve -x^2 + y^2 = 1 + d x^2 y^2.
const D: Limbs = [
    0x0003_4dca_1359_78a3,
    0x0001_a828_3b15_6ebd,
    0x0005_e7a2_6001_c029,
    0x0007_39c6_63a0_3cbb,
    0x0005_2036_cee2_b6ff,
];
/// A root of -1.
const ROOT: Limbs = [
    0x0006_1b27_4a0e_a0b0,
    0x0000_d5a5_fc8f_189d,
    0x0007_ef5e_9cbd_0c60,
    0x0007_8595_a680_4c9e,
    0x0002_b832_4804_fc1d,
];
const ONE: Limbs = [1, 0, 0, 0, 0];
const ZERO: Limbs = [0; 5];
/// Steps to the power 2^252 - 3: so often squared, this one, times this one. Step `i` makes number `i + 1`; number 0 is the base.
const POWER: [(u32, usize, usize); 12] = [
    (0, 0, 0),
    (2, 1, 0),
    (0, 2, 1),
    (1, 3, 2),
    (5, 4, 4),
    (10, 5, 5),
    (20, 6, 6),
    (10, 7, 5),
    (50, 8, 8),
    (100, 9, 9),
    (50, 10, 8),
    (2, 11, 0),
];
/// Digits of base 16 of numbers below 2^255.
const DIGITS: usize = 64;
/// Multiples of a point from 0 to 8.
const MULTIPLES: usize = 9;

/// A point of edwards25519 that was read: x and y, limbs of 51 bits. 80 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdwardsPoint {
    x: Limbs,
    y: Limbs,
}

impl EdwardsPoint {
    /// The point that adds nothing.
    pub const IDENTITY: Self = Self { x: ZERO, y: ONE };
}

/// Limbs of sixteen numbers, eight to a vector.
pub(crate) type Sixteen = [[[u64; 8]; 5]; 2];

/// For sixteen y: a candidate x, x times a root of -1, what x^2 comes to, and what it should be, both times 1 + d y^2.
#[inline(always)]
pub(crate) fn roots<L: Eight>(y: &Sixteen) -> [Sixteen; 4] {
    let (one, d, root) = (F::<L>::splat(&ONE), F::splat(&D), F::splat(&ROOT));
    let y = [F::<L>::load(&y[0]), F::load(&y[1])];
    let (mut u, mut v, mut cube, mut base) = (y, y, y, y);
    for at in 0..2 {
        let square = y[at].square();
        u[at] = square.minus(&one);
        v[at] = square.by(&d).plus(&one);
        let squared = v[at].square();
        cube[at] = squared.by(&v[at]).by(&u[at]);
        base[at] = squared.square().by(&v[at]).by(&squared).by(&u[at]);
    }
    let power = raised(&base);
    let (mut x, mut other, mut made) = (y, y, y);
    for at in 0..2 {
        x[at] = cube[at].by(&power[at]);
        other[at] = x[at].by(&root);
        made[at] = x[at].square().by(&v[at]);
    }
    [stored(&x), stored(&other), stored(&made), stored(&u)]
}

#[inline(always)]
fn stored<L: Eight>(two: &[F<L>; 2]) -> Sixteen {
    [two[0].store(), two[1].store()]
}

/// The power 2^252 - 3 of sixteen numbers.
#[inline(always)]
fn raised<L: Eight>(base: &[F<L>; 2]) -> [F<L>; 2] {
    let mut made = [*base; POWER.len() + 1];
    for at in 0..POWER.len() {
        let (squarings, from, by) = POWER[at];
        let mut power = made[from];
        for _ in 0..squarings {
            power = [power[0].square(), power[1].square()];
        }
        made[at + 1] = [power[0].by(&made[by][0]), power[1].by(&made[by][1])];
    }
    made[POWER.len()]
}

/// Reads up to sixteen encodings by `roots`, in order: as ZIP-215 has it, also of a y of the modulus or more.
pub(crate) fn read_sixteen(
    encodings: &[[u8; 32]],
    out: &mut Vec<Option<EdwardsPoint>>,
    roots: impl Fn(&Sixteen) -> [Sixteen; 4],
) {
    let mut across: Sixteen = [[[0; 8]; 5]; 2];
    for (at, encoding) in encodings.iter().enumerate().take(16) {
        let y = of_bytes(encoding);
        for (limb, of_y) in across[at / 8].iter_mut().zip(y) {
            limb[at % 8] = of_y;
        }
    }
    let [x, other, made, wanted] = roots(&across);
    let lane = |of: &Sixteen, at: usize| frozen(&of[at / 8].map(|limb| limb[at % 8]));
    for (at, encoding) in encodings.iter().enumerate().take(16) {
        let (made, wanted) = (lane(&made, at), lane(&wanted, at));
        let root = if made == wanted {
            Some(lane(&x, at))
        } else {
            (made == difference(&ZERO, &wanted)).then(|| lane(&other, at))
        };
        let is_odd = encoding[31] >> 7 == 1;
        let signed = |x: Limbs| if (x[0] & 1 == 1) == is_odd { x } else { difference(&ZERO, &x) };
        out.push(root.map(|x| EdwardsPoint { x: signed(x), y: of_bytes(encoding) }));
    }
}

/// Eight points in extended coordinates.
#[derive(Clone, Copy)]
struct Points<L> {
    x: F<L>,
    y: F<L>,
    z: F<L>,
    t: F<L>,
}

/// Eight points as an addition takes them: y - x, y + x, 2 z, 2 d t.
#[derive(Clone, Copy)]
struct Ready<L> {
    minus: F<L>,
    plus: F<L>,
    z: F<L>,
    t: F<L>,
}

impl<L: Eight> Points<L> {
    #[inline(always)]
    fn identity() -> Self {
        let (zero, one) = (F::splat(&ZERO), F::splat(&ONE));
        Self { x: zero, y: one, z: one, t: zero }
    }

    #[inline(always)]
    fn ready(&self, twice_d: &F<L>) -> Ready<L> {
        Ready {
            minus: self.y.minus(&self.x),
            plus: self.y.plus(&self.x),
            z: self.z.plus(&self.z),
            t: self.t.by(twice_d),
        }
    }

    /// The sum: complete, for any two points of the curve.
    #[inline(always)]
    fn plus(&self, other: &Ready<L>) -> Self {
        let a = self.y.minus(&self.x).by(&other.minus);
        let b = self.y.plus(&self.x).by(&other.plus);
        let c = self.t.by(&other.t);
        let d = self.z.by(&other.z);
        let (e, f, g, h) = (b.minus(&a), d.minus(&c), d.plus(&c), b.plus(&a));
        Self { x: e.by(&f), y: g.by(&h), z: f.by(&g), t: e.by(&h) }
    }

    #[inline(always)]
    fn doubled(&self) -> Self {
        let (a, b, c) = (self.x.square(), self.y.square(), self.z.square());
        let (sum, both) = (a.plus(&b), self.x.plus(&self.y).square());
        // All four with the other sign than the textbook's: the quotients are the same.
        let (e, g) = (sum.minus(&both), a.minus(&b));
        let f = c.raw_plus(&c).plus(&g);
        Self { x: e.by(&f), y: g.by(&sum), z: f.by(&g), t: e.by(&sum) }
    }

    #[inline(always)]
    fn turned<const BY: i32>(&self) -> Self {
        Self {
            x: self.x.turned::<BY>(),
            y: self.y.turned::<BY>(),
            z: self.z.turned::<BY>(),
            t: self.t.turned::<BY>(),
        }
    }
}

impl<L: Eight> F<L> {
    #[inline(always)]
    fn turned<const BY: i32>(&self) -> Self {
        let [a, b, c, d, e] = self.0;
        Self([a.turned::<BY>(), b.turned::<BY>(), c.turned::<BY>(), d.turned::<BY>(), e.turned::<BY>()])
    }
}

/// One multiple of one point: y - x, y + x, 2 z, 2 d t and its negation, a row of eight words each.
type Row = [[u64; 8]; 5];

/// The multiples of the points of a group, lane by lane.
type Table = [[Row; MULTIPLES]; 8];

/// Memory of sums, used again for every group.
pub(crate) struct Work<L> {
    table: Box<Table>,
    places: Vec<Points<L>>,
}

impl<L: Eight> Work<L> {
    #[inline(always)]
    fn new() -> Self {
        let mut places = Vec::with_capacity(DIGITS);
        for _ in 0..DIGITS {
            places.push(Points::identity());
        }
        Self { table: Box::new([[[[0; 8]; 5]; MULTIPLES]; 8]), places }
    }

    /// Writes numbers of eight lanes as one row of each lane.
    #[inline(always)]
    fn put(&mut self, multiple: usize, part: usize, number: &F<L>) {
        let [a, b, c, d, e] = number.store();
        let none = [0; 8];
        let lanes = L::columns([&a, &b, &c, &d, &e, &none, &none, &none]);
        for (lane, words) in lanes.iter().enumerate() {
            self.table[lane][multiple][part] = words.store();
        }
    }

    /// Writes the multiples of eight points.
    #[inline(always)]
    fn fill(&mut self, points: &[EdwardsPoint; 8], twice_d: &F<L>) {
        let (mut x, mut y) = ([[0; 8]; 5], [[0; 8]; 5]);
        for lane in 0..8 {
            for limb in 0..5 {
                x[limb][lane] = points[lane].x[limb];
                y[limb][lane] = points[lane].y[limb];
            }
        }
        let (x, y) = (F::load(&x), F::load(&y));
        let first = Points { x, y, z: F::splat(&ONE), t: x.by(&y) }.ready(twice_d);
        let (mut sum, zero) = (Points::identity(), F::splat(&ZERO));
        for multiple in 0..MULTIPLES {
            let ready = sum.ready(twice_d);
            self.put(multiple, 0, &ready.minus);
            self.put(multiple, 1, &ready.plus);
            self.put(multiple, 2, &ready.z);
            self.put(multiple, 3, &ready.t);
            self.put(multiple, 4, &zero.minus(&ready.t));
            sum = sum.plus(&first);
        }
    }

    /// One part of what the digits of a place name.
    #[inline(always)]
    fn part(&self, digits: &[i8; 8], positive: usize, negative: usize) -> F<L> {
        let table = &self.table;
        let none = [0; 8];
        let mut rows = [&none; 8];
        for lane in 0..8 {
            let digit = digits[lane];
            let part = if digit < 0 { negative } else { positive };
            rows[lane] = &table[lane][usize::from(digit.unsigned_abs())][part];
        }
        let [a, b, c, d, e, ..] = L::columns(rows);
        F([a, b, c, d, e])
    }

    /// Adds what the digits name to the sums of their places, lowest first.
    #[inline(always)]
    fn add(&mut self, digits: &[[i8; 8]]) {
        for (place, of) in digits.iter().enumerate() {
            let ready = Ready {
                minus: self.part(of, 0, 1),
                plus: self.part(of, 1, 0),
                z: self.part(of, 2, 2),
                t: self.part(of, 3, 4),
            };
            self.places[place] = self.places[place].plus(&ready);
        }
    }
}

/// The digits of a number below 2^255 in base 16, from -8 to 7; and how many there are.
fn digits(number: &[u8; 32]) -> ([i8; DIGITS], usize) {
    let (mut out, mut carry, mut count) = ([0; DIGITS], 0, 0);
    for (at, digit) in out.iter_mut().enumerate() {
        let nibble = number[at / 2] >> (4 * (at % 2)) & 0xf;
        let whole = nibble.cast_signed() + carry;
        carry = i8::from(whole >= 8 && at + 1 < DIGITS);
        *digit = whole - 16 * carry;
        if *digit != 0 {
            count = at + 1;
        }
    }
    (out, count)
}

/// X and Y - Z of eight times the sum of the multiples, of one lane: both are zero where that is the identity. Numbers are below
/// 2^255.
#[inline(always)]
pub(crate) fn eightfold<L: Eight>(points: &[&EdwardsPoint], numbers: &[[u8; 32]]) -> [Limbs; 2] {
    let twice_d = F::<L>::splat(&D).plus(&F::splat(&D));
    let mut work = Work::<L>::new();
    let mut from = 0;
    while from < points.len() {
        let mut group = [EdwardsPoint::IDENTITY; 8];
        let (mut places, mut most) = ([[0; 8]; DIGITS], 0);
        for lane in 0..8 {
            if from + lane < points.len() {
                group[lane] = *points[from + lane];
                let (of, count) = digits(&numbers[from + lane]);
                most = if count > most { count } else { most };
                for place in 0..DIGITS {
                    places[place][lane] = of[place];
                }
            }
        }
        work.fill(&group, &twice_d);
        work.add(&places[..most]);
        from += 8;
    }
    let mut sum = Points::identity();
    for place in 0..DIGITS {
        for _ in 0..4 {
            sum = sum.doubled();
        }
        sum = sum.plus(&work.places[DIGITS - 1 - place].ready(&twice_d));
    }
    for step in 0..3 {
        let other = match step {
            0 => sum.turned::<4>(),
            1 => sum.turned::<2>(),
            _ => sum.turned::<1>(),
        };
        sum = sum.plus(&other.ready(&twice_d)).doubled();
    }
    let first = |of: [[u64; 8]; 5]| [of[0][0], of[1][0], of[2][0], of[3][0], of[4][0]];
    [frozen(&first(sum.x.store())), frozen(&first(sum.y.minus(&sum.z).store()))]
}
