//! Ring, pipe and register over words of this process: limits, faulty writers, two threads.

mod liar;
mod pipe;
mod register;
mod ring;
mod threads;
