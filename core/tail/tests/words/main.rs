//! The ring and the register over words of this process: limits, faulty writers, two threads.

mod liar;
mod register;
mod ring;
mod threads;
