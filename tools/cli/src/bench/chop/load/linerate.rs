//! `--part linerate`: bytes on the wire of a server, per message.
//!
//! Two counts. Under load, everything that servers take from the broker and from one another is counted per message; from it
//! comes what is not bodies: items, shards, votes. And batches whose ids are of a much larger directory are uploaded to the same
//! servers, which nobody asks to witness them (they know no such clients): their bytes are those of genuine ones. Bytes do not
//! depend on the speed, so the load of this part is what the machine reaches.

use super::plan::LoadPlan;
use super::report::{common_fields, of_batches, unavailable};
use super::rig::{Rig, SERVERS, Stretch, members};
use super::wire::{entropy_bits, on_wire};
use crate::bench::chop::report::{float, rounded};
use crate::bench::pages::Passed;
use crate::output::Report;
use crate::session::{Session, usage as wrong_usage};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use synod_config::SynError;
use synod_load::chop::broker::{Bare, Ids};

/// Batches that are uploaded to be counted, of each form.
const COUNTED: u64 = 8;
/// How long an upload may take, and how long nothing more may be sent until it counts as ended.
const UPLOAD: Duration = Duration::from_secs(60);
const STILL: Duration = Duration::from_millis(300);

/// What batches of one form cost.
struct Form {
    ids: Ids,
    /// Header and body of one batch, and what was sent for all of them to all servers.
    batch_bytes: u64,
    sent: u64,
}

/// Counts and gives the result.
///
/// # Errors
/// What could not be started; SYN-6009 if the audit fails.
pub(super) fn measure(session: &Session, plan: &LoadPlan) -> Result<Report, SynError> {
    let members = members(session, plan.clients)?;
    let rig = Rig::start(session, plan, &members)?;
    rig.warm_up(session, plan)?;
    session.watched("counting under load");
    // From rest to rest, so that every batch counted is counted whole.
    let _ = rig.driver.drain(UPLOAD);
    let (before, sent_before) = (rig.driver.books(), rig.driver.carried());
    let stretch = rig.stretch(|| {
        rig.driver.pace(synod_load::chop::broker::Pace::Window(plan.window));
        std::thread::sleep(plan.span);
        let _ = rig.driver.drain(UPLOAD);
        still(&rig)
    })?;
    let (after, sent_after) = (rig.driver.books(), rig.driver.carried());
    let (batches, payload) = (after.sent.0 - before.sent.0, after.bytes - before.bytes);
    let mut forms = Vec::new();
    for ids in [Ids::Packed, Ids::Smallest] {
        session.watched(&format!("counting {COUNTED} batches of {} ids, {ids:?}", plan.id_space));
        forms.push(upload(&rig, plan, ids)?);
    }
    let control = control(&forms, (sent_after.sent - sent_before.sent, payload), batches);
    let between = float(received_between(&stretch)) / float((batches * u64::from(SERVERS)).max(1));
    let rows: Vec<Value> = forms.iter().map(|form| row(plan, form, control + between)).collect();
    let pool = rig.driver.pool();
    let (books, audit) = rig.close(session, plan)?;
    let mut own = of_batches(plan, "linerate", pool);
    own.insert("id_space".to_owned(), plan.id_space.into());
    own.insert("batches_under_load".to_owned(), batches.into());
    own.insert("control_bytes_per_batch".to_owned(), rounded(control));
    own.insert("between_servers_bytes_per_batch".to_owned(), rounded(between));
    own.insert("forms".to_owned(), rows.into());
    for (key, at, of) in [("overhead_fig9", 0, "overhead"), ("overhead_entropy", 1, "overhead_entropy")] {
        let figure = own.get("forms").and_then(|forms| forms.get(at)?.get(of).cloned());
        own.insert(key.to_owned(), figure.unwrap_or(Value::Null));
    }
    unavailable(&[("stage_ns", "stages are measured by --part auth and --part server")], &mut own);
    Ok(common_fields(plan, plan.durability(), &stretch, &books, &audit).field("chop", own))
}

/// Waits until nothing is sent any more, but for heartbeats.
fn still(rig: &Rig) -> Result<(), SynError> {
    let (mut last, mut since) = (rig.driver.carried().sent, Instant::now());
    rig.until(UPLOAD, "uploads", || {
        let now = rig.driver.carried().sent;
        if now.saturating_sub(last) > 4_096 {
            (last, since) = (now, Instant::now());
        }
        since.elapsed() >= STILL
    })
}

