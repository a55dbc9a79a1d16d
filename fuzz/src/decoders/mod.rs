//! One target per decoder, by the crate that decodes.

pub mod astro;
pub mod bls;
pub mod broadcast;
pub mod channel;
pub mod chopchop;
pub mod config;
pub mod hotstuff;
pub mod http;
pub mod journal;
pub mod kv;
pub mod ledger;
pub mod link;
pub mod merkle;
pub mod orderbook;
pub mod resp;
pub mod service;
pub mod ubft;
pub mod vocabulary;

use synod_wire::Drawn;

/// A target per type with a canonical encoding: `"name" function Type;`, then the module's other targets.
macro_rules! wires {
    ($( $name:literal $run:ident $type:ty; )* $( and $more:expr; )*) => {
        $(
            #[doc = concat!("Decodes a `", stringify!($type), "`.")]
            ///
            /// # Panics
            /// With the property that broke.
            pub fn $run(bytes: &[u8]) {
                $crate::check::wire::<$type>(bytes);
            }
        )*

        /// The targets of this module.
        pub(crate) const TARGETS: &[$crate::Target] = &[
            $( $crate::Target::new($name, $crate::Kind::Decoder, $run, $crate::check::drawn::<$type>), )*
            $( $more, )*
        ];
    };
}
use wires;

/// Bytes, mostly few.
fn some_bytes(from: &mut Drawn, max: u64) -> Vec<u8> {
    let longest = if from.below(8) == 0 { max } else { max.min(12) };
    (0..from.below(longest + 1)).map(|_| from.next().to_le_bytes()[0]).collect()
}

/// One of `choices`.
fn one_of<'a, T: ?Sized>(from: &mut Drawn, choices: &[&'a T]) -> &'a T {
    let at = usize::try_from(from.below(choices.len() as u64)).unwrap_or(0);
    choices[at]
}
