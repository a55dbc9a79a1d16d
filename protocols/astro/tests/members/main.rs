//! Members that come and go while payments go on, by what they promise.

mod alone;
mod behind;
mod books;
mod crashes;
mod crew;
mod joins;
mod pause;
mod refused;
