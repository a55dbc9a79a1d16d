//! The text view: narrow, one line per row, and nothing that an author of texts could break.

use super::*;
use crate::trace::{Past, Said};

fn effect(kind: EffectKind, text: &str, to: &[u32]) -> Effect {
    let to = to.iter().map(|id| NodeId(*id)).collect();
    Effect { kind, to, said: Said::plain(text), lie: None, lsn: None }
}

fn step(node: u32, (event, cause): (u64, u64), kind: StepKind, what: &str) -> Step {
    Step {
        event,
        cause,
        time: event * 1_500,
        node: NodeId(node),
        twin: 0,
        incarnation: 1,
        honest: node != 2,
        machine: 0,
        kind,
        from: None,
        what: Said::plain(what),
        lie: None,
        frame: None,
        effects: Vec::new(),
        durable: 0,
        crashed: false,
    }
}

fn printed(steps: &[Step], evidence: &[u64]) -> String {
    let past = Past::whole(steps.iter());
    let crash = Aside {
        time: 9_000,
        after: 6,
        kind: AsideKind::Crash,
        nodes: vec![(NodeId(1), 0)],
        what: "crash:".into(),
    };
    columns(past.rows(), &[&crash], evidence, &|id| format!("n{}", id.0))
}

#[test]
fn a_small_run_reads_line_by_line() {
    let mut propose = step(2, (1, 0), StepKind::Timer, "timer view 1");
    propose.effects = vec![
        effect(EffectKind::Arm, "view 1", &[]),
        effect(EffectKind::Send, "proposal v=1", &[0]),
        Effect { lie: Some("byz.B4"), ..effect(EffectKind::Send, "proposal v=1 b", &[1]) },
    ];
    let hears = Step { from: Some(NodeId(2)), ..step(0, (2, 1), StepKind::Frame, "proposal v=1") };
    let mut done = step(0, (3, 2), StepKind::Done, "job done");
    let promise = Said::marked("Safety(vote v=1)", Mark::Promise);
    done.effects = vec![
        effect(EffectKind::Store, "blob", &[]),
        Effect { said: promise, ..effect(EffectKind::Persist, "", &[]) },
    ];
    let mut durable = step(0, (4, 3), StepKind::Durable, "durable to #1");
    durable.effects =
        vec![effect(EffectKind::Send, "vote v=1", &[1]), effect(EffectKind::Send, "vote v=1", &[2])];
    let lied = Step {
        from: Some(NodeId(2)),
        lie: Some("byz.B4"),
        ..step(1, (5, 1), StepKind::Frame, "proposal v=1 b")
    };
    let last = Step { from: Some(NodeId(0)), ..step(2, (7, 4), StepKind::Frame, "vote v=1") };
    let text = printed(&[propose, hears, done, durable, lied, last], &[2, 5]);
    let expected = "         ms   event  n0   n1   n2
      0.001       1   |    |    *  LIAR n2 timer view 1 -> sends proposal v=1 to n0; sends proposal v=1 b to n1 [byz.B4]
      0.003       2   *    |    |  !! n0 hears n2: proposal v=1 -> writes Safety; durable to #1; sends vote v=1 to n1 n2
      0.007       5   |    *    |  !! n1 hears n2: proposal v=1 b [byz.B4]
      0.009           |         |  -- crash: n1
      0.010       7   |         *  LIAR n2 hears n0: vote v=1
";
    assert_eq!(text, expected, "\n{text}");
}

#[test]
fn hostile_words_stay_on_their_line_and_within_the_width() {
    let text = printed(&[step(0, (1, 0), StepKind::Input, &format!("\u{1b}[31m\n{}", "x".repeat(900)))], &[]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines.iter().all(|line| line.chars().count() <= WIDTH && !line.contains('\u{1b}')), "{text}");
    assert!(lines[1].ends_with('\u{2026}'));
}
