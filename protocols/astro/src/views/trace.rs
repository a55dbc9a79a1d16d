//! Rules applied, and what a peer can do wrong.

use synod_machine::{Rule as ErasedRule, names};

names! {
    /// A step of the specification, section 4.11.
    Rule:
    /// Step 1: an endorsed change is recorded and confirmed.
    Request = "A.request";
    /// Step 2: a list of views is proposed.
    Propose = "A.propose";
    /// Step 3: a quorum's list is accepted.
    Accept = "A.accept";
    /// Step 4: the own list was accepted.
    Converge = "A.converge";
    /// Step 5: a quorum's converged list installs its least view.
    Install = "A.install";
    /// Step 6: a member stops.
    Stop = "A.stop";
    /// Step 7: states of a quorum are merged.
    Merge = "A.merge";
    /// Step 7: with nothing left over members resume.
    Resume = "A.resume";
    /// Step 7: a smaller rest takes the place of another.
    Rest = "A.rest";
    /// Whoever speaks in a view that is over is shown what followed it.
    Older = "A.older";
}

impl From<Rule> for ErasedRule {
    fn from(rule: Rule) -> Self {
        Self { protocol: "astro", name: rule.name() }
    }
}

mod faults {
    synod_machine::faults! {
        /// Spoke without a member's number.
        Stranger = 4_330, "views_stranger";
        /// Signed what does not verify, or passed on what nobody signed.
        Forged = 4_331, "views_forged";
        /// Proposed views that are none, or changes that no operators endorse.
        BadProposal = 4_332, "views_bad_proposal";
        /// Sent a change that too few operators endorse, or that cannot be made.
        BadChange = 4_333, "views_bad_change";
        /// Sent a certificate of a list that too few members signed.
        BadCertificate = 4_334, "views_bad_certificate";
        /// Sent a state that is none.
        BadState = 4_335, "views_bad_state";
        /// Spoke in a view whose member it is not.
        NotInView = 4_336, "views_not_in_view";
    }
}

pub use faults::Fault;
