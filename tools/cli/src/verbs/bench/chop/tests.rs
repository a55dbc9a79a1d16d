//! What the options mean, and what they do not.

use super::given::{MEANT, RECEIPTS};
use super::{ChopOptions, Chosen, IdDraw, ServerPart, share};
use crate::bench::{App, ChildPlan, ChopPlan, LoadPart, LoadPlan};
use clap::{Args as _, FromArgMatches as _};

fn plan(line: &str) -> Result<ChopPlan, String> {
    let words = std::iter::once("chop").chain(line.split_whitespace());
    let matches = ChopOptions::augment_args(clap::Command::new("chop")).try_get_matches_from(words);
    let matches = matches.map_err(|error| error.to_string())?;
    let options = ChopOptions::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    options.plan().map_err(|error| error.message().to_owned())
}

#[test]
fn defaults_are_those_of_the_figure() {
    let plan = plan("").expect("defaults");
    assert_eq!((plan.ids, plan.distilled, plan.batch, plan.size), (IdDraw::Uniform, 1_000, 65_536, 8));
    assert_eq!((plan.clients, plan.id_space, plan.repeat), (1_000_000, 1_000_000, 3));
    assert_eq!((plan.span.as_secs(), plan.warmup.as_secs(), plan.ablations), (20, 5, true));
    assert!(plan.huge && plan.given.is_empty());
}

#[test]
fn who_wants_no_huge_pages_says_so_and_a_child_that_has_none_does_the_same_otherwise() {
    assert!(!plan("--no-huge-pages").expect("sound").huge);
    let plan = plan("--clients 1000 --batch 100 --for 2s --repeat 5 --out f").expect("sound");
    assert_eq!(plan.given, ["--batch=100", "--clients=1000"], "without times and file");
}

#[test]
fn ids_beyond_the_clients_come_in_whole_chunks() {
    let plan =
        plan("--clients 1000 --id-space 5000 --batch 100 --ids cohort:5 --distilled 0.95").expect("sound");
    assert_eq!((plan.clients, plan.id_space), (1_024, 5_120));
    assert_eq!((plan.ids, plan.distilled, plan.batches().stragglers()), (IdDraw::Cohort(5), 950, 5));
}

#[test]
fn what_means_nothing_is_refused_with_the_reason() {
    for (line, reason) in [
        ("--for 0s", "measures nothing"),
        ("--clients 100 --batch 101", "above the number of ids"),
        ("--ids odd", "one of uniform"),
        ("--distilled 1.5", "not a share"),
        ("--part figure3", "invalid value"),
        ("--part server --distilled 0.9 --pool 63", "four times --window"),
        ("--part server --id-space 2000000", "no --id-space"),
        ("--part server --share 65/64", "not a share such as 26/64"),
        ("--size 0", "0 is not in"),
        ("--pool 0", "goes with a load broker"),
    ] {
        let why = plan(line).map(|_| ()).expect_err(line);
        assert!(why.contains(reason), "{line}: {why}");
    }
}

#[test]
fn the_part_with_real_clients_reads_its_own_options() {
    let real = |line: &str| {
        let words = ["chop", "--part", "real"].into_iter().chain(line.split_whitespace());
        let matches = ChopOptions::augment_args(clap::Command::new("chop")).try_get_matches_from(words);
        let matches = matches.map_err(|error| error.to_string())?;
        let options = ChopOptions::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        options.real().map_err(|error| error.message().to_owned())
    };
    let plain = real("").expect("defaults");
    assert_eq!((plain.clients, plain.brokers, plain.honest, plain.sockets), (131_072, 1, 16, 16));
    assert_eq!((plain.silent, plain.invalid, plain.messages), (0, 0, None));
    let hurt = real("--silent 5 --invalid 0.5 --messages 3 --kill-broker").expect("sound");
    assert_eq!((hurt.silent, hurt.invalid, hurt.brokers, hurt.kill), (50, 5, 2, true));
    for (line, reason) in [
        ("--silent 101", "0 to 100 percent"),
        ("--silent 60 --invalid 41", "above 100 percent"),
        ("--kill-broker", "--messages"),
        ("--kill-broker --messages 1 --brokers 1", "leaves no broker"),
        ("--size 9", "8 bytes"),
        ("--for 0s", "measures nothing"),
    ] {
        let why = real(line).map(|_| ()).expect_err(line);
        assert!(why.contains(reason), "{line}: {why}");
    }
}

