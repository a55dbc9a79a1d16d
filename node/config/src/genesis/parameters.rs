//! The parameters of protocol hotstuff that all members share: defaults, ranges, relations.

use crate::choice::choices;
use crate::errors::SynError;
use crate::node::broken;
use crate::table::Section;

choices! {
    /// The rule pack: who may vote for what, and when a block is committed.
    Rules {
        /// Three phases per block.
        Basic = "basic",
        /// Chained, commit by three in a row.
        Chain3 = "chain3",
        /// Chained, commit by two in a row.
        Chain2 = "chain2",
        /// chain2 with order votes: commit before the next block.
        Chain2Order = "chain2+order",
        /// Lab: two phases with the waiting rule.
        Hs2 = "hs2",
        /// Lab: two phases without it; may lose liveness.
        Naive2 = "naive2",
        /// Lab: the dissertation's own switches.
        Paper = "paper",
    }
}

choices! {
    /// Whom votes are sent to.
    Votes {
        /// Every member.
        Broadcast = "broadcast",
        /// The next leader.
        Leader = "leader",
    }
}

choices! {
    /// Whom complaints are sent to.
    Complaints {
        /// Every member.
        Broadcast = "broadcast",
        /// The leader of the next term, and every member from the second expiry on.
        LeaderFirst = "leader-first",
    }
}

choices! {
    /// Signatures inside certificates.
    Scheme {
        /// One per signer.
        Ed25519 = "ed25519",
        /// One aggregate.
        Bls = "bls",
    }
}

choices! {
    /// Which repeated items a proposer leaves out.
    Filter {
        /// Those on its own branch.
        Branch = "branch",
        /// Lab: none.
        Off = "off",
        /// Lab: all it has ever seen.
        Seen = "seen",
        /// Lab: the committed ones.
        Committed = "committed",
    }
}

choices! {
    /// How payloads travel.
    Bodies {
        /// Blocks name them; they travel beside.
        Digest = "digest",
        /// Lab: inside the proposal.
        Full = "full",
        /// Lab: only as much as execution needs.
        MinExec = "min-exec",
    }
}

choices! {
    /// What a client's request is believed by.
    ClientAuth {
        /// Its signature.
        Signed = "signed",
        /// Its authenticated channel.
        Channel = "channel",
    }
}

impl Rules {
    /// Whether the pack exists for the lab only.
    #[must_use]
    pub fn is_lab(self) -> bool {
        matches!(self, Self::Hs2 | Self::Naive2 | Self::Paper)
    }

    /// Whether three chained blocks commit.
    #[must_use]
    pub fn is_chain3(self) -> bool {
        matches!(self, Self::Chain3 | Self::Paper)
    }

    /// Whether leaders keep their turn for terms and reputation applies: chain2 and chain2+order.
    #[must_use]
    pub fn has_terms(self) -> bool {
        matches!(self, Self::Chain2 | Self::Chain2Order)
    }
}

/// Parameters of protocol hotstuff. Their relations hold once they are part of a [`crate::Genesis`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The rule pack.
    pub rules: Rules,
    /// Views a leader keeps its turn, 1 to 1,024.
    pub term_views: u32,
    /// Whom votes are sent to.
    pub votes: Votes,
    /// Whom complaints are sent to.
    pub complaints: Complaints,
    /// Signatures inside certificates.
    pub scheme: Scheme,
    /// Whether leaders that failed sit out.
    pub reputation: bool,
    /// Payload bytes of a block, 4 KiB to 2 MiB.
    pub block_bytes: u32,
    /// Items of a block; 0 is unlimited.
    pub block_items: u32,
    /// Which repeated items a proposer leaves out.
    pub filter: Filter,
    /// How payloads travel.
    pub bodies: Bodies,
    /// Items accepted and not yet in a block.
    pub pool_items: u32,
    /// Views kept around the own one.
    pub view_window: u32,
    /// Positions between checkpoints.
    pub checkpoint_every: u32,
    /// Blocks kept below the last stable checkpoint.
    pub retain_blocks: u32,
    /// Blocks the executor may be behind.
    pub executor_lag_max: u32,
    /// What a request is believed by.
    pub client_auth: ClientAuth,
    /// Requests of a session in flight, a power of two.
    pub session_window: u32,
}

