//! One measured number with its target, and the table that shows them.

/// A number for the review, already written out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// What is measured.
    pub(crate) name: &'static str,
    /// The value, or why there is none.
    pub(crate) value: Result<String, String>,
    /// What the project aims at.
    pub(crate) target: &'static str,
}

impl Row {
    pub(crate) fn new(name: &'static str, value: impl Into<String>, target: &'static str) -> Self {
        Self { name, value: Ok(value.into()), target }
    }

    pub(crate) const fn is_measured(&self) -> bool {
        self.value.is_ok()
    }
}

/// Writes rows as a Markdown table.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut out = String::from("| number | value | target |\n|---|---|---|\n");
    for row in rows {
        let value = match &row.value {
            Ok(value) => value.clone(),
            Err(why) => format!("not measured: {why}"),
        };
        out.push_str(&format!("| {} | {value} | {} |\n", row.name, row.target));
    }
    out
}

/// Gives the value at a share (in hundredths) of the sorted list, by nearest rank; 0 for an empty list.
pub(crate) fn percentile(values: &mut [usize], hundredths: usize) -> usize {
    values.sort_unstable();
    let rank = (values.len() * hundredths).div_ceil(100);
    values.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// Writes `part / whole` with one decimal, in units of 1/`scale`: 100 for per cent, 1,000 for per thousand.
pub(crate) fn share(part: usize, whole: usize, scale: usize) -> String {
    let tenths = (part * scale * 10 + whole / 2).checked_div(whole).unwrap_or(0);
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::{Row, percentile, share, table};

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut values = [5, 1, 4, 2, 3];
        assert_eq!([1, 50, 90, 100].map(|p| percentile(&mut values, p)), [1, 3, 5, 5]);
        assert_eq!(percentile(&mut [], 50), 0);
    }

    #[test]
    fn shares_are_rounded_to_one_decimal() {
        assert_eq!(share(1, 3, 100), "33.3");
        assert_eq!(share(2, 3, 100), "66.7");
        assert_eq!(share(3, 2_000, 1_000), "1.5");
        assert_eq!(share(1, 0, 100), "0.0");
    }

    #[test]
    fn a_number_without_a_value_says_why() {
        let rows = [Row::new("a", "1", "2"), Row { name: "b", value: Err("no git".into()), target: "3" }];
        assert!(rows[0].is_measured() && !rows[1].is_measured());
        let shown = table(&rows);
        assert!(shown.ends_with("| a | 1 | 2 |\n| b | not measured: no git | 3 |\n"), "{shown}");
    }
}