#[test]
fn a_server_witnesses_the_share_of_the_paper() {
    let server = |line: &str| plan(line).expect("sound").server;
    assert_eq!(server("--part server"), Some(ServerPart { share: (26, 64), window: 16 }));
    assert_eq!(server("--part server --share 0/1 --window 8").map(|part| part.share), Some((0, 1)));
    assert_eq!(server("--part auth"), None);
}

#[test]
fn a_server_is_sent_as_many_stragglers_as_its_time_may_take() {
    let pool = |line: &str| plan(&format!("--part server {line}")).expect("sound").pool;
    assert_eq!((pool(""), pool("--distilled 1 --pool 3")), (16, 3), "replayed");
    assert_eq!(pool("--distilled 0 --batch 1000"), 25 * 400);
    assert_eq!(pool("--distilled 0.5 --batch 1000 --for 1s --warmup 0s"), 800);
    assert_eq!((pool("--distilled 0 --for 1s --warmup 1s"), pool("--distilled 0 --pool 80")), (64, 80));
    assert_eq!(pool("--distilled 0.999 --batch 100"), 16, "of so few nobody signs alone");
    assert!(pool("--distilled 0.95") < 1_100, "more do not fit");
}

fn chosen(line: &str) -> Result<Chosen, String> {
    let words = std::iter::once("chop").chain(line.split_whitespace());
    let matches = ChopOptions::augment_args(clap::Command::new("chop")).try_get_matches_from(words);
    let matches = matches.map_err(|error| error.to_string())?;
    let options = ChopOptions::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    options.chosen().map_err(|error| error.message().to_owned())
}

fn load(line: &str) -> LoadPlan {
    match chosen(line) {
        Ok(Chosen::Load(plan)) => plan,
        other => unreachable!("{line}: {other:?}"),
    }
}

fn children(line: &str) -> ChildPlan {
    match chosen(line) {
        Ok(Chosen::Children(plan)) => plan,
        other => unreachable!("{line}: {other:?}"),
    }
}

#[test]
fn a_load_broker_has_the_defaults_of_its_row() {
    let plan = load("--part e2e");
    assert_eq!((plan.part, plan.clients, plan.batch, plan.window), (LoadPart::E2e, 1_000_000, 65_536, 8));
    assert_eq!((plan.app, plan.sync, plan.rate), (App::Payments, "volatile-UNSAFE", None));
    assert_eq!((plan.span.as_secs(), plan.warmup.as_secs(), plan.repeat), (20, 5, 3));
    assert_eq!(load("--part linerate").id_space, 257_000_000);
    assert_eq!(load("--part linerate --id-space 2000000").id_space, 2_000_000);
    let faults = load("--part faults --retain 128 --rate 5000 --durability fsync --pool 0 --app pixels");
    assert_eq!((faults.retain, faults.rate, faults.sync), (128 << 20, Some(5_000), "group"));
    assert_eq!((faults.pool, faults.app, faults.part), (0, App::Pixels, LoadPart::Faults));
    let [partial, apps] = ["--part partial --window 2", "--part apps --ids cohort:5"].map(load);
    assert_eq!((partial.part, partial.window, apps.part), (LoadPart::Partial, 2, LoadPart::Apps));
}

#[test]
fn what_means_nothing_under_a_load_broker_is_refused_with_the_reason() {
    for (line, reason) in [
        ("--part e2e --clients 100 --batch 101", "above the number of ids"),
        ("--part e2e --id-space 2000000", "goes with --part linerate"),
        ("--part linerate --id-space 100 --batch 200", "above the number of ids"),
        ("--part e2e --clients 4000000", "at most 3355443"),
        ("--part e2e --ids cohort:5 --pool 0", "replayed from a pool"),
        ("--part e2e --ids cohort:5 --distilled 0.9", "replayed from a pool"),
        ("--part partial --ids cohort:5", "replayed from a pool"),
        ("--part partial --distilled 0.5", "measures every share itself"),
        ("--part apps --size 9", "8 bytes"),
        ("--part apps --rate 10", "closed loops"),
        ("--part e2e --for 0s", "measures nothing"),
        ("--part e2e --rate 0", "0 is not in"),
        ("--part faults --retain 5", "5 is not in"),
    ] {
        let why = chosen(line).map(|_| ()).expect_err(line);
        assert!(why.contains(reason), "{line}: {why}");
    }
}

