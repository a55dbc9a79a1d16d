//! The enums that a protocol writes once per word: what a peer can do wrong, which rules were applied, what notes say.

/// Makes an enum of words that each have one name: [`Rule`](crate::Rule)s or [`Note`](crate::Note)s of a protocol.
///
/// ```
/// synod_machine::names! {
///     /// Rules.
///     Rule:
///     /// Line 7.
///     Propose = "R1_propose";
/// }
/// assert_eq!((Rule::ALL.len(), Rule::Propose.name()), (1, "R1_propose"));
/// ```
#[macro_export]
macro_rules! names {
    ($(#[$top:meta])* $type:ident: $( $(#[$doc:meta])* $name:ident = $label:literal; )*) => {
        $(#[$top])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $type { $( $(#[$doc])* $name, )* }

        impl $type {
            /// Every one there is.
            pub const ALL: &'static [Self] = &[ $( Self::$name, )* ];

            /// The name in traces and in the line map.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$name => $label, )* }
            }
        }
    };
}

/// Makes a protocol's `Fault`: one variant per rule that a peer can break, with its SYN code and its name. It converts into
/// [`Fault`](crate::Fault), with evidence or without.
///
/// ```
/// synod_machine::faults! {
///     /// Spoke without being a member.
///     Stranger = 4_999, "stranger";
/// }
/// let erased: synod_machine::Fault = Fault::Stranger.into();
/// assert_eq!((erased.code, erased.name, erased.evidence.len()), (4_999, "stranger", 0));
/// assert_eq!(Fault::Stranger.with(&7_u64).evidence.len(), 1);
/// ```
#[macro_export]
macro_rules! faults {
    ($( $(#[$doc:meta])* $name:ident = $code:literal, $label:literal; )*) => {
        /// A rule that a peer broke.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Fault { $( $(#[$doc])* $name, )* }

        impl Fault {
            /// Every fault there is.
            pub const ALL: &'static [Self] = &[ $( Self::$name, )* ];

            /// The SYN code.
            #[must_use]
            pub const fn code(self) -> u16 {
                match self { $( Self::$name => $code, )* }
            }

            /// The name in metrics and evidence files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$name => $label, )* }
            }

            /// This fault with what proves it, cut at 4 KiB.
            #[must_use]
            pub fn with(self, evidence: &impl ::synod_wire::Wire) -> $crate::Fault {
                $crate::Fault { evidence: $crate::evidence(evidence), ..self.into() }
            }
        }

        impl From<Fault> for $crate::Fault {
            fn from(fault: Fault) -> Self {
                Self { code: fault.code(), name: fault.name(), evidence: ::synod_wire::Bytes::new() }
            }
        }
    };
}
