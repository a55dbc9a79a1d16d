//! The view chain: how views followed each other since the genesis, for anybody to check.

use std::sync::Arc;

use synod_crypto::Claim;

use super::roll::{Founding, Roll};
use super::view::View;
use super::words::{Agreed, Sworn};

/// Why a chain of views is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadChain {
    /// A link does not stand on the view that the link before it installs.
    Broken,
    /// What is installed is no view.
    NoView,
    /// Too few members of the older view signed, or others.
    Signers,
}

/// The views of a chain, the first one included, if all its links hold together; what they [claim](claims_of) is to be checked
/// beside. Anybody can do that who knows the genesis.
///
/// # Errors
/// [`BadChain`].
pub fn follow(founding: &Founding, chain: &[Agreed]) -> Result<Vec<Arc<Roll>>, BadChain> {
    let mut rolls = vec![Roll::of(founding, &View::default()).ok_or(BadChain::NoView)?];
    for link in chain {
        let base = rolls.last().ok_or(BadChain::Broken)?;
        if link.base != base.id() {
            return Err(BadChain::Broken);
        }
        claims_of(link, base, Step::Converged).ok_or(BadChain::Signers)?;
        let least = link.views.views(base.view()).and_then(|views| views.into_iter().next());
        let least = least.and_then(|view| Roll::of(founding, &view));
        rolls.push(least.ok_or(BadChain::NoView)?);
    }
    // Of what is left over only that of the last link is of use.
    if let Some((link, to)) = chain.last().zip(rolls.last()) {
        let rest = link.views.rest().views(to.view()).ok_or(BadChain::NoView)?;
        if !rest.iter().all(|view| Roll::of(founding, view).is_some()) {
            return Err(BadChain::NoView);
        }
    }
    Ok(rolls)
}

/// What a list is agreed on by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is accepted.
    Proposed,
    /// It installs its least view.
    Converged,
}

impl Step {
    /// What a member of a view signs of a list.
    #[must_use]
    pub fn sworn(self, roll: &Roll, views: &super::view::Sequence) -> Sworn {
        let (context, views) = (roll.context(), views.digest());
        match self {
            Self::Proposed => Sworn::Proposed { context, views },
            Self::Converged => Sworn::Converged { context, views },
        }
    }
}

/// What members of a view are said to have signed of a list; `None` unless they are a quorum of its members and it is this list.
#[must_use]
pub fn claims_of(agreed: &Agreed, base: &Roll, step: Step) -> Option<Vec<Claim<Sworn>>> {
    let certificate = &agreed.certificate;
    let is_it = agreed.base == base.id() && certificate.statement == step.sworn(base, &agreed.views);
    let signers = certificate.signers();
    if !is_it
        || agreed.views.is_empty()
        || !signers.within(base.members())
        || !base.quorums().intersects(signers)
    {
        return None;
    }
    certificate
        .signed()
        .map(|(signer, signature)| base.claim(signer, certificate.statement, signature))
        .collect()
}