#[test]
fn all_parts_run_short_and_the_broker_is_that_of_the_real_part() {
    let all = children("--part all --clients 4096 --batch 512");
    let parts: Vec<&str> = all.children.iter().map(|(part, _)| *part).collect();
    assert_eq!(parts, ["auth", "server", "real", "e2e", "linerate", "partial", "apps", "faults"]);
    for (part, options) in &all.children {
        let line = options.join(" ");
        assert!(line.starts_with("--for=2000ms --warmup=1000ms --repeat=1 "), "{line}");
        assert!(line.contains("--clients=4096"), "{line}");
        assert_eq!(
            line.contains("--no-ablations"),
            *part != "e2e",
            "both durabilities stand beside there: {line}"
        );
        assert_eq!(line.contains("--batch=512"), *part != "real", "{part}: {line}");
        chosen(&format!("--part {part} {line}")).expect("every part takes what it is given");
    }
    let broker = children("--part broker --honest 2 --repeat 2");
    assert_eq!(broker.part, "broker");
    let [(part, options)] = broker.children.as_slice() else { unreachable!("{broker:?}") };
    assert!(*part == "real" && options.join(" ").contains("--for=20000ms --warmup=5000ms --repeat=2"));
    assert!(options.contains(&"--honest=2".to_owned()), "{options:?}");
}

#[test]
fn every_option_is_listed_with_the_parts_that_it_goes_with() {
    let command = ChopOptions::augment_args(clap::Command::new("chop"));
    let mut options: Vec<&str> = command.get_arguments().map(|option| option.get_id().as_str()).collect();
    options.retain(|option| !["part", "out"].contains(option));
    let mut listed: Vec<&str> = MEANT.iter().chain([&RECEIPTS]).map(|(option, _)| *option).collect();
    options.sort_unstable();
    listed.sort_unstable();
    assert_eq!(options, listed);
}

#[test]
fn an_option_that_means_nothing_for_a_part_is_refused_and_not_forgotten() {
    for (line, option) in [
        ("--part auth --durability fsync", "--durability"),
        ("--part server --silent 5", "--silent"),
        ("--part broker --ids cohort:5", "--ids"),
        ("--part broker --durability fsync", "--durability"),
        ("--part real --batch 512", "--batch"),
        ("--part e2e --share 1/2", "--share"),
        ("--part e2e --retain 128", "--retain"),
        ("--part apps --app pixels", "--app"),
        ("--part faults --honest 3", "--honest"),
    ] {
        let why = chosen(line).map(|_| ()).expect_err(line);
        assert!(why.contains(&format!("{option} means nothing with --part")), "{line}: {why}");
    }
    assert!(chosen("--part all --durability fsync --silent 5 --share 1/2").is_ok(), "some part takes each");
}

#[test]
fn parts_of_all_get_every_option_that_goes_with_them() {
    let all =
        children("--part all --durability fsync --share 1/2 --silent 5 --size 8 --i-am-a-test --for 1s");
    for (part, options) in &all.children {
        let has = |option: &str| options.iter().any(|word| word == option);
        let is_load = ["e2e", "linerate", "partial", "apps", "faults"].contains(part);
        assert_eq!(has("--durability=fsync"), is_load, "{part}");
        assert_eq!((has("--share=1/2"), has("--silent=5")), (*part == "server", *part == "real"), "{part}");
        assert!(has("--size=8") && has("--i-am-a-test") && has("--for=1000ms"), "{part}: {options:?}");
    }
    let [(_, broker)] = &children("--part broker --silent 5 --messages 2 --kill-broker").children[..] else {
        unreachable!("one part")
    };
    assert!(
        broker.ends_with(&["--silent=5", "--messages=2", "--kill-broker"].map(str::to_owned)),
        "{broker:?}"
    );
}

#[test]
fn what_a_later_part_refuses_is_refused_before_the_first_one_runs() {
    for (line, reason) in [
        ("--part all --clients 4000000", "at most 3355443"),
        ("--part all --distilled 0.5", "measures every share itself"),
        ("--part all --size 9", "8 bytes"),
        ("--part broker --silent 101", "0 to 100 percent"),
    ] {
        let why = chosen(line).map(|_| ()).expect_err(line);
        assert!(why.contains(reason), "{line}: {why}");
    }
}

#[test]
fn shares_are_read_in_thousandths() {
    let read = |text| share(text).ok();
    assert_eq!(
        [read("1"), read("0"), read("1.0"), read("0.95"), read("0.001")],
        [1_000, 0, 1_000, 950, 1].map(Some)
    );
    for wrong in ["", "2", "1.001", "-0", "0.", ".5", "0.0001", "1e0", "+1", "0.x"] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}
