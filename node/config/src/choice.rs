//! Enumerations whose variants are words in a file.

/// A closed set of words.
pub(crate) trait Choice: Copy + Sized + 'static {
    /// The words and their values, in the order documents list them.
    const ALL: &'static [(&'static str, Self)];

    /// The value a word names.
    fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
    }
}

/// Declares an enumeration, its words, `parse`, `as_str`, `Display` and `Choice`.
macro_rules! choices {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// The words a file may use.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];

            /// The value a word names.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                <Self as crate::choice::Choice>::named(word)
            }

            /// The word as it stands in the file.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl crate::choice::Choice for $name {
            const ALL: &'static [(&'static str, Self)] = &[$(($word, Self::$variant),)+];
        }
    };
}
pub(crate) use choices;
