//! What operations do to one key.

/// The value of a key; absent keys hold nothing.
pub type Held = Option<u64>;

/// An operation on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Tells the value.
    Get,
    /// Sets the value.
    Put(u64),
    /// Removes the key; tells whether it was there.
    Delete,
    /// Adds one to the value, that of an absent key being 0; tells the new value.
    Increment,
    /// Sets the value if the key holds `expected`; tells whether it did.
    Swap {
        /// What the key must hold.
        expected: Held,
        /// What it holds then.
        new: u64,
    },
}

/// What a client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The value of the key, or its new value.
    Value(Held),
    /// That it was done.
    Done,
    /// Whether the key was there, or held what was expected.
    Was(bool),
}

impl Action {
    /// The answer to this operation on a key that holds `held`, and what the key holds then.
    #[must_use]
    pub const fn on(self, held: Held) -> (Answer, Held) {
        match self {
            Self::Get => (Answer::Value(held), held),
            Self::Put(value) => (Answer::Done, Some(value)),
            Self::Delete => (Answer::Was(held.is_some()), None),
            Self::Increment => {
                let next = match held {
                    Some(value) => Some(value.wrapping_add(1)),
                    None => Some(1),
                };
                (Answer::Value(next), next)
            }
            Self::Swap { expected, new } => {
                let was = match (held, expected) {
                    (None, None) => true,
                    (Some(held), Some(expected)) => held == expected,
                    _ => false,
                };
                (Answer::Was(was), if was { Some(new) } else { held })
            }
        }
    }

    /// Whether it changes nothing, whatever the key holds.
    #[must_use]
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Get)
    }
}
