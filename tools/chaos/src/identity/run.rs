//! Makes the cases and judges what came of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use synod_crypto::{PublicKey, Seed};
use synod_net::Refusal;
use synod_net::foreign::{self, LINK, Role};
use synod_quorum::Epoch;

use super::attempt::{Attempt, PATIENCE, plain, presented, spoken, tls};
use super::certificate::certificate;
use super::{Case, mirror, ticket};
use crate::stranger::{Card, End, Line, Shown, TLS12, TLS13, client, draw_seed};

/// Longest time until a refusal is known, in milliseconds.
pub const MS_MAX: u64 = 1_000;
/// Most bytes that pass until then, in both directions.
pub const BYTES_MAX: u64 = 64 << 10;
/// How long the node may take to count a refusal that the other side knows of.
const COUNT: Duration = Duration::from_secs(2);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// The node under attack, and what the attacker has.
pub struct Target {
    /// The members' listener.
    pub peers: SocketAddr,
    /// The guests' listener.
    pub guests: SocketAddr,
    /// The secret of a member that does not run: a faulty member.
    pub absent: Seed,
    /// Where the node expects that member.
    pub absent_at: SocketAddr,
    /// The secret of a member that runs and is linked with the node.
    pub live: Seed,
}

/// What the node counts.
pub trait Counters {
    /// Handshakes refused so far, by SYN code.
    ///
    /// # Errors
    /// The node does not say.
    fn refusals(&self) -> io::Result<BTreeMap<u16, u64>>;
}

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The case.
    pub case: Case,
    /// Whether every attempt was refused by name, in time and for few bytes.
    pub refused: bool,
    /// Under which codes, and what the attacker was told.
    pub by: String,
    /// The longest attempt, in milliseconds.
    pub ms: u64,
    /// Most bytes of an attempt, in both directions.
    pub bytes: u64,
    /// Attempts made.
    pub attempts: usize,
    /// What is wrong.
    pub wrong: Vec<String>,
}

/// What may answer an attempt.
type Codes = &'static [Refusal];

const KEY: Codes = &[Refusal::UnknownKey];
const TLS: Codes = &[Refusal::TlsAlert];
const EITHER: Codes = &[Refusal::UnknownKey, Refusal::TlsAlert];

/// Makes every case, one after the other, and tells of each as it is known.
///
/// # Errors
/// The node cannot be reached, does not count, or refuses what is sound.
pub fn run(
    target: &Target,
    counters: &dyn Counters,
    mut tell: impl FnMut(&Finding),
) -> io::Result<Vec<Finding>> {
    let mut attacker = Attacker::new(target, counters)?;
    let mut findings = Vec::new();
    for case in Case::ALL {
        attacker.tried.clear();
        attacker.make(case)?;
        let finding = judge(case, &attacker.tried);
        tell(&finding);
        findings.push(finding);
    }
    Ok(findings)
}

/// Whether the node admits the member that does not run, with its own key and a sound Hello: what shows that the
/// refusals of [`run`] have other reasons than a broken harness.
///
/// # Errors
/// The node cannot be reached.
pub fn admitted(target: &Target) -> io::Result<bool> {
    let card = learn(target)?;
    let own = presented("itself", target.peers, &target.absent, &card.of(target.absent.public(), 1))?;
    Ok(own.end == End::Admitted)
}

fn learn(target: &Target) -> io::Result<Card> {
    let mut line = Line::dial(target.peers, client(&Shown::own(&target.absent), TLS13)?, PATIENCE)?;
    Card::learn(&mut line, &target.absent)
        .map_err(|end| io::Error::other(format!("the node does not introduce itself: {end}")))
}

/// An attempt, the codes it may be refused under, and those the node counted.
struct Tried {
    attempt: Attempt,
    allowed: Codes,
    counted: BTreeSet<u16>,
}

struct Attacker<'a> {
    target: &'a Target,
    counters: &'a dyn Counters,
    card: Card,
    tried: Vec<Tried>,
}

impl<'a> Attacker<'a> {
    fn new(target: &'a Target, counters: &'a dyn Counters) -> io::Result<Self> {
        Ok(Self { target, counters, card: learn(target)?, tried: Vec::new() })
    }

    /// Makes one attempt and waits until the node counts its refusal.
    fn attempt(&mut self, allowed: Codes, make: impl FnOnce(&Self) -> io::Result<Attempt>) -> io::Result<()> {
        let before = self.counters.refusals()?;
        let attempt = make(self)?;
        let until = Instant::now() + COUNT;
        let counted = loop {
            let after = self.counters.refusals()?;
            let risen = |code: &u16| after.get(code) > before.get(code);
            let counted: BTreeSet<u16> = after.keys().copied().filter(risen).collect();
            let enough = allowed.iter().any(|refusal| counted.contains(&refusal.code()));
            if enough || attempt.end == End::Admitted || Instant::now() >= until {
                break counted;
            }
            std::thread::sleep(LOOK);
        };
        self.tried.push(Tried { attempt, allowed, counted });
        Ok(())
    }

