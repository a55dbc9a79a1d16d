//! The page: whole, self-contained, and deaf to hostile texts.

use super::*;
use crate::trace::{Effect, Past, Said};

const HOSTILE: &str = "</text><script src=\"http://x\">'&\u{1b}";

fn steps() -> Vec<Step> {
    let plain = |event: u64, cause: u64, node: u32, kind: StepKind| Step {
        event,
        cause,
        time: event * 1_000_000,
        node: NodeId(node),
        twin: 0,
        incarnation: 1,
        honest: node != 1,
        machine: 0,
        kind,
        from: None,
        what: Said::plain(HOSTILE),
        lie: None,
        frame: None,
        effects: Vec::new(),
        durable: 0,
        crashed: false,
    };
    let effect = |kind, mark, to: &[u32]| Effect {
        kind,
        to: to.iter().map(|id| NodeId(*id)).collect(),
        said: Said::marked(HOSTILE, mark),
        lie: Some("byz.B4"),
        lsn: None,
    };
    let mut sends = plain(1, 0, 0, StepKind::Timer);
    sends.effects = vec![effect(EffectKind::Send, Mark::Promise, &[1, 2])];
    let mut writes = plain(2, 1, 1, StepKind::Frame);
    writes.from = Some(NodeId(0));
    writes.effects = vec![effect(EffectKind::Persist, Mark::Certificate, &[])];
    let durable = plain(3, 2, 1, StepKind::Durable);
    let mut commits = plain(4, 1, 2, StepKind::Frame);
    commits.from = Some(NodeId(0));
    commits.effects = vec![effect(EffectKind::Output, Mark::Commit, &[])];
    vec![sends, writes, durable, commits]
}

fn made(evidence: &[u64]) -> String {
    let steps = steps();
    let past = Past::whole(steps.iter());
    let crash = Aside {
        time: 9,
        after: 1,
        kind: AsideKind::Crash,
        nodes: vec![(NodeId(2), 0)],
        what: HOSTILE.to_owned(),
    };
    let story = Story {
        title: HOSTILE.to_owned(),
        facts: vec![("what".to_owned(), HOSTILE.to_owned())],
        verdict: HOSTILE.to_owned(),
    };
    page(&story, past.rows(), &[&crash], evidence, &|id| format!("n{}", id.0))
}

#[test]
fn every_event_is_on_the_page_once_and_every_link_leads_somewhere() {
    let page = made(&[2, 4]);
    for event in 1..=4 {
        assert_eq!(page.matches(&format!(r#"id="e{event}""#)).count(), 1, "event {event}");
    }
    let links: Vec<&str> = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(links.len(), 3, "three rows, of which one holds two events");
    assert!(links.iter().all(|link| page.matches(&format!(r#"id="{link}""#)).count() == 1));
    assert_eq!(page.matches(r#"marker-end"#).count(), 2, "one arrow per message that was heard");
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = made(&[]);
    for outside in ["src=", "http:", "https:", "@import", "url(h", "<link", "<iframe", "fetch("] {
        let allowed = page.replace(&html(HOSTILE), "");
        assert!(!allowed.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<script>").count(), 1);
}

#[test]
fn hostile_words_are_shown_and_not_obeyed() {
    let page = made(&[2, 4]);
    assert!(!page.contains("<script src") && !page.contains('\u{1b}'));
    assert!(page.contains("&lt;/text&gt;&lt;script src=&quot;"));
}

#[test]
fn what_the_verdict_rests_on_is_ringed_numbered_and_led_to_it() {
    let page = made(&[2, 4]);
    assert_eq!(page.matches(r#"class="ring""#).count(), 2);
    assert_eq!(page.matches(r#"class="lead""#).count(), 2);
    assert_eq!(page.matches(r#"<rect class="verdict""#).count(), 1);
    assert_eq!(made(&[]).matches(r#"class="ring""#).count(), 0);
}