impl Parameters {
    /// The defaults of a rule pack for `members` members.
    #[must_use]
    pub fn defaults(rules: Rules, members: usize) -> Self {
        let small = members <= 32;
        Self {
            rules,
            term_views: if rules.has_terms() { 32 } else { 1 },
            // A leader that collects chain3 votes needs a longer term than that pack's default of 1.
            votes: if small || rules == Rules::Chain3 { Votes::Broadcast } else { Votes::Leader },
            complaints: if small { Complaints::Broadcast } else { Complaints::LeaderFirst },
            scheme: if members <= 40 { Scheme::Ed25519 } else { Scheme::Bls },
            reputation: members >= 4 && rules.has_terms(),
            block_bytes: 1 << 20,
            block_items: 16_384,
            filter: Filter::Branch,
            bodies: Bodies::Digest,
            pool_items: 262_144,
            view_window: 64,
            checkpoint_every: 65_536,
            retain_blocks: 4_096,
            executor_lag_max: 64,
            client_auth: ClientAuth::Signed,
            session_window: 1_024,
        }
    }

    /// Reads `[protocol]`; what is not given is the default for the pack and the number of members.
    pub(super) fn read(section: &Section<'_>, members: usize) -> Result<Self, SynError> {
        let rules = section.choice("rules")?.unwrap_or(Rules::Chain2Order);
        let default = Self::defaults(rules, members);
        let number =
            |leaf: &str, default: u32| Ok::<_, SynError>(section.number_u32(leaf)?.unwrap_or(default));
        Ok(Self {
            rules,
            term_views: number("term_views", default.term_views)?,
            votes: section.choice("votes")?.unwrap_or(default.votes),
            complaints: section.choice("complaints")?.unwrap_or(default.complaints),
            scheme: section.choice("scheme")?.unwrap_or(default.scheme),
            reputation: section.flag("reputation")?.unwrap_or(default.reputation),
            block_bytes: number("block_bytes", default.block_bytes)?,
            block_items: number("block_items", default.block_items)?,
            filter: section.choice("filter")?.unwrap_or(default.filter),
            bodies: section.choice("bodies")?.unwrap_or(default.bodies),
            pool_items: number("pool_items", default.pool_items)?,
            view_window: number("view_window", default.view_window)?,
            checkpoint_every: number("checkpoint_every", default.checkpoint_every)?,
            retain_blocks: number("retain_blocks", default.retain_blocks)?,
            executor_lag_max: number("executor_lag_max", default.executor_lag_max)?,
            client_auth: section.choice("client_auth")?.unwrap_or(default.client_auth),
            session_window: number("session_window", default.session_window)?,
        })
    }

    /// Checks the relations between parameters; `drill` allows what is for the lab only.
    pub(super) fn check(&self, drill: bool) -> Result<(), SynError> {
        if self.votes == Votes::Leader && self.rules == Rules::Chain3 && self.term_views < 4 {
            return Err(broken(
                "protocol.votes",
                "protocol.term_views",
                "leader with chain3 needs terms of 4 or more views",
            ));
        }
        if self.term_views > 1 && !self.rules.has_terms() && !self.rules.is_chain3() {
            let found = format!("{} has terms of one view", self.rules);
            return Err(broken("protocol.term_views", "protocol.rules", &found));
        }
        if self.reputation && !self.rules.has_terms() {
            let found = format!("{} has no reputation", self.rules);
            return Err(broken("protocol.reputation", "protocol.rules", &found));
        }
        if self.pool_items < self.block_items {
            let found =
                format!("a pool of {} does not fill a block of {}", self.pool_items, self.block_items);
            return Err(broken("protocol.pool_items", "protocol.block_items", &found));
        }
        if self.retain_blocks < self.view_window {
            let found = format!("{} blocks kept do not cover {} views", self.retain_blocks, self.view_window);
            return Err(broken("protocol.retain_blocks", "protocol.view_window", &found));
        }
        if self.rules.is_lab() && !drill {
            let found = format!("{} is for drills only", self.rules);
            return Err(broken("protocol.rules", "cluster.drill", &found));
        }
        let lab_only = [
            ("protocol.filter", self.filter != Filter::Branch, self.filter.as_str()),
            ("protocol.block_items", self.block_items == 0, "0"),
        ];
        match lab_only.iter().find(|(_, lab, _)| *lab && !self.rules.is_lab()) {
            Some((key, _, value)) => {
                Err(broken(key, "protocol.rules", &format!("{value} is for hs2, naive2 and paper")))
            }
            None => Ok(()),
        }
    }
}
