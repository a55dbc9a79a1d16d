//! Views and the terms they form.

use synod_wire::wire;

wire! {
    /// A view: the time of one leader and at most one certified block. View 0 is the genesis.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub struct View(pub u64);
}

impl View {
    /// The view of the genesis.
    pub const GENESIS: Self = Self(0);

    /// The view after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Whether `later` is the view after this one.
    #[must_use]
    pub const fn precedes(self, later: Self) -> bool {
        self.0.saturating_add(1) == later.0
    }
}

/// How views form terms: view v belongs to term v / k, and a complaint gives up the rest of its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    views: u64,
}

impl Terms {
    /// Terms of `views` views each; at least one.
    #[must_use]
    pub const fn new(views: u64) -> Self {
        Self { views: if views == 0 { 1 } else { views } }
    }

    /// The term of `view`.
    #[must_use]
    pub const fn of(self, view: View) -> u64 {
        view.0 / self.views
    }

    /// The last view of the term of `view`: what a complaint in `view` names.
    #[must_use]
    pub const fn end(self, view: View) -> View {
        View(self.of(view).saturating_add(1).saturating_mul(self.views).saturating_sub(1))
    }

    /// Whether `view` is the first of its term.
    #[must_use]
    pub const fn is_first(self, view: View) -> bool {
        view.0.is_multiple_of(self.views)
    }

    /// Whether `view` is the last of its term.
    #[must_use]
    pub const fn is_end(self, view: View) -> bool {
        self.end(view).0 == view.0
    }
}

#[cfg(test)]
mod tests {
    use super::{Terms, View};

    #[test]
    fn a_complaint_names_the_last_view_of_its_term() {
        let terms = Terms::new(4);
        assert_eq!([0, 1, 3, 4, 7, 8].map(|v| terms.end(View(v)).0), [3, 3, 3, 7, 7, 11]);
        assert!(terms.is_first(View(4)) && !terms.is_first(View(5)));
        assert!(terms.is_end(View(7)) && !terms.is_end(View(4)));
    }

    #[test]
    fn with_terms_of_one_view_a_complaint_names_its_own_view() {
        let terms = Terms::new(1);
        assert!((0..9).all(|v| terms.end(View(v)) == View(v) && terms.is_first(View(v))));
    }
}
