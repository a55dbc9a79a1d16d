//! The scenes of payments, each with a sentence that says when it passes.

use super::double;
use crate::bench::{
    Books, PayAudit, PayLoad, Payment, ProcessPlan, Processes, pay_audit, pay_open, pay_places,
};
use crate::demo::Scene;
use crate::exit::bug;
use std::time::{Duration, Instant};
use synod_config::{SynError, code};

/// Institutions.
pub(crate) const NODES: u8 = 4;
/// How long what is wanted of a scene may take on a slow and busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(5);

/// What the play showed.
pub(crate) struct PayShown {
    pub(crate) scenes: Vec<Scene>,
    pub(crate) audit: PayAudit,
    /// The receipt, as a file that anybody may check.
    pub(crate) receipt: std::path::PathBuf,
}

fn scene(name: &'static str, (ok, operations): (bool, u64), begun: Instant, note: String) -> Scene {
    Scene { name, ok, operations, took: begun.elapsed(), gap_ms: None, note }
}

/// Plays every scene; `show` hears each as it ends.
///
/// # Errors
/// The code of whatever kept the play from going on; a scene that fails is no error.
pub(crate) fn play(
    plan: &ProcessPlan,
    cluster: &mut Processes,
    ready: Duration,
    show: &mut dyn FnMut(&Scene),
) -> Result<PayShown, SynError> {
    let mut scenes = Vec::new();
    let mut add = |scene: Scene| {
        show(&scene);
        scenes.push(scene);
    };
    let note = format!("{NODES} institutions, each a process with a journal; one may do anything");
    add(Scene { name: "ready", ok: true, operations: 0, took: ready, gap_ms: None, note });
    let begun = Instant::now();
    let mut books = pay_open(plan, cluster)?;
    let note = format!("{} accounts are open and have money of their institutions", plan.accounts);
    add(scene("accounts", (true, u64::from(plan.accounts)), begun, note));

    let load = PayLoad::start(plan, pay_places(cluster))?;
    let begun = Instant::now();
    until(&load, plan.payments / 4)?;
    let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
    let per_s = load.settled()? * 1_000 / ms;
    let note = format!("customers of all pay each other at random: {per_s} payments settle in a second");
    add(scene("pay", (true, load.settled()?), begun, note));

    let (begun, before) = (Instant::now(), load.settled()?);
    let victim = plan.victim();
    cluster.kill(victim);
    until(&load, plan.payments * 5 / 8)?;
    let events = load.events();
    let others = events.iter().filter(|event| event.at > begun && event.institution != victim);
    let others: u64 = others.map(|event| event.payments).sum();
    let note = format!(
        "{} is killed with SIGKILL: {others} payments of the others' customers settle without it",
        cluster.name(victim)
    );
    add(scene("kill", (others > 0 && before < plan.payments, others), begun, note));

    let begun = Instant::now();
    cluster.launch(victim)?;
    cluster.await_all()?;
    until(&load, plan.payments)?;
    let again = load.again();
    books.add(load.end()?);
    // What is paid next is judged by what has settled where it is ordered, so all of it has to be there.
    let level = pay_audit(&pay_places(cluster), books.clone())?;
    let note = format!("it is back from its journal; {again} requests were sent again with the same ids");
    add(scene("recover", (again > 0 && level.ok(), 0), begun, note));

    let (shown, payment, n) = double::spend(cluster, &books)?;
    books.paid(&payment, n);
    add(shown);
    let (shown, receipt) = double::receipt(cluster, &books, (&payment, n))?;
    add(shown);
    let begun = Instant::now();
    let audit = pay_audit(&pay_places(cluster), books)?;
    add(scene("audit", (audit.ok(), plan.payments + 1), begun, audit.sentence()));
    Ok(PayShown { scenes, audit, receipt })
}

/// Waits until so many payments have settled.
fn until(load: &PayLoad, wanted: u64) -> Result<(), SynError> {
    let deadline = Instant::now() + PATIENCE;
    while load.settled()? < wanted {
        if Instant::now() >= deadline {
            let values = [("address", "the institutions"), ("stage", "payments")];
            return Err(SynError::of(code::NO_ANSWER, &values));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// The first customer of an institution, in the books.
pub(super) fn first_of(books: &Books, institution: usize) -> Result<usize, SynError> {
    let mut all = 0..books.accounts.len();
    all.find(|one| books.institution(*one) == institution).ok_or_else(|| bug("demo", &"no such customer"))
}

/// What a customer has by the books.
pub(super) fn available(books: &Books, customer: usize) -> u128 {
    books.accounts.get(customer).map_or(0, |account| account.credits - account.debits)
}

/// A payment that pays all of it.
pub(super) fn all_of(books: &Books, id: u128, (from, to): (usize, usize)) -> Payment {
    Payment { id, from, to, amount: available(books, from) }
}
