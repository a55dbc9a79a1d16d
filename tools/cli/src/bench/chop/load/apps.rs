//! `--part apps`: one application after another under the same load, then each alone on one core.

use super::e2e::{cluster, figures};
use super::plan::{App, LoadPlan};
use super::report::{common_fields, middle, of_batches, unavailable};
use super::rig::members;
use crate::bench::chop::report::rounded;
use crate::exit::bug;
use crate::output::Report;
use crate::session::Session;
use serde_json::{Map, Value, json};
use synod_config::SynError;

/// Measures one cluster per application, and one whose messages are operations of none: what ordering alone carries.
///
/// # Errors
/// What could not be started; SYN-6009 if an audit fails.
pub(super) fn measure(session: &Session, plan: &LoadPlan) -> Result<Report, SynError> {
    let members = members(session, plan.clients)?;
    let none = ("none: 9 bytes, operations of no application", LoadPlan { size: 9, ..plan.clone() });
    let apps = App::ALL.map(|app| (app.name(), LoadPlan { app, ..plan.clone() }));
    let (mut all, mut first, mut base) = (Vec::new(), None, 0.0_f64);
    for (name, one) in std::iter::once(none).chain(apps) {
        session.watched(name);
        let measured = cluster(session, &one, (&members, plan.repeat, false))?;
        let Some((stretch, range)) = middle(&measured.stretches) else { continue };
        let is_base = base <= 0.0;
        if is_base {
            base = stretch.per_s();
        }
        let mut row = Map::from_iter([("app".to_owned(), json!(name))]);
        row.insert("share_of_none".to_owned(), rounded(stretch.per_s() / base.max(1e-9)));
        row.insert("messages_per_s_spread".to_owned(), range.map(rounded).to_vec().into());
        let figures = figures(stretch, &measured.books);
        row.extend(figures.into_iter().map(|(key, value)| (key.to_owned(), value)));
        all.push(Value::Object(row));
        if !is_base && first.is_none() {
            let report = common_fields(&one, plan.durability(), stretch, &measured.books, &measured.audit);
            first = Some((report, of_batches(&one, "apps", measured.pool)));
        }
    }
    let (report, mut own) = first.ok_or_else(|| bug("bench", &"nothing was measured"))?;
    own.insert("apps".to_owned(), all.into());
    session.watched("applications alone");
    let alone = super::alone::measure(plan)?;
    own.insert("auction_alone_per_s".to_owned(), alone["auction"]["messages_per_s"].clone());
    own.insert("alone".to_owned(), alone.into());
    unavailable(&[], &mut own);
    Ok(report.field("chop", own))
}
