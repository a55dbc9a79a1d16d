//! The pages of `docs/reference` that are made from the tables of this crate. A test compares the committed
//! files with them; `SYNOD_BLESS=1 cargo test -p synod-config` writes them.

use crate::choice::Choice as _;
use crate::errors::{ERRORS, Entry};
use crate::exits::EXITS;
use crate::genesis::GENESIS_KEYS;
use crate::metrics::{Area, METRICS};
use crate::node::KEYS;
use crate::routes::ROUTES;
use crate::table::Key;
use std::fmt::Write as _;

/// One generated page.
#[derive(Clone, Copy, Debug)]
pub struct ReferencePage {
    /// Name of the file in `docs/reference`.
    pub file: &'static str,
    /// Makes its text.
    pub text: fn() -> String,
}

/// The generated pages.
pub const REFERENCE_PAGES: &[ReferencePage] = &[
    ReferencePage { file: "config.md", text: config },
    ReferencePage { file: "errors.md", text: errors },
    ReferencePage { file: "metrics.md", text: metrics },
    ReferencePage { file: "exit-codes.md", text: exit_codes },
    ReferencePage { file: "routes.md", text: routes },
];

const NOTE: &str = "Generated from the tables of `node/config`; do not edit by hand.\n";

/// A cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn code_cell(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", cell(text)) }
}

fn config() -> String {
    let mut page = format!("# Configuration\n\n{NOTE}\n");
    page.push_str(
        "Values come from four layers, the later over the earlier: default, file, environment\n\
         (`SYNOD_SECTION__KEY`), flag. `synod config show --effective` prints the origin of each value. A key\n\
         that is not listed here is refused with the nearest one (SYN-1102).\n\n",
    );
    let _infallible =
        writeln!(page, "## node.toml\n\n{} keys: what one node may choose alone.\n", KEYS.len());
    keys(&mut page, KEYS);
    page.push_str("\n## genesis.toml\n\nWhat all members must agree on. The cluster id is the BLAKE3 digest of its canonical encoding.\n\n");
    keys(&mut page, GENESIS_KEYS);
    page
}

fn keys(page: &mut String, keys: &[Key]) {
    page.push_str("| Key | Default | Takes | Meaning |\n|---|---|---|---|\n");
    for key in keys {
        let range = cell(&key.range());
        let _infallible = writeln!(
            page,
            "| `{}` | {} | {range} | {} |",
            key.name,
            code_cell(key.default),
            cell(key.meaning)
        );
    }
}

fn errors() -> String {
    let mut page = format!("# Errors\n\n{NOTE}\n");
    page.push_str(
        "Codes are permanent and never reused. `synod explain CODE` prints one of these entries. Retry: **P** the\n\
         same bytes never succeed, **T** they may later, **D** done before with the same result, **U** ask by\n\
         request id. Faults of peers (4xxx) appear in logs, metrics and evidence only.\n",
    );
    let mut range = 0;
    for entry in ERRORS {
        if entry.code.number() / 100 != range {
            range = entry.code.number() / 100;
            let _infallible = writeln!(page, "\n## SYN-{range}xx: {}", range_title(range));
        }
        page.push_str(&error(entry));
    }
    page
}

fn error(entry: &Entry) -> String {
    let mut text = format!("\n### {} {}\n\n{}\n\n", entry.code, entry.name, entry.message);
    for cause in entry.causes {
        let _infallible = writeln!(text, "- Cause: {cause}.");
    }
    let _infallible = writeln!(text, "- Fix: {}.", entry.fix);
    if !entry.is_peer_fault() {
        let http = entry.http.map_or(String::new(), |status| format!(", HTTP {status}"));
        let _infallible =
            writeln!(text, "- Retry {}, exit {}{http}.", entry.retry.letter(), entry.exit.number());
    }
    text
}

fn range_title(range: u16) -> &'static str {
    match range {
        10 => "usage",
        11 => "files",
        12 => "host",
        20 => "transport",
        21 => "handshake",
        30 => "requests and access",
        31 => "payments",
        32 => "Chop Chop",
        33 => "other applications",
        34 => "availability",
        35 => "unknown outcome",
        36 => "membership",
        40 => "peer faults found by the runtime",
        50 => "storage",
        60 => "verification",
        70 => "simulator and lab",
        90 => "bugs",
        _ => unreachable!("the catalogue holds no other range"),
    }
}

