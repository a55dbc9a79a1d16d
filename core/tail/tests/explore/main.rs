//! The ring and the register, explored word by word: every order of the loads, stores and fences of two sides.

mod explorer;
mod memory;
mod register;
mod ring;
