//! Rules applied: lines of the listings, and written rules.

use synod_machine::{Rule as ErasedRule, names};

names! {
    /// A line of Listings 1 to 10, or a rule of the specification.
    Rule:
    /// Listing 2: a representative takes an order and batches it.
    Admit = "L2_admit";
    /// Entries of a batch are endorsed.
    Fund = "fund";
    /// Entries of a batch are left out.
    Exclude = "exclude";
    /// Batches with exceptions are judged again.
    Again = "again";
    /// Listing 9 lines 44 to 49 (II-F: certified entries settle when their money is here).
    Settle = "L9.44_settle";
    /// A later entry's certificate settles an earlier one.
    Ancestor = "ancestor";
    /// An entry below a certified one is asked for.
    Pull = "pull";
    /// Accounts open.
    Open = "open";
    /// Listing 5 (E4): a batch is not endorsed yet, so none of it is.
    Hold = "hold";
    /// Listing 3: an entry that is not funded waits in its log.
    Queue = "queue";
    /// Listing 9, line 49 (E19): an entry that is not funded takes its place and moves nothing.
    Reject = "L9.49_reject";
    /// Listing 9, line 57: a member vouches for payments that settled.
    Credit = "L9.57_credit";
    /// Listing 10, line 72: f + 1 members' words make a dependency.
    Depend = "L10.72_depend";
    /// A batch whose entries have settled is receipted.
    Receipt = "receipt";
    /// A cut is proposed.
    CutPropose = "cut_propose";
    /// The state behind a cut is signed.
    CutSign = "cut_sign";
    /// A quorum signed the state behind a cut.
    CutCertify = "cut_certify";
    /// A cut is not signed here: it is older than what is kept, or no cut.
    CutPassed = "cut_passed";
    /// The state behind a cut is fetched.
    CutFetch = "cut_fetch";
    /// The state behind a cut takes the place of what was here.
    CutInstall = "cut_install";
    /// Listing 1: f + 1 replicas would endorse what a wallet is about to sign.
    Check = "L1_check";
    /// Listing 1: a wallet signs the one entry of a place.
    Sign = "L1_sign";
    /// A wallet gives what it signed to another replica, for the one before was silent.
    Elsewhere = "elsewhere";
    /// A wallet without its file takes its account over.
    TakeOver = "take_over";
    /// The words of f + 1 members on owners' signatures are taken.
    Rely = "rely";
    /// Owners' signatures that witnesses were to check are checked here.
    CheckAlone = "check_alone";
    /// Owners signed entries of a batch together.
    Distil = "distil";
    /// Certified entries leave for another shard.
    Export = "export";
    /// Entries of another shard are credited.
    Import = "import";
    /// All that was certified before a view began is here, and this member endorses in it.
    CaughtUp = "caught_up";
}

impl From<Rule> for ErasedRule {
    fn from(rule: Rule) -> Self {
        Self { protocol: "astro", name: rule.name() }
    }
}
