//! What a cluster of Chop Chop waits for, when its members are all there and ready.

use super::Cause;
use crate::health::{AskedBroker, Brokering, Survey, Vitals};
use synod_config::code;

/// Batches between accepted and delivered from which a server waits for bodies: brokers keep four open each, and what is
/// on its way is no wait.
const BEHIND: u64 = 64;

/// The first cause that fits: a broker that is away, reaches too few servers or has no credit left, then servers that wait
/// for bodies or for the directory.
pub(super) fn first(survey: &Survey) -> Option<Cause> {
    survey
        .brokers
        .iter()
        .find_map(|broker| of_broker(broker, survey))
        .or_else(|| survey.answers().find_map(|(name, vitals)| bodies(name, vitals)))
        .or_else(|| directory(survey))
}

fn lines(survey: &Survey) -> Vec<String> {
    let line = |broker: &AskedBroker| match &broker.told {
        Ok(told) => {
            let credit = told.credit.map_or("unknown".to_owned(), |credit| format!("{credit} bytes"));
            let Brokering { servers, height, directory, pool, .. } = told;
            format!(
                "{}: {servers} servers, height {height}, {directory} clients, {pool} messages wait, credit {credit}",
                broker.name
            )
        }
        Err(error) => format!("{}: {error}", broker.name),
    };
    let server = |(name, vitals): (&str, &Vitals)| {
        let [accepted, delivered, directory] =
            [vitals.accepted, vitals.delivered, vitals.directory].map(Option::unwrap_or_default);
        format!("{name}: accepted {accepted}, delivered {delivered}, {directory} clients")
    };
    survey.brokers.iter().map(line).chain(survey.answers().map(server)).collect()
}

fn of_broker(broker: &AskedBroker, survey: &Survey) -> Option<Cause> {
    let name = &broker.name;
    let evidence = || lines(survey);
    let told = match &broker.told {
        Ok(told) => told,
        Err(error) => {
            let cause = format!("broker {name} is unreachable: {error}; its clients turn to another");
            return Some(Cause { cause, code: Some(error.code()), evidence: evidence() });
        }
    };
    if !told.ready {
        let cause = format!("broker {name} reaches {} of {} servers", told.servers, survey.need());
        return Some(Cause { cause, code: Some(code::NO_QUORUM), evidence: evidence() });
    }
    // A batch without room waits at its broker; where nothing waits, nothing lacks.
    if told.credit == Some(0) && told.pool > 0 {
        let cause =
            format!("broker {name} has no credit left: servers take no body of it, {} wait", told.pool);
        return Some(Cause { cause, code: Some(code::BUSY), evidence: evidence() });
    }
    None
}

fn bodies(name: &str, vitals: &Vitals) -> Option<Cause> {
    let (accepted, delivered) = (vitals.accepted?, vitals.delivered?);
    let behind = accepted.checked_sub(delivered).filter(|behind| *behind >= BEHIND)?;
    let cause =
        format!("server {name} waits for bodies: {behind} batches are ordered and not delivered there");
    let evidence = vec![format!("{name}: accepted {accepted}, delivered {delivered}")];
    Some(Cause { cause, code: Some(code::BUSY), evidence })
}

/// A server whose directory is shorter than a broker's cannot witness what that broker seals for the newest clients.
fn directory(survey: &Survey) -> Option<Cause> {
    let known =
        survey.brokers.iter().filter_map(|broker| Some(broker.told.as_ref().ok()?.directory)).max()?;
    let short = |(name, vitals): (&str, &Vitals)| {
        let own = vitals.directory.filter(|own| *own < known)?;
        Some((name.to_owned(), own))
    };
    let (name, own) = survey.answers().find_map(short)?;
    let cause = format!("server {name} waits for the directory: it knows {own} of {known} clients");
    Some(Cause { cause, code: Some(code::BUSY), evidence: lines(survey) })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ready, survey};
    use super::*;
    use synod_config::SynError;

    fn broker(told: Brokering) -> AskedBroker {
        AskedBroker { name: "b0".to_owned(), told: Ok(told) }
    }

    fn fine() -> Brokering {
        Brokering { ready: true, servers: 4, directory: 9, credit: Some(1 << 20), ..Brokering::default() }
    }

    fn server(accepted: u64, directory: u64) -> Vitals {
        Vitals { accepted: Some(accepted), delivered: Some(10), directory: Some(directory), ..ready() }
    }

    fn told(brokers: Vec<AskedBroker>, servers: [Vitals; 4]) -> Option<Cause> {
        first(&Survey { brokers, ..survey(servers.into_iter().map(Ok).collect()) })
    }

    #[test]
    fn each_cause_of_brokers_and_servers_is_named_with_its_code() {
        let good = || [server(12, 9), server(10, 9), server(73, 9), server(10, 9)];
        assert_eq!(told(vec![broker(fine())], good()), None);
        assert_eq!(told(Vec::new(), good()), None, "no broker is asked");
        let away = SynError::of(code::REFUSED, &[("address", "127.0.0.1:1")]);
        let away = AskedBroker { name: "b1".to_owned(), told: Err(away) };
        let cases = [
            (vec![broker(fine()), away], good(), code::REFUSED, "broker b1 is unreachable"),
            (
                vec![broker(Brokering { ready: false, servers: 2, ..fine() })],
                good(),
                code::NO_QUORUM,
                "broker b0 reaches 2 of 3 servers",
            ),
            (
                vec![broker(Brokering { credit: Some(0), pool: 7, ..fine() })],
                good(),
                code::BUSY,
                "broker b0 has no credit left",
            ),
            (
                vec![broker(fine())],
                [server(12, 9), server(74, 9), server(10, 9), server(10, 9)],
                code::BUSY,
                "server n1 waits for bodies: 64 batches",
            ),
            (
                vec![broker(fine())],
                [server(12, 9), server(10, 9), server(10, 9), server(10, 8)],
                code::BUSY,
                "server n3 waits for the directory: it knows 8 of 9 clients",
            ),
        ];
        for (brokers, servers, number, text) in cases {
            let cause = told(brokers, servers).expect("a cause");
            assert_eq!(cause.code, Some(number), "{cause:?}");
            assert!(cause.cause.contains(text) && !cause.evidence.is_empty(), "{cause:?}");
        }
        let idle = broker(Brokering { credit: Some(0), pool: 0, ..fine() });
        assert_eq!(told(vec![idle], good()), None, "nothing waits, so nothing lacks");
    }
}