    /// The card of the member that does not run.
    fn own(&self) -> Card {
        self.card.of(self.target.absent.public(), 2)
    }

    fn make(&mut self, case: Case) -> io::Result<()> {
        let Target { peers, absent, live, .. } = self.target;
        match case {
            Case::UnknownKey | Case::RemovedMember => self.outsider(),
            Case::StolenKey => self.stolen(&live.public()),
            Case::SelfSigned => self.certified(absent, "n"),
            Case::CaSigned => self.certified(&draw_seed()?, "authority"),
            Case::NoKey => {
                self.attempt(EITHER, |a| tls("no key", *peers, &Shown::nothing(&a.target.absent), TLS13))
            }
            Case::Tls12 => self.attempt(TLS, |_| tls("TLS 1.2", *peers, &Shown::own(absent), TLS12)),
            Case::SwappedRoles => self.swapped(),
            Case::OldEpoch => self.other_epoch(),
            Case::SecondConnection => self.attempt(&[Refusal::SecondInstance], |a| {
                presented("another process", *peers, live, &a.card.of(live.public(), u64::MAX))
            }),
            Case::Reflection => self.reflected(),
            Case::StaleTicket => self.ticket("ticket", &[]),
            Case::EarlyData => {
                let word = foreign::frame(LINK, 0, &[0; 64]);
                self.ticket("early data", &word.unwrap_or_default())
            }
            Case::Plaintext => self.plaintext(),
        }
    }

    /// A key that is not of the roster, at the members' listener, and as a member at the guests'.
    fn outsider(&mut self) -> io::Result<()> {
        let Target { peers, guests, .. } = self.target;
        let seed = draw_seed()?;
        self.attempt(KEY, |_| tls("in TLS", *peers, &Shown::own(&seed), TLS13))?;
        self.attempt(&[Refusal::WrongRole], |a| {
            presented("as a member among guests", *guests, &seed, &a.card.of(seed.public(), 3))
        })
    }

    /// `victim`, shown in TLS with another secret, and named in the Hellos of sessions with keys of the attacker's own.
    fn stolen(&mut self, victim: &PublicKey) -> io::Result<()> {
        let Target { peers, guests, absent, .. } = self.target;
        let thief = draw_seed()?;
        self.attempt(TLS, |_| tls("in TLS", *peers, &Shown::raw(victim, &thief), TLS13))?;
        self.attempt(KEY, |a| presented("in the Hello", *peers, absent, &a.card.of(*victim, 4)))?;
        self.attempt(KEY, |a| {
            let card = a.card.of(*victim, 5).as_role(Role::Guest);
            presented("in a guest's Hello", *guests, &thief, &card)
        })
    }

    /// A certificate for the attacker's own member key, offered as such and in place of a raw key.
    fn certified(&mut self, authority: &Seed, issuer: &str) -> io::Result<()> {
        let Target { peers, absent, .. } = self.target;
        let der = certificate(&absent.public(), "n", authority, issuer)?;
        self.attempt(TLS, |_| {
            tls("as a certificate", *peers, &Shown::certificate(der.clone(), absent), TLS13)
        })?;
        self.attempt(EITHER, |_| tls("as a raw key", *peers, &Shown::disguised(der.clone(), absent), TLS13))
    }

    fn swapped(&mut self) -> io::Result<()> {
        let Target { peers, guests, absent, .. } = self.target;
        let wrong: Codes = &[Refusal::WrongRole];
        let guest = draw_seed()?;
        self.attempt(wrong, |a| presented("member as guest", *peers, absent, &a.own().as_role(Role::Guest)))?;
        self.attempt(wrong, |a| presented("member among guests", *guests, absent, &a.own()))?;
        self.attempt(KEY, |_| tls("guest among members", *peers, &Shown::own(&guest), TLS13))
    }

    fn other_epoch(&mut self) -> io::Result<()> {
        let Target { peers, absent, .. } = self.target;
        let Epoch(present) = self.card.hello.epoch;
        for (what, other) in [("the next", present.wrapping_add(1)), ("the last", present.wrapping_sub(1))] {
            self.attempt(&[Refusal::OldEpoch], |a| {
                let mut card = a.own();
                card.hello.epoch = Epoch(other);
                presented(what, *peers, absent, &card)
            })?;
        }
        Ok(())
    }

    fn reflected(&mut self) -> io::Result<()> {
        let Target { absent, absent_at, .. } = self.target;
        let listener = mirror::listen(*absent_at)?;
        self.lure()?;
        self.attempt(TLS, |_| mirror::bytes(&listener))?;
        self.lure()?;
        self.attempt(KEY, |_| mirror::hello(&listener, absent))
    }

