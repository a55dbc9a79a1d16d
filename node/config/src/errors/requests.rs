//! Ranges 30 (requests, access), 31 (payments), 32 (Chop Chop), 33 (other applications), 34 (availability), 35 (unknown outcome) and 36 (membership).

super::rows! { REQUESTS;
    3001 MALFORMED "malformed" (Rejected, Some(400), Permanent)
        "the request is malformed: {problem}"
        ["wrong number of arguments", "a number, key or encoding is not of the required form"]
        "correct the request; the message says where";
    3002 TOO_LARGE "too_large" (Rejected, Some(413), Permanent)
        "{what} has {size}, the limit is {limit}"
        ["a value, command or body is above its limit"]
        "split it, or raise limits.request_max within the block size of the genesis";
    3003 UNSUPPORTED "unsupported" (Rejected, Some(501), Permanent)
        "{verb} is not supported"
        ["the command is unknown, or refused on purpose (scripts, publish and subscribe, blocking commands)"]
        "use one of the commands in the reference";
    3004 WRONG_TYPE "wrong_type" (Rejected, Some(409), Permanent)
        "{key} holds {found}, the command needs {needed}"
        ["the key was written by a command of another type"]
        "use another key, or delete this one first";
    3005 CONDITION_FAILED "condition_failed" (Rejected, Some(412), Permanent)
        "the condition on {key} does not hold"
        ["another client wrote the key since it was read"]
        "read again and decide on the new version";
    3006 OUTSIDE_WINDOW "outside_window" (Rejected, Some(409), Temporary)
        "sequence {sequence} is outside the session's window of {window}"
        ["too many requests are in flight", "the answer is older than the session keeps"]
        "wait for earlier answers, then send again";
    3007 ID_REUSED "id_reused" (Rejected, Some(409), Permanent)
        "request id {id} was used for other bytes"
        ["an id was drawn twice, or a request was changed before it was sent again"]
        "send changed bytes under a new id";
    3008 PROOF_UNAVAILABLE "proof_unavailable" (Rejected, Some(409), Temporary)
        "no proof for {what} is here"
        ["the certificate or checkpoint that covers it is not complete", "of a payment: this node is that of neither its payer nor its payee"]
        "ask again later, and for a payment the node of its payer: `synod pay receipt ID --from ACCOUNT`";
    3011 NO_CREDENTIALS "no_credentials" (Rejected, Some(401), Permanent)
        "credentials are required"
        ["no password or bearer token was sent"]
        "send AUTH or an Authorization header with the token of the node's token file, with `synod pay` by --token-file";
    3012 WRONG_CREDENTIALS "wrong_credentials" (Rejected, Some(401), Permanent)
        "the credentials are wrong"
        ["the token or password is that of another node or an older deployment"]
        "read the current one from the node's token file";
    3013 NOT_PERMITTED "not_permitted" (Rejected, Some(403), Permanent)
        "{what} is not permitted here"
        ["fault injection needs drill = true in the genesis", "the operation needs an operator's key"]
        "use a deployment made by demo or up, or sign as an operator";
    3014 SESSION_UNKNOWN "session_unknown" (Rejected, Some(403), Temporary)
        "session {session} is not open"
        ["it was closed as the longest idle one", "it was opened at another cluster"]
        "open a new session; what is in flight must be asked for by id";

    3102 WRONG_SHARD "wrong_shard" (Rejected, Some(409), Permanent)
        "{account} is kept by another shard, or what was ordered of it names an account of one"
        ["the account is not of this node's shard", "holds, and who decides over them, stay in one shard", "there is no such shard"]
        "ask a node of the shard that keeps the account, which is the first part of its name";
    3104 UNAUTHORIZED "unauthorized" (Rejected, Some(409), Permanent)
        "{account} was not authorized to pay this way here"
        ["the signature is not that of its owner", "its institution is another member than this one"]
        "send it to the representative of the account, signed by its owner where it signs for itself";
    3105 UNKNOWN_ACCOUNT "unknown_account" (Rejected, Some(409), Temporary)
        "{client} has no account"
        ["the account is not open yet, or is one of another cluster", "with chopchop, accounts open with the first batch behind the sign-up"]
        "open it, or with chopchop sign up with `synod client signup` and send an operation; then ask again";
    3106 UNKNOWN_BENEFICIARY "unknown_beneficiary" (Rejected, Some(409), Temporary)
        "there is no account {client} to pay to"
        ["nobody has this number yet", "the number is misspelt"]
        "ask the payee for the name of its account";
    3107 AMOUNT_ZERO "amount_zero" (Rejected, Some(409), Permanent)
        "the amount is zero"
        ["a payment moves at least 1"]
        "pay at least 1";
    3108 OVERFLOW "overflow" (Rejected, Some(409), Permanent)
        "a total would pass 2^192"
        ["more money moved than a ledger counts"]
        "use another account";
    3109 LEDGER_MISMATCH "ledger_mismatch" (Rejected, Some(409), Permanent)
        "{account} and whoever it pays are of different ledgers"
        ["the accounts hold different currencies, or the request names another ledger"]
        "pay within one ledger; exchange takes two holds and one resolution";
    3110 SELF_PAYMENT "self_payment" (Rejected, Some(409), Permanent)
        "{account} would pay itself"
        ["payer and payee are the same account"]
        "name another payee";
    3112 SEQUENCE_CONFLICT "sequence_conflict" (Rejected, Some(409), Permanent)
        "another entry has that place in the log of {account}"
        ["two programs sign for one account", "a program forgot what it had signed"]
        "read the account and sign the next entry behind its last";
    3113 SEQUENCE_GAP "sequence_gap" (Rejected, Some(409), Temporary)
        "entries of {account} are missing before this one"
        ["an earlier entry has not arrived, or the number is too high"]
        "send the earlier entries first";
    3114 CHAIN_MISMATCH "chain_mismatch" (Rejected, Some(409), Permanent)
        "the entry does not continue the log of {account}"
        ["it names another predecessor than the last entry"]
        "read the account and sign the next entry behind its last";
    3115 INSUFFICIENT_FUNDS "insufficient_funds" (Rejected, Some(409), Temporary)
        "{client} has less than {amount}"
        ["earlier operations spent it", "what came in can be spent from the next batch on"]
        "ask for the balance, then send a smaller amount or wait for money";
    3116 EXISTS_DIFFERENT "exists_different" (Rejected, Some(409), Permanent)
        "transfer {id} exists with another {field}"
        ["an id was drawn twice, or a request was changed before it was sent again"]
        "send what is different under a new id";
    3118 ACCOUNT_CLOSED "account_closed" (Rejected, Some(409), Permanent)
        "{account} is closed"
        ["its owner or institution closed it"]
        "use another account";
    3119 FROZEN "frozen" (Rejected, Some(409), Temporary)
        "{account} is frozen"
        ["operators froze it"]
        "ask the operators of the ledger";
    3120 CONFLICTED "conflicted" (Rejected, Some(409), Temporary)
        "two entries were signed for one place in the log of {account}, and none is certified"
        ["two copies of a wallet signed, or one forgot what it had signed", "members took different ones: neither may ever be certified"]
        "keep what shows it: `synod pay account evidence ACCOUNT --out FILE`; the account goes on once a certificate of one of them is known, and nothing else decides (`synod pay resolve` is refused)";
    3123 AMOUNT_TOO_LARGE "amount_too_large" (Rejected, Some(409), Permanent)
        "the amount is 2^96 or more"
        ["no account can hold so much"]
        "pay less at a time";
    3124 HOLD_NOT_FOUND "hold_not_found" (Rejected, Some(409), Temporary)
        "there is no such open hold"
        ["the hold has not settled yet, or its name is wrong"]
        "wait until the hold has settled, then try again";
    3125 HOLD_RESOLVED "hold_resolved" (Rejected, Some(409), Permanent)
        "the hold was resolved before"
        ["it was posted or voided"]
        "read the history of the payer";
    3126 HOLD_WRONG_RESOLVER "hold_wrong_resolver" (Rejected, Some(409), Permanent)
        "{account} was not named to resolve the hold"
        ["the hold names another resolver"]
        "have the named account resolve it";
    3127 HOLD_AMOUNT_EXCEEDED "hold_amount_exceeded" (Rejected, Some(409), Permanent)
        "more would be posted than was held"
        ["the amounts are not one for each hold, or one is above what was held"]
        "post at most what was held";
    3128 TOO_MANY_LEGS "too_many_legs" (Rejected, Some(409), Permanent)
        "a payment has 1 to 64 legs"
        ["there are none, or too many"]
        "split the payment";
    3129 LIMIT_NOT_COSIGNED "limit_not_cosigned" (Rejected, Some(409), Permanent)
        "the limit of {account} may not be set so"
        ["its registrar did not sign, or it is above the largest that was agreed"]
        "ask the registrar of the account";
    3130 LIMIT_BELOW_USE "limit_below_use" (Rejected, Some(409), Temporary)
        "{account} uses more than the new limit"
        ["its balance is below what the limit would allow"]
        "wait for money, or set a higher limit";
    3131 CLOSE_NOT_EMPTY "close_not_empty" (Rejected, Some(409), Temporary)
        "{account} has open holds"
        ["holds that it pays are not resolved"]
        "resolve the holds first";
    3132 NOT_FOUND "not_found" (Rejected, Some(404), Temporary)
        "{what} is not known here"
        ["it was never sent, or to another representative", "it has not settled here yet"]
        "ask the representative that took it, or wait";
    3133 NAME_AMBIGUOUS "name_ambiguous" (Rejected, Some(409), Permanent)
        "several accounts have {what} here"
        ["another payer uses the same id: ids are of one payer each"]
        "name the payer: `--from` of `synod pay status` and `receipt`, `--payer` of `post` and `void` (`from=ACCOUNT`, `pending_from`)";
    3134 CUT_NOT_YET "cut_not_yet" (Rejected, Some(409), Temporary)
        "{cut} is not certified here yet; the newest that is kept here: {newest}"
        ["the members sign a cut each `protocol.cut_every`, and this node waits for what it counts", "fewer members than a quorum are up"]
        "wait for the next cut, or ask for an earlier one: `synod pay cuts` lists them";
    3135 CUT_NOT_KEPT "cut_not_kept" (Rejected, Some(409), Permanent)
        "cut {cut} is not kept here; those that are lie between {oldest} and {newest}"
        ["it is older than what a node keeps", "the node was down or behind when it was certified, or its number was passed over"]
        "take one that `synod pay cuts` lists, or ask another node; files that were taken of it earlier are good for ever";
    3136 INDEX_LACKS "index_lacks" (Rejected, Some(409), Permanent)
        "what this node has of {what} does not lead to what the members signed behind cut {cut}"
        ["files of the node were put back from an older copy, or damaged"]
        "ask another node: `--node NAME`";

    3201 NOT_IN_DIRECTORY "not_in_directory" (Rejected, Some(409), Permanent)
        "{client} is not in the directory"
        ["it never signed up, or its broker has not heard of it yet", "the key is of another client or cluster"]
        "sign up with `synod client signup`";
    3202 CARD_REFUSED "card_refused" (Rejected, Some(409), Permanent)
        "the servers give {what} no id"
        ["another client has one of its keys", "possession of a key is not proven"]
        "sign up with a new key: `synod keys new --bls`";
    3203 MESSAGE_CLASS "message_class" (Rejected, Some(409), Permanent)
        "a message of {size} bytes is not of the cluster's class: {wanted}"
        ["the genesis fixes the size of messages, or the largest"]
        "send a message of the size that the genesis names";
    3204 BATCH_REFUSED "batch_refused" (Rejected, Some(409), Permanent)
        "the servers refuse the batch: {check}"
        ["the broker sealed a batch that breaks a rule"]
        "use another broker; the message is still the client's to send";
    3205 STALE "stale" (Rejected, Some(409), Permanent)
        "number {number} of the client is used up"
        ["another process used the same key", "the client's journal was lost or is an older copy"]
        "ask where the client stands with `synod client resync`, and run one process per key";
    3206 SAME "same" (Rejected, Some(409), Done)
        "the message was delivered before"
        ["an earlier sending of it was delivered, of which this process has no certificate"]
        "nothing is left to do; no receipt shows it, for the servers' word of it proves nothing to others";
    3207 VOID "void" (Rejected, Some(409), Temporary)
        "the message was ordered without a signature that holds"
        ["the broker forged or lost the client's signature"]
        "use another broker; the message was not delivered";

    3301 TOKEN_UNKNOWN "token_unknown" (Rejected, Some(409), Permanent)
        "there is no token {token}"
        ["the genesis made fewer tokens", "the client who owns it at first has not signed up yet"]
        "`synod auction show` says which tokens there are";
    3302 BID_TOO_LOW "bid_too_low" (Rejected, Some(409), Permanent)
        "a bid of {amount} for token {token} is not above the best one"
        ["somebody bid more, perhaps in the same batch"]
        "`synod auction show` says the best bid; bid more";
    3303 OWN_TOKEN "own_token" (Rejected, Some(409), Permanent)
        "token {token} is the bidder's own"
        ["a client bids for tokens of others alone"]
        "bid for another token";
    3304 NO_BID_OR_NOT_OWNER "no_bid_or_not_owner" (Rejected, Some(409), Permanent)
        "token {token} cannot be sold: {problem}"
        ["nobody has bid for it since it was sold last", "it belongs to another client"]
        "`synod auction show` says who owns the token and who bid";
    3310 OFF_BOARD "off_board" (Rejected, Some(409), Permanent)
        "the stroke is not on the board"
        ["a place at 2048 or above, or a colour of more than 24 bits"]
        "paint with `synod pixel paint`, which checks before it sends";

    3321 SYMBOL_UNKNOWN "symbol_unknown" (Rejected, Some(409), Permanent)
        "there is no symbol {symbol}"
        ["the book has fewer symbols; they are numbered from 0"]
        "name another symbol with --symbol";
    3322 ORDER_UNKNOWN "order_unknown" (Rejected, Some(409), Permanent)
        "order {order} is not open"
        ["it was filled, cancelled or ended", "it is of another trader, whose --home is another"]
        "`synod book events` says what became of it";
    3323 ORDER_INVALID "order_invalid" (Rejected, Some(409), Permanent)
        "the order cannot be: {problem}"
        ["options that exclude each other, or a number out of range"]
        "change the order; `synod book order --help` says what there is";
    3324 WOULD_TRADE "would_trade" (Rejected, Some(409), Temporary)
        "the post-only order would trade at once"
        ["an order on the other side is at its price or better"]
        "`synod book depth` says the best prices; choose another price";
    3325 BOOK_FULL "book_full" (Rejected, Some(409), Temporary)
        "{what} has as many open orders as it may"
        ["orders rest or wait up to the bounds of the book"]
        "cancel orders, or wait until some are filled";
    3326 TOO_DEEP "too_deep" (Rejected, Some(409), Temporary)
        "it takes too many looks at orders to say whether this one can be filled wholly"
        ["more small orders than one operation may look at stand in front"]
        "send it without --all-or-none or fill-or-kill, or a smaller one";

    3401 NO_QUORUM "no_quorum" (NoQuorum, Some(503), Temporary)
        "no quorum: {have} of {need} members answer, missing {names}"
        ["members are down or cut off"]
        "start or reconnect the members named; `synod why` says what the cluster waits for";
    3402 BUSY "busy" (Rejected, Some(429), Temporary)
        "the cluster is over budget; try again in {retry_ms} ms"
        ["requests arrive faster than they are ordered", "the session has no send credit"]
        "send less at a time; the pause is part of the answer";
    3403 REPLAYING "replaying" (NoQuorum, Some(503), Temporary)
        "{name} replays its journal ({done} of {all})"
        ["the node has just started"]
        "wait, or ask another node";
    3404 VIEW_CHANGE "view_change" (NoQuorum, Some(503), Temporary)
        "the leader is being replaced (view {view})"
        ["the leader stopped, is slow or is cut off"]
        "send again; if it lasts, `synod why` names who is missing";
    3405 DRAINING "draining" (NoQuorum, Some(503), Temporary)
        "{name} is draining and takes no new requests"
        ["an operator is about to stop it"]
        "ask another node";

    3501 DEADLINE_PASSED "deadline_passed" (Unknown, Some(504), Unknown)
        "no outcome for {id} before its deadline of {deadline}"
        ["the cluster has no quorum or changes its leader", "the answers were lost"]
        "ask by its id, `synod client wait ID` or for a payment `synod pay status ID`; do not send the operation under a new id";
    3502 CONNECTION_LOST "connection_lost" (Unknown, Some(504), Unknown)
        "the connection was lost before the outcome of {id} was known"
        ["the node or proxy stopped after the request was sent"]
        "ask by its id, `synod client wait ID` or for a payment `synod pay status ID`; do not send the operation under a new id";

    3601 BREAKS_QUORUM_NOW "breaks_quorum_now" (Rejected, Some(409), Permanent)
        "{change} would leave {have} of {need} members alive"
        ["members that are down now would be needed for every later decision"]
        "repair or replace the dead members first";
    3602 LEARNER_BEHIND "learner_behind" (Rejected, Some(409), Temporary)
        "{name} is {lag} blocks behind; the bound is {bound}"
        ["the learner still copies state"]
        "wait until its lag in `synod status` is below the bound";
    3603 ENDORSEMENTS_MISSING "endorsements_missing" (Rejected, Some(409), Permanent)
        "the change has {have} of {need} endorsements"
        ["too few operators signed it"]
        "collect the missing signatures and submit it again";
    3604 UNKNOWN_MEMBER "unknown_member" (Rejected, Some(409), Permanent)
        "{name} is not a member"
        ["the name is misspelt", "the member was removed in an earlier epoch"]
        "`synod member ls` prints the members of the current epoch";
    3605 LOSES_TOLERANCE "loses_tolerance" (Rejected, Some(409), Permanent)
        "{change} lowers f from {before} to {after}"
        ["the cluster would tolerate fewer faulty members than its genesis promises"]
        "add a member in the same change, so that f stays";
}