fn metrics() -> String {
    let mut page = format!("# Metrics\n\n{NOTE}\n");
    page.push_str(
        "Served on the metrics port at `/metrics`. Units are base units. The labels `peer` are names of members;\n\
         all others are closed sets of words.\n",
    );
    for (title, area) in Area::ALL {
        let _infallible =
            writeln!(page, "\n## {title}\n\n| Name | Type | Unit | Labels | Help |\n|---|---|---|---|---|");
        for metric in METRICS.iter().filter(|metric| metric.area == *area) {
            let labels = metric.labels.join(", ");
            let _infallible = writeln!(
                page,
                "| `{}` | {} | {} | {labels} | {} |",
                metric.name, metric.kind, metric.unit, metric.help
            );
        }
    }
    page
}

fn exit_codes() -> String {
    let mut page = format!("# Exit codes\n\n{NOTE}\nOne meaning each, the same for every verb.\n\n");
    page.push_str("| Exit | Meaning | Codes |\n|---|---|---|\n");
    for row in EXITS {
        let of_row = ERRORS.iter().filter(|entry| entry.exit == row.exit && !entry.is_peer_fault());
        let codes: Vec<String> = of_row.map(|entry| entry.code.number().to_string()).collect();
        let _infallible =
            writeln!(page, "| {} | {} | {} |", row.exit.number(), row.meaning, codes.join(", "));
    }
    page
}

fn routes() -> String {
    let mut page = format!("# HTTP routes\n\n{NOTE}\n");
    page.push_str(
        "Bodies and answers are JSON; errors are RFC 9457 problem objects with the code of the catalogue. Besides\n\
         the codes listed, every route may answer with those of availability (34xx, 35xx) and access (3011, 3012).\n\n\
         | Method | Path | Does | Query | Headers | Codes |\n|---|---|---|---|---|---|\n",
    );
    for route in ROUTES {
        let codes: Vec<String> = route.codes.iter().map(ToString::to_string).collect();
        let _infallible = writeln!(
            page,
            "| {} | `{}` | {} | {} | {} | {} |",
            route.method.as_str(),
            route.path,
            cell(route.does),
            route.query.join(", "),
            route.headers.join(", "),
            codes.join(", ")
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_committed_reference_equals_the_tables() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        let bless = std::env::var_os("SYNOD_BLESS").is_some_and(|value| value == "1");
        for page in REFERENCE_PAGES {
            let (path, made) = (directory.join(page.file), (page.text)());
            if bless {
                std::fs::create_dir_all(&directory).expect("the directory is writable");
                std::fs::write(&path, &made).expect("the page is writable");
            }
            let committed = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                committed == made,
                "{} is out of date: SYNOD_BLESS=1 cargo test -p synod-config",
                page.file
            );
        }
    }

    #[test]
    fn every_code_key_metric_and_exit_stands_on_its_page() {
        let text = |file: &str| {
            let page = REFERENCE_PAGES.iter().find(|page| page.file == file).expect("the page exists");
            (page.text)()
        };
        let (errors, config, metrics) = (text("errors.md"), text("config.md"), text("metrics.md"));
        for entry in ERRORS {
            assert_eq!(errors.matches(&format!("### {} ", entry.code)).count(), 1, "{}", entry.code);
        }
        for key in KEYS.iter().chain(GENESIS_KEYS) {
            // A name may stand in both files, each time on its own row.
            let named = KEYS.iter().chain(GENESIS_KEYS).filter(|other| other.name == key.name).count();
            assert_eq!(config.matches(&format!("| `{}` |", key.name)).count(), named, "{}", key.name);
        }
        for metric in METRICS {
            assert_eq!(metrics.matches(&format!("| `{}` |", metric.name)).count(), 1, "{}", metric.name);
        }
        assert_eq!(
            text("exit-codes.md").lines().filter(|line| line.starts_with("| ")).count(),
            EXITS.len() + 1
        );
    }
}