/// Uploads batches of one form and counts.
fn upload(rig: &Rig, plan: &LoadPlan, ids: Ids) -> Result<Form, SynError> {
    let cluster = synod_host::chop::cluster(&rig.cluster.genesis)?;
    let height = rig.driver.books().height;
    let bare = Bare { count: plan.batch, space: plan.id_space, ids, operations: plan.source().operations };
    let before = rig.driver.carried().sent;
    let (mut bytes, begun) = (0, Instant::now());
    for number in 0..COUNTED {
        let sealed =
            bare.seal(&cluster, (number, height + 1_000)).map_err(|why| wrong_usage(&why.to_string()))?;
        bytes = 192 + sealed.body.len() as u64;
        rig.driver.show(sealed);
    }
    let least = COUNTED * u64::from(SERVERS) * bytes;
    rig.until(UPLOAD.saturating_sub(begun.elapsed()), "uploads", || {
        rig.driver.carried().sent - before >= least
    })?;
    still(rig)?;
    Ok(Form { ids, batch_bytes: bytes, sent: rig.driver.carried().sent - before })
}

/// Bytes per batch that one server takes from the broker beside header and body in their frames.
fn control(forms: &[Form], (sent, payload): (u64, u64), batches: u64) -> f64 {
    let (framed, bare) = forms.iter().fold((0, 0), |(framed, bare), form| {
        (framed + form.sent, bare + COUNTED * u64::from(SERVERS) * form.batch_bytes)
    });
    let in_frames = float(payload) * f64::from(SERVERS) * float(framed) / float(bare.max(1));
    ((float(sent) - in_frames) / float((batches * u64::from(SERVERS)).max(1))).max(0.0)
}

/// Bytes that servers took from one another.
fn received_between(stretch: &Stretch) -> u64 {
    let of = |page: &Passed| page.rise("synod_net_received_bytes_total").unwrap_or(0.0);
    let all: f64 = stretch.pages.iter().map(of).sum();
    format!("{:.0}", all.max(0.0)).parse().unwrap_or(0)
}

/// Bytes per message that one server takes, and what they are above what must be said.
fn row(plan: &LoadPlan, form: &Form, beside: f64) -> Value {
    let count = f64::from(plan.batch);
    let upload = float(form.sent) / float(COUNTED * u64::from(SERVERS));
    let ingress = (upload + beside) / count;
    let whole = format!("{:.0}", (upload + beside) * float(COUNTED)).parse().unwrap_or(0);
    let wire = float(on_wire(whole)) / float(COUNTED) / count;
    let bits = f64::from(u32::BITS - plan.id_space.saturating_sub(1).leading_zeros());
    let useful = bits / 8.0 + f64::from(plan.size);
    let bound = entropy_bits(plan.batch, plan.id_space) / 8.0 + f64::from(plan.size);
    let fine = |value: f64| json!((value * 10_000.0).round() / 10_000.0);
    json!({
        "ids": match form.ids { Ids::Packed => "packed", Ids::Smallest => "smallest" },
        "batch_bytes": form.batch_bytes, "batch_bytes_per_msg": fine(float(form.batch_bytes) / count),
        "ingress_bytes_per_msg": fine(ingress), "wire_bytes_per_msg": fine(wire),
        "useful_bytes_per_msg": fine(useful), "overhead": fine(wire / useful - 1.0),
        "bound_bytes_per_msg": fine(bound), "overhead_entropy": fine(wire / bound - 1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::plan;
    use super::{COUNTED, Form, Ids, LoadPlan, control, row};

    #[test]
    fn the_paper_s_batch_has_the_overhead_that_its_bytes_have() {
        let plan = LoadPlan { batch: 65_536, id_space: 257_000_000, ..plan() };
        // 28 bits an id, 8 bytes, one bit of parity, a header; without frames and TLS.
        let batch_bytes = 229_376 + 524_288 + 8_192 + 192;
        let form = Form { ids: Ids::Packed, batch_bytes, sent: COUNTED * 4 * batch_bytes };
        let row = row(&plan, &form, 0.0);
        assert_eq!((&row["useful_bytes_per_msg"], &row["ids"]), (&11.5.into(), &"packed".into()));
        let overhead = row["overhead"].as_f64().expect("a number");
        assert!((0.055..0.06).contains(&overhead), "1.1 % of parity and 4.6 % of segments: {row}");
    }

    #[test]
    fn what_is_sent_beside_bodies_is_what_frames_do_not_explain() {
        let forms = [Form { ids: Ids::Packed, batch_bytes: 1_000, sent: COUNTED * 4 * 1_100 }];
        let beside = control(&forms, (10 * 4 * (1_100 + 50), 10 * 1_000), 10);
        assert!((beside - 50.0).abs() < 1e-6, "{beside}");
        assert!(control(&forms, (0, 10), 0).abs() < 1e-6, "nothing was sent");
    }
}