    /// A link of the absent member that comes and goes makes the node dial it at once.
    fn lure(&self) -> io::Result<()> {
        let Target { peers, absent, .. } = self.target;
        presented("itself", *peers, absent, &self.own()).map(drop)
    }

    /// A ticket of another server in place of the private key of a member, with `early` data.
    fn ticket(&mut self, what: &'static str, early: &[u8]) -> io::Result<()> {
        let Target { peers, live, .. } = self.target;
        let thief = draw_seed()?;
        let config = client(&Shown::raw(&live.public(), &thief), TLS13)?;
        ticket::stock(&config, &draw_seed()?)?;
        self.attempt(EITHER, |_| spoken(what, *peers, config, early))
    }

    fn plaintext(&mut self) -> io::Result<()> {
        let Target { peers, guests, .. } = self.target;
        let http = b"GET / HTTP/1.1\r\nHost: synod\r\n\r\n";
        let nonce = foreign::frame(LINK, 0, &[7; 32]).unwrap_or_default();
        self.attempt(TLS, |_| plain("HTTP", *peers, http))?;
        self.attempt(TLS, |_| plain("the plain transport", *peers, &nonce))?;
        self.attempt(TLS, |_| plain("RESP among guests", *guests, b"*1\r\n$4\r\nPING\r\n"))
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// What is wrong with an attempt; nothing if it was refused by name, in time and for few bytes.
fn faults(tried: &Tried) -> Vec<String> {
    let Tried { attempt: Attempt { what, end, took, bytes }, allowed, counted } = tried;
    let mut wrong = Vec::new();
    if matches!(end, End::Admitted | End::Silent | End::Broken(_)) {
        wrong.push(format!("{what}: {end}"));
    }
    if !allowed.iter().any(|refusal| counted.contains(&refusal.code())) {
        let names: Vec<&str> = allowed.iter().map(|refusal| refusal.name()).collect();
        wrong.push(format!("{what}: the node counted {counted:?} and not {}", names.join(" or ")));
    }
    if millis(*took) >= MS_MAX {
        wrong.push(format!("{what}: {} ms", millis(*took)));
    }
    if *bytes >= BYTES_MAX {
        wrong.push(format!("{what}: {bytes} bytes"));
    }
    wrong
}

fn judge(case: Case, tried: &[Tried]) -> Finding {
    let wrong: Vec<String> = tried.iter().flat_map(faults).collect();
    let mut by = Vec::new();
    for Tried { attempt, allowed, counted } in tried {
        let named = allowed.iter().find(|refusal| counted.contains(&refusal.code()));
        let name =
            named.map_or("-".to_owned(), |refusal| format!("SYN-{} {}", refusal.code(), refusal.name()));
        let told = format!("{name} ({})", attempt.end);
        if !by.contains(&told) {
            by.push(told);
        }
    }
    Finding {
        case,
        refused: wrong.is_empty() && !tried.is_empty(),
        by: by.join(", "),
        ms: tried.iter().map(|tried| millis(tried.attempt.took)).max().unwrap_or(0),
        bytes: tried.iter().map(|tried| tried.attempt.bytes).max().unwrap_or(0),
        attempts: tried.len(),
        wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(end: End, counted: u16, ms: u64, bytes: u64) -> Tried {
        let attempt = Attempt { what: "it", end, took: Duration::from_millis(ms), bytes };
        Tried { attempt, allowed: KEY, counted: BTreeSet::from([counted]) }
    }

    #[test]
    fn a_refusal_counts_only_by_name_in_time_and_for_few_bytes() {
        let good = || tried(End::Verdict(2_102), 2_102, 3, 900);
        assert!(judge(Case::UnknownKey, &[good()]).refused);
        assert!(!judge(Case::UnknownKey, &[]).refused, "nothing was tried");
        for bad in [
            tried(End::Admitted, 2_102, 3, 900),
            tried(End::Silent, 2_102, 3, 900),
            tried(End::Verdict(2_102), 2_106, 3, 900),
            tried(End::Verdict(2_102), 2_102, 1_000, 900),
            tried(End::Verdict(2_102), 2_102, 3, 64 << 10),
        ] {
            let finding = judge(Case::UnknownKey, &[good(), bad]);
            assert!(!finding.refused && finding.wrong.len() == 1, "{finding:?}");
        }
    }

    #[test]
    fn a_finding_says_who_refused_and_the_worst_attempt() {
        let alert = tried(End::Alert("access_denied".to_owned()), 2_102, 9, 10);
        let finding = judge(Case::UnknownKey, &[tried(End::Verdict(2_102), 2_102, 3, 900), alert]);
        assert_eq!((finding.ms, finding.bytes, finding.attempts), (9, 900, 2));
        let by =
            "SYN-2102 unknown_peer_key (verdict SYN-2102), SYN-2102 unknown_peer_key (alert access_denied)";
        assert_eq!(finding.by, by);
    }
}
