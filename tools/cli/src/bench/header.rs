//! The header of every result: what must be equal before two results may be compared.

use super::{Pace, Plan};
use serde_json::{Value, json};

/// The header of a run of `plan`.
pub(crate) fn header(plan: &Plan) -> Value {
    json!({
        "commit": env!("SYNOD_BUILD_COMMIT"),
        "machine": cpu_model(),
        "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "kernel": kernel(),
        "rustc": env!("SYNOD_BUILD_RUSTC"),
        "build": if cfg!(target_feature = "avx2") { "native" } else { "portable" },
        "profile": if cfg!(debug_assertions) { "dev" } else { "release" },
        "transport": "tls",
        "access": plan.access(),
        "auth": plan.auth(),
        "durability": plan.durability(),
        "loop": if plan.pace == Pace::Closed { "closed" } else { "open" },
        "processes": plan.processes(),
        "date": date(),
    })
}

fn cpu_model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name"));
    model.map_or_else(|| "unknown".to_owned(), |m| m.trim_start_matches([' ', '\t', ':']).to_owned())
}

fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |t| t.trim().to_owned())
}

/// Today, as `YYYY-MM-DD` in UTC.
fn date() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    civil(since.as_secs() / 86_400)
}

/// The civil date of a day since 1970 (Gregorian calendar, years of 400-year eras).
fn civil(days: u64) -> String {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn days_become_dates() {
        for (day, date) in
            [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_778, "2026-11-21")]
        {
            assert_eq!(civil(day), date);
        }
    }
}
