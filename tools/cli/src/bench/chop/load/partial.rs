//! `--part partial`: how many messages per second, by the share of them that is under the multi-signature.

use super::e2e::{cluster, figures};
use super::plan::LoadPlan;
use super::report::{common_fields, middle, of_batches, unavailable};
use super::rig::members;
use crate::bench::chop::report::rounded;
use crate::exit::bug;
use crate::output::Report;
use crate::session::Session;
use serde_json::{Value, json};
use synod_config::SynError;

/// Shares, of a thousand.
const SHARES: [u16; 6] = [0, 250, 500, 750, 950, 1_000];

/// Measures one cluster per share; the fields that all benchmarks have are those of the first: nothing is distilled.
///
/// # Errors
/// What could not be started; SYN-6009 if an audit fails.
pub(super) fn measure(session: &Session, plan: &LoadPlan) -> Result<Report, SynError> {
    let members = members(session, plan.clients)?;
    let (mut curve, mut rates, mut first) = (Vec::new(), Vec::new(), None);
    for distilled in SHARES {
        session.watched(&format!("distilled: {} of a thousand", distilled));
        let one = LoadPlan { distilled, ..plan.clone() };
        let measured = cluster(session, &one, (&members, plan.repeat, false))?;
        let Some((stretch, range)) = middle(&measured.stretches) else { continue };
        let mut point =
            serde_json::Map::from_iter([("distilled".to_owned(), json!(f64::from(distilled) / 1_000.0))]);
        point.insert("messages_per_s_spread".to_owned(), range.map(rounded).to_vec().into());
        let figures = figures(stretch, &measured.books);
        point.extend(figures.into_iter().map(|(key, value)| (key.to_owned(), value)));
        curve.push(Value::Object(point));
        rates.push(stretch.per_s());
        if first.is_none() {
            let report = common_fields(&one, plan.durability(), stretch, &measured.books, &measured.audit);
            first = Some((report, of_batches(&one, "partial", measured.pool)));
        }
    }
    let (report, mut own) = first.ok_or_else(|| bug("bench", &"nothing was measured"))?;
    own.insert("monotone".to_owned(), rises(&rates).into());
    own.insert("ratio_curve".to_owned(), curve.into());
    unavailable(&[("stage_ns", "stages are measured by --part auth and --part server")], &mut own);
    Ok(report.field("chop", own))
}

/// Whether no rate is below the one before it.
fn rises(rates: &[f64]) -> bool {
    rates.windows(2).all(|pair| pair[0] <= pair[1])
}

#[cfg(test)]
mod tests {
    use super::{SHARES, rises};

    #[test]
    fn a_curve_that_falls_once_is_not_monotone() {
        assert!(rises(&[1.0, 2.0, 2.0, 5.0]) && !rises(&[1.0, 3.0, 2.0]));
        assert!(SHARES.is_sorted() && SHARES.first() == Some(&0) && SHARES.last() == Some(&1_000));
    }
}
