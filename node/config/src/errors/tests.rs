//! Tests of the catalogue: complete, unique, and shown alike in all forms.

use super::*;
use crate::exits::EXITS;
use std::collections::BTreeSet;

/// The codes the surface promises for the ranges of this release.
const PROMISED: &[(u16, u16)] = &[
    (1001, 1003),
    (1101, 1112),
    (1201, 1206),
    (2001, 2005),
    (2101, 2109),
    (3001, 3008),
    (3011, 3014),
    (3102, 3102),
    (3104, 3110),
    (3112, 3116),
    (3118, 3120),
    (3123, 3136),
    (3201, 3207),
    (3301, 3304),
    (3310, 3310),
    (3321, 3326),
    (3401, 3405),
    (3501, 3502),
    (3601, 3605),
    (4001, 4006),
    (5001, 5008),
    (6001, 6009),
    (7001, 7003),
    (9001, 9001),
];

fn words(template: &str) -> Vec<&str> {
    template.split('{').skip(1).filter_map(|part| part.split_once('}')).map(|(word, _)| word).collect()
}

#[test]
fn the_catalogue_holds_exactly_the_promised_codes_in_order() {
    let promised: Vec<u16> = PROMISED.iter().flat_map(|(first, last)| *first..=*last).collect();
    let held: Vec<u16> = ERRORS.iter().map(|entry| entry.code.number()).collect();
    assert_eq!(held, promised);
}

#[test]
fn names_are_unique_and_every_row_has_causes_and_a_fix() {
    let mut names = BTreeSet::new();
    for entry in ERRORS {
        assert!(names.insert(entry.name), "{} stands twice", entry.name);
        assert!(entry.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{}", entry.name);
        assert!(
            !entry.causes.is_empty() && entry.causes.iter().all(|cause| cause.len() >= 10),
            "{}",
            entry.code
        );
        assert!(entry.fix.len() >= 10, "{} has no fix", entry.code);
        assert!(!entry.message.contains("timeout") && !entry.message.contains("deadline exceeded"));
    }
}

#[test]
fn every_row_ends_with_an_exit_code_of_the_table_and_a_fitting_status() {
    let known: BTreeSet<u8> = EXITS.iter().map(|row| row.exit.number()).collect();
    for entry in ERRORS {
        assert!(known.contains(&entry.exit.number()));
        assert_ne!(entry.exit, Exit::Success, "{}", entry.code);
        assert!(entry.http.is_none_or(|status| (400..600).contains(&status)), "{}", entry.code);
        assert_eq!(entry.retry == Retry::Unknown, entry.exit == Exit::Unknown, "{}", entry.code);
    }
}

#[test]
fn each_code_builds_an_error_whose_three_forms_agree() {
    for entry in ERRORS {
        let values: Vec<(&str, &str)> =
            words(entry.message).into_iter().map(|word| (word, "VALUE")).collect();
        let error = SynError::of(entry.code, &values).because("the outer cause").because("the inner cause");
        assert!(!error.message().contains(['{', '}', '?']), "{}", error.message());
        assert_eq!(error.message().matches("VALUE").count(), values.len());
        assert_eq!(error.exit_code(), entry.exit);

        let text = error.to_text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("error {}: {}", entry.code, error.message()));
        assert_eq!(
            lines[1..],
            ["cause: the outer cause", "cause: the inner cause", &format!("fix: {}", entry.fix)]
        );

        let json = error.to_json();
        let keys: Vec<&str> = json.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys, ["causes", "code", "exit", "fix", "message", "name", "retry"]);
        assert_eq!(json["code"], entry.code.to_string());
        assert_eq!(json["exit"], entry.exit.number());

        let problem = error.to_problem(Some("r1-00000000-1-1"), None);
        assert_eq!(problem["type"], format!("urn:synod:error:{}", entry.code));
        for key in ["code", "fix", "retry", "causes"] {
            assert_eq!(problem[key], json[key], "{key}");
        }
        assert_eq!(problem["status"], entry.http.unwrap_or(500));
    }
}

#[test]
fn each_code_has_an_explain_page_and_unknown_ones_have_none() {
    for entry in ERRORS {
        let page = explain(entry.code).expect("each row is found by its code").to_text();
        assert!(page.starts_with(&format!("{} {}\n", entry.code, entry.name)));
        assert!(page.contains("\ncause: ") && page.contains("\nfix: "));
        assert_eq!(page.contains("\nexit: "), !entry.is_peer_fault());
    }
    for absent in [0, 1000, 1004, 3009, 3101, 3708, 4101, 9999] {
        assert!(explain(Code::new(absent)).is_none(), "{absent}");
    }
}

#[test]
fn codes_are_read_as_they_are_written() {
    for entry in ERRORS {
        assert_eq!(Code::parse(&entry.code.to_string()), Some(entry.code));
        assert_eq!(Code::parse(&entry.code.number().to_string()), Some(entry.code));
    }
    for bad in ["", "SYN-", "SYN-11", "SYN-11033", "SYN-+103", "XYZ-1103", "SYN-é", "１１０３"] {
        assert_eq!(Code::parse(bad), None, "{bad}");
    }
}

#[test]
fn values_from_outside_are_escaped_bounded_and_never_templates() {
    let long = "x".repeat(100_000);
    let error = SynError::of(
        code::BAD_VALUE,
        &[("file", "a\u{1b}[31m\nb"), ("key", "{problem}"), ("problem", &long)],
    );
    assert!(error.message().starts_with("a\\u{1b}[31m\\nb: {problem} is xxx"), "{}", error.message());
    assert!(error.message().len() < 1_000);
    let deep = (0..100).fold(error, |error, at| error.because(at));
    assert_eq!(deep.causes().len(), 8);
}

#[test]
fn a_missing_value_leaves_a_gap_and_the_error_still_shows() {
    assert_eq!(SynError::of(code::PORT_TAKEN, &[("address", "a:1")]).message(), "a:1 is taken by ?");
}

const EXTRA: &[Entry] =
    &[peer_fault(4101, "equivocated_vote", "{peer} voted twice", &["the peer lies to us"])];
const CLASH: &[Entry] = &[peer_fault(4001, "again", "{peer} did it again", &["the number is taken already"])];

#[test]
fn a_protocols_fault_list_joins_the_catalogue_unless_a_number_is_taken() {
    let catalogue = Catalogue::joined(&[EXTRA]).expect("the numbers are free");
    assert_eq!(catalogue.rows().count(), ERRORS.len() + 1);
    assert_eq!(catalogue.explain(Code::new(4101)).map(|entry| entry.name), Some("equivocated_vote"));
    assert_eq!(Catalogue::joined(&[EXTRA, CLASH]).err(), Some(Code::new(4001)));
}
