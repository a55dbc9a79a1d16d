//! The scenes, each with a sentence that says when it passes.

use super::audit::{PATIENCE, audit};
use super::cluster::{BROKERS, ChopCluster, SERVERS};
use super::people::{PEOPLE, People, TURN};
use super::storm::{STROKES, Sealed, Storm};
use crate::bench::Audit;
use crate::demo::{Scene, millis};
use crate::exit::bug;
use crate::proof::{Proof, RECEIPT, invalid};
use crate::servers::Servers;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use synod_chopchop::certificate::DeliveryCertificate;
use synod_chopchop::config::Cluster;
use synod_chopchop::receipt::Receipt;
use synod_config::{Context, SynError};
use synod_crypto::{Keys, Seed};
use synod_wire::{Blob, Bytes, Wire as _};

/// How long people paint before something happens, and how long they go on after that.
const BEFORE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(3);

/// What the play showed.
pub(crate) struct Shown {
    pub(crate) scenes: Vec<Scene>,
    pub(crate) audit: Audit,
    /// The figures of Chop Chop alone.
    pub(crate) figures: Value,
    /// The memory of all processes together, at most.
    pub(crate) memory: u64,
    /// A receipt, as a file that anybody may check.
    pub(crate) receipt: PathBuf,
}

/// What the storm measured.
struct Stormed {
    sealed: Sealed,
    strokes: u64,
    took: Duration,
    links: Duration,
    receipts: Vec<Receipt>,
}

fn scene(name: &'static str, ok: bool, operations: u64, took: Duration, note: String) -> Scene {
    Scene { name, ok, operations, took, gap_ms: None, note }
}

/// Plays every scene; `show` hears each as it ends.
///
/// # Errors
/// The code of whatever kept the play from going on; a scene that fails is no error.
pub(crate) async fn play(
    cluster: &mut ChopCluster,
    context: &Context,
    ready: Duration,
    show: &mut dyn FnMut(&Scene),
) -> Result<Shown, SynError> {
    let mut scenes = Vec::new();
    let mut add = |scene: Scene| {
        show(&scene);
        scenes.push(scene);
    };
    let note = format!("{SERVERS} servers, one may do anything; {BROKERS} brokers, all but one may");
    add(scene("ready", true, 0, ready, note));
    let (mut people, shown) = sign_up(cluster).await?;
    add(shown);
    let (stormed, shown) = storm(cluster).await?;
    add(shown);
    let memory = cluster.memory();
    add(broker(cluster, &mut people).await?);
    let (shown, victim) = server(cluster, &mut people, context).await?;
    add(shown);
    add(recover(cluster, &mut people, victim).await?);
    let (shown, verified, receipt) = receipts(cluster, &people, &stormed)?;
    add(shown);
    let begun = Instant::now();
    let audit = audit(cluster, &people, &[victim]).await?;
    let note = format!(
        "{} lost, {} duplicated of {} strokes; boards equal at {} servers: {}",
        audit.lost, audit.duplicated, audit.keys, audit.members, audit.state_hash_equal
    );
    add(scene("audit", audit.ok(), audit.keys, begun.elapsed(), note));
    people.stop()?;
    let figures = figures(cluster, &stormed, verified);
    Ok(Shown { scenes, audit, figures, memory, receipt })
}

async fn sign_up(cluster: &ChopCluster) -> Result<(People, Scene), SynError> {
    let begun = Instant::now();
    let people = People::sign_up(cluster).await?;
    let mut ids: Vec<u32> = people.0.iter().map(|person| person.id).collect();
    ids.sort_unstable();
    ids.dedup();
    let ok = ids.len() == people.0.len() && ids.iter().all(|id| *id >= cluster.painters);
    let note = format!("{PEOPLE} people proved that they have their keys, and got numbers of their own");
    Ok((people, scene("signup", ok, PEOPLE.into(), begun.elapsed(), note)))
}

/// Hundredths of a per cent, for people.
fn per_cent(of_ten_thousand: u64) -> String {
    format!("{}.{:02} %", of_ten_thousand / 100, of_ten_thousand % 100)
}

async fn storm(cluster: &ChopCluster) -> Result<(Stormed, Scene), SynError> {
    let begun = Instant::now();
    let storm = Storm::start(cluster).await?;
    let (links, before) = (begun.elapsed(), Sealed::look(cluster)?);
    let took = storm.paint().await?;
    let (sealed, strokes) = (Sealed::look(cluster)?.since(before), storm.strokes());
    let receipts = storm.stop()?;
    // How many sign together depends on how soon a busy machine lets them answer: the share is shown, not judged.
    let ok = sealed.distilled() > 0 && sealed.messages >= strokes;
    let per_s = u128::from(strokes) * 1_000 / took.as_millis().max(1);
    let note = format!(
        "{strokes} strokes of {} clients in {} ms ({per_s}/s): {} under {} multi-signatures, {} bytes each",
        cluster.painters,
        millis(took),
        per_cent(sealed.distilled()),
        sealed.batches,
        each(sealed),
    );
    let shown = scene("storm", ok, strokes, begun.elapsed(), note);
    Ok((Stormed { sealed, strokes, took, links, receipts }, shown))
}

