//! Section 6 of the specification, row by row: what bad input comes to at a correct representative, and from a Byzantine one.

mod cases;
mod shop;
mod table;
