//! A vocabulary without words, for machines that send nothing, keep nothing or compute nothing.

use synod_crypto::Keys;
use synod_wire::{Malformed, Reader, Why, Wire, Writer};

use crate::{Job, Message, Queue, Record};

/// A type without values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Never {}

impl Wire for Never {
    fn write(&self, _: &mut Writer) {
        match *self {}
    }
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        Err(input.refuse(Why::UnknownTag(0)))
    }
}

impl Message for Never {
    fn queue(&self) -> Queue {
        match *self {}
    }
}

impl Record for Never {}

impl Job for Never {
    type Done = Self;
    fn run(self, _: &Keys) -> Self {
        self
    }
}