/// Bytes of a batch for each of its messages, with two digits.
fn each(sealed: Sealed) -> String {
    let hundredths = sealed.bytes * 100 / sealed.messages.max(1);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

async fn broker(cluster: &mut ChopCluster, people: &mut People) -> Result<Scene, SynError> {
    let begun = Instant::now();
    let victim = usize::from(SERVERS);
    let under = people.under((BEFORE, AFTER), || {
        cluster.kill(victim);
        Ok(())
    });
    let under = under.await?;
    let gap = millis(under.gap);
    let note = format!(
        "{} killed: nobody's stroke arrived for {gap} ms; people turn to {} after {} ms of silence",
        cluster.name(victim),
        cluster.name(victim + 1),
        TURN.as_millis(),
    );
    let shown = scene("broker", gap > 0, under.strokes, begun.elapsed(), note);
    Ok(Scene { gap_ms: Some(gap), ..shown })
}

async fn server(
    cluster: &mut ChopCluster,
    people: &mut People,
    context: &Context,
) -> Result<(Scene, usize), SynError> {
    let begun = Instant::now();
    let leader = cluster.leader(context);
    let victim = leader.unwrap_or(0);
    let under = people.under((BEFORE, AFTER), || {
        cluster.kill(victim);
        Ok(())
    });
    let under = under.await?;
    let gap = millis(under.gap);
    let name = cluster.name(victim);
    let what = if leader.is_some() { "which led the order" } else { "a server" };
    let note = format!("{name}, {what}, killed: nobody's stroke arrived for {gap} ms");
    let shown = scene("server", gap > 0, under.strokes, begun.elapsed(), note);
    Ok((Scene { gap_ms: Some(gap), ..shown }, victim))
}

async fn recover(cluster: &mut ChopCluster, people: &mut People, victim: usize) -> Result<Scene, SynError> {
    let begun = Instant::now();
    cluster.launch(victim)?;
    cluster.launch(usize::from(SERVERS))?;
    // Something to deliver, so that a server that waits hears of the newest batch.
    let under = people.under((BEFORE, Duration::ZERO), || Ok(())).await?;
    let height = Servers::connect(cluster.genesis())?.settled(PATIENCE).await?;
    let note =
        format!("{} is back from its journal; all servers are at height {height}", cluster.name(victim));
    Ok(scene("recover", true, under.strokes, begun.elapsed(), note))
}

/// Checks every receipt with the genesis alone, and that one with a changed bit proves nothing.
fn receipts(
    cluster: &ChopCluster,
    people: &People,
    stormed: &Stormed,
) -> Result<(Scene, u64, PathBuf), SynError> {
    let begun = Instant::now();
    let own = people.0.iter().flat_map(|person| &person.receipts);
    let all: Vec<&Receipt> = own.chain(&stormed.receipts).collect();
    let found = verified(&cluster.known, all.clone())?;
    let last = all.last().ok_or_else(|| invalid("nobody has a receipt"))?;
    let refused = changed(last).verify(&cluster.known, &nobodys()).is_err();
    let file = cluster.directory().join("receipt.json");
    Proof::new(RECEIPT, cluster.genesis(), &last.encode()).write(&file)?;
    let acknowledged = people.strokes() + stormed.strokes;
    let told = acknowledged.saturating_sub(found);
    let note = format!(
        "{found} of {acknowledged} deliveries shown by receipts checked with the genesis alone, {told} known by the word of f + 1 servers; \
         with one bit changed refused: {refused}"
    );
    // How many had a stroke at the broker that was killed is shown, not judged.
    let ok = found >= stormed.strokes && found <= acknowledged && refused;
    Ok((scene("receipts", ok, found, begun.elapsed(), note), found, file))
}

/// Only public keys are used: the secret is one that nobody has.
fn nobodys() -> Keys {
    Keys::ed25519(&Seed::new([0; 32]), [0; 32])
}

/// How many receipts hold. A certificate that was found good is not checked again.
///
/// # Errors
/// SYN-6002 with what is wrong with the first that does not hold.
fn verified(known: &Cluster, mut receipts: Vec<&Receipt>) -> Result<u64, SynError> {
    let keys = nobodys();
    receipts.sort_by_key(|receipt| receipt.certificate.statement.height);
    let mut good: Option<&DeliveryCertificate> = None;
    for receipt in &receipts {
        let checked = match good {
            Some(certificate) if *certificate == receipt.certificate => receipt.shows(known),
            _ => receipt.verify(known, &keys),
        };
        checked.map_err(|why| invalid(&why.to_string()))?;
        good = Some(&receipt.certificate);
    }
    u64::try_from(receipts.len()).map_err(|error| bug("receipts", &error))
}

/// The same with one bit of the message changed.
fn changed(receipt: &Receipt) -> Receipt {
    let mut message = receipt.message.bytes().to_vec();
    if let Some(byte) = message.first_mut() {
        *byte ^= 1;
    }
    let message = Blob::try_from(Bytes::from(message));
    Receipt { message: message.unwrap_or_else(|_| receipt.message.clone()), ..receipt.clone() }
}

fn figures(cluster: &ChopCluster, stormed: &Stormed, verified: u64) -> Value {
    let Stormed { sealed, strokes, took, links, .. } = stormed;
    json!({
        "servers": SERVERS, "brokers": BROKERS, "people": PEOPLE, "painters": cluster.painters,
        "strokes_each": STROKES, "strokes": strokes, "storm_ms": millis(*took), "links_ms": millis(*links),
        "batches": sealed.batches, "sealed": sealed.messages, "stragglers": sealed.stragglers,
        "distilled_of_10000": sealed.distilled(), "bytes_per_message": each(*sealed),
        "receipts_verified": verified,
    })
}
