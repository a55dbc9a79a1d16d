//! A balance that q members state alike (specification, section 4.10): two quorums share a correct member, so it has every payment
//! that was stable before the question.

use super::institution::{Institution, System};
use serde_json::{Map, Value};
use std::time::{Duration, Instant};
use synod_config::{SynError, code};
use synod_host::pay::AccountId;
use synod_quorum::{Model, Quorums};

/// How long members are left alone before they are asked again.
const PAUSE: Duration = Duration::from_millis(50);
/// What of an account all have to say alike: all that settles there. What one of them has under way is its own.
const SETTLED: [&str; 11] = [
    "id",
    "ledger",
    "code",
    "state",
    "owner",
    "representative",
    "credits",
    "debits",
    "pending",
    "limit",
    "head",
];

/// What a member says of an account that is settled; `None` of what is no account.
fn settled(said: &Value) -> Option<Map<String, Value>> {
    let names = SETTLED.iter().chain(&["entries"]);
    names.map(|name| Some(((*name).to_owned(), said.get(*name)?.clone()))).collect()
}

/// What `need` of them say alike, with what one of them says in full and who they are; `None` where too few do.
fn alike(all: &[(String, Option<Value>)], need: usize) -> Option<(Option<Value>, Vec<String>)> {
    let part = |said: &Option<Value>| said.as_ref().map(settled);
    let found = all.iter().find_map(|(_, said)| {
        let same: Vec<String> =
            all.iter().filter(|(_, other)| part(other) == part(said)).map(|(name, _)| name.clone()).collect();
        (same.len() >= need).then(|| (said.clone(), same))
    });
    found.filter(|(said, _)| said.as_ref().is_none_or(|said| settled(said).is_some()))
}

/// Asks one member; `Ok(None)` where it knows no such account.
fn ask(at: &Institution<'_>, account: AccountId) -> Result<Option<Value>, SynError> {
    match at.get(&format!("/v1/pay/accounts/{account}")) {
        Ok(said) => Ok(Some(said)),
        Err(error) if error.code() == code::NOT_FOUND => Ok(None),
        Err(error) => Err(error),
    }
}

/// How an account stands at q members that say the same, and who they are.
///
/// # Errors
/// SYN-3401 where fewer say the same until the time is up; SYN-3132 where a quorum knows no such account.
pub(super) fn agree(system: &System, account: AccountId) -> Result<(Value, Vec<String>), SynError> {
    if system.has_views() {
        return Err(SynError::of(code::UNSUPPORTED, &[("verb", "--linearizable where members come and go")])
            .because("which members make a quorum is in no genesis then"));
    }
    let all = system.all_of(account.shard)?;
    let members = u32::try_from(system.members_of(account.shard).len()).unwrap_or(u32::MAX);
    let quorums = Quorums::new(Model::Byzantine, members)
        .map_err(|error| SynError::with_message(code::GENESIS_INVALID, &error.to_string()))?;
    let need = quorums.intersecting();
    let until = Instant::now() + system.patience();
    loop {
        let asked = std::thread::scope(|scope| {
            let each = all.iter().map(|at| scope.spawn(move || (at.name(), ask(at, account))));
            let each: Vec<_> = each.collect();
            each.into_iter().map(|one| one.join().expect("asking does not panic")).collect::<Vec<_>>()
        });
        let (mut said, mut silent) = (Vec::new(), Vec::new());
        for (name, one) in asked {
            match one {
                Ok(one) => said.push((name.to_owned(), one)),
                Err(error) => silent.push((name.to_owned(), error)),
            }
        }
        let need_all = usize::try_from(need).unwrap_or(usize::MAX);
        match alike(&said, need_all) {
            Some((Some(found), names)) => return Ok((found, names)),
            Some((None, _)) => {
                return Err(SynError::of(code::NOT_FOUND, &[("what", &format!("account {account}"))]));
            }
            None => {}
        }
        if Instant::now() + PAUSE >= until {
            let names: Vec<&str> = silent.iter().map(|(name, _)| name.as_str()).collect();
            let (have, need) = (said.len().to_string(), need.to_string());
            let values = [("have", &*have), ("need", &*need), ("names", &*names.join(", "))];
            let error = SynError::of(code::NO_QUORUM, &values);
            let error = if said.len() >= need_all {
                error.because("those that answer do not say the same")
            } else {
                error
            };
            return Err(silent
                .iter()
                .fold(error, |error, (name, why)| error.because(format!("{name}: {why}"))));
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn account(credits: &str, open: u32) -> Option<Value> {
        let mut said = json!({ "entries": "1", "open_entries": open, "available": "7" });
        for name in SETTLED {
            said[name] = json!("0");
        }
        said["credits"] = json!(credits);
        Some(said)
    }

    fn all(said: Vec<Option<Value>>) -> Vec<(String, Option<Value>)> {
        said.into_iter().enumerate().map(|(at, said)| (format!("n{at}"), said)).collect()
    }

    #[test]
    fn a_balance_counts_that_a_quorum_states_alike_whatever_each_has_under_way() {
        let (new, old) = (|open| account("9", open), || account("5", 0));
        let (found, names) = alike(&all(vec![old(), new(0), new(3), new(0)]), 3).expect("three say it");
        assert_eq!(found.expect("an account")["credits"], "9");
        assert_eq!(names, ["n1", "n2", "n3"]);
        // Two stale members are no quorum, whoever they are.
        assert_eq!(alike(&all(vec![old(), old(), new(0)]), 3), None);
        assert_eq!(alike(&all(vec![old(), old(), new(0), new(0)]), 3), None);
        assert_eq!(alike(&[], 3), None);
    }

    #[test]
    fn that_nobody_knows_an_account_needs_a_quorum_too() {
        let found = alike(&all(vec![None, None, None, account("5", 0)]), 3).expect("three say it");
        assert_eq!(found.0, None);
        assert_eq!(alike(&all(vec![None, None, account("5", 0)]), 3), None);
        let strange = Some(json!({ "id": "0-0-2" }));
        assert_eq!(alike(&all(vec![strange.clone(), strange.clone(), strange]), 3), None);
    }
}
