//! Servers and stores over an ideal order, among brokers that the test plays: the attacks of section 7.1 that concern
//! them, each named after the promise that must hold.

mod ideal;
mod world;

mod ahead;
mod attacks;
mod behind;
mod byzantine;
mod delivery;
mod drip;
mod faults;
mod golden;
mod junk;
mod lost;
mod memory;
mod rations;
mod signup;
mod silent;
mod strange;
mod whole;
mod witnessing;
