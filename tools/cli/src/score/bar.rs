//! What a figure must reach.

use serde_json::{Map, Value, json};

/// A demand on a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bar {
    /// At least so much.
    Least(f64),
    /// At most so much.
    Most(f64),
    /// Each part at least so much.
    LeastEach(&'static [(&'static str, f64)]),
    /// Each part at most so much; parts that are null do not exist in what is built.
    MostEach(&'static [(&'static str, f64)]),
    /// All of them, and at least so many.
    Clean(u64),
    /// All of them, and at least one.
    All,
    /// The first part at most the second.
    Within(&'static str, &'static str),
    /// It is printed; nothing is demanded but that there is one.
    Printed,
}

impl Bar {
    /// Whether a figure, counted over `n`, meets it. What is missing never does.
    pub(crate) fn is_met(self, value: &Value, n: u64) -> bool {
        let part = |name: &str| value.get(name);
        match self {
            Self::Least(least) => value.as_f64().is_some_and(|value| value >= least),
            Self::Most(most) => n > 0 && value.as_f64().is_some_and(|value| value <= most),
            Self::LeastEach(parts) => parts
                .iter()
                .all(|(name, least)| part(name).and_then(Value::as_f64).is_some_and(|value| value >= *least)),
            Self::MostEach(parts) => {
                let meets =
                    |value: &Value, most| value.is_null() || value.as_f64().is_some_and(|v| v <= most);
                n > 0 && parts.iter().all(|(name, most)| part(name).is_some_and(|value| meets(value, *most)))
            }
            Self::Clean(least) => n >= least && value.as_u64() == Some(n),
            Self::All => n > 0 && value.as_u64() == Some(n),
            Self::Within(small, large) => {
                let parts = part(small).and_then(Value::as_f64).zip(part(large).and_then(Value::as_f64));
                n > 0 && parts.is_some_and(|(small, large)| small <= large)
            }
            Self::Printed => !value.is_null(),
        }
    }

    /// The demand as it stands in the score.
    pub(crate) fn to_json(self) -> Value {
        let parts = |parts: &[(&str, f64)]| {
            Value::Object(
                parts.iter().map(|(name, bar)| ((*name).to_owned(), number(*bar))).collect::<Map<_, _>>(),
            )
        };
        match self {
            Self::Least(bar) | Self::Most(bar) => number(bar),
            Self::LeastEach(bars) | Self::MostEach(bars) => parts(bars),
            Self::Clean(bar) => json!(bar),
            Self::All => json!("all"),
            Self::Within(_, large) => json!(large),
            Self::Printed => json!("printed"),
        }
    }
}

/// A number without a fraction where it has none.
pub(crate) fn number(value: f64) -> Value {
    let text = if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value}") };
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_meets_no_bar() {
        for bar in [
            Bar::Least(0.0),
            Bar::Most(9.0),
            Bar::LeastEach(&[("a", 0.0)]),
            Bar::MostEach(&[("a", 9.0)]),
            Bar::Clean(0),
            Bar::All,
            Bar::Within("a", "b"),
            Bar::Printed,
        ] {
            assert!(!bar.is_met(&Value::Null, 0) && !bar.is_met(&Value::Null, 7), "{bar:?}");
        }
    }

    #[test]
    fn a_zero_over_nothing_is_no_zero() {
        assert!(Bar::Most(0.0).is_met(&json!(0), 50));
        assert!(!Bar::Most(0.0).is_met(&json!(0), 0), "nothing was tried");
        assert!(!Bar::All.is_met(&json!(0), 0));
        let audit = json!({ "lost": 0, "money": null });
        let bar = Bar::MostEach(&[("lost", 0.0), ("money", 0.0)]);
        assert!(bar.is_met(&audit, 9) && !bar.is_met(&audit, 0));
        assert!(!bar.is_met(&json!({ "lost": 0 }), 9), "a part that is not said");
    }

    #[test]
    fn each_demand_is_met_at_its_bar_and_not_beside_it() {
        assert!(Bar::Least(40.0).is_met(&json!(40), 1) && !Bar::Least(40.0).is_met(&json!(39.9), 1));
        assert!(Bar::Clean(1_000).is_met(&json!(1_000), 1_000));
        assert!(!Bar::Clean(1_000).is_met(&json!(1_000), 1_001), "one was not clean");
        assert!(!Bar::Clean(1_000).is_met(&json!(999), 999), "too few");
        let shares = Bar::LeastEach(&[("a", 70.0), ("b", 50.0)]);
        assert!(
            shares.is_met(&json!({ "a": 70, "b": 51 }), 1) && !shares.is_met(&json!({ "a": 99, "b": 49 }), 1)
        );
        let within = Bar::Within("growth", "formula");
        assert!(within.is_met(&json!({ "growth": 5, "formula": 5 }), 1));
        assert!(!within.is_met(&json!({ "growth": 6, "formula": 5 }), 1));
    }

    #[test]
    fn bars_are_shown_as_numbers_without_needless_fractions() {
        assert_eq!(Bar::Least(1_000.0).to_json(), json!(1000));
        assert_eq!(Bar::MostEach(&[("p50", 50.0)]).to_json(), json!({ "p50": 50 }));
        assert_eq!((number(0.1), Bar::All.to_json()), (json!(0.1), json!("all")));
    }
}
