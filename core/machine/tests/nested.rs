//! Machines inside machines: effects are lifted in order, outputs come back, families are bounded.

use synod_machine::{Effect, Event, Family, Lift, Machine, Never, Span, Time, Turn, testing};

struct Child {
    name: u8,
}

impl Machine for Child {
    type Input = u64;
    type Message = Never;
    type Timer = u64;
    type Record = Never;
    type Job = Never;
    type Output = u64;
    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Input(n) => {
                turn.output(n);
                turn.arm(n, Span(1));
                turn.output(n + u64::from(self.name));
            }
            Event::Timer(n) => turn.disarm(n),
            _ => {}
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Own,
    Of(u8, u64),
}

struct Parent {
    children: Family<u8, Child>,
}

struct InParent(u8);

impl Lift<Child, Parent> for InParent {
    fn message(&self, message: Never) -> Never {
        message
    }
    fn timer(&self, timer: u64) -> Timer {
        Timer::Of(self.0, timer)
    }
    fn record(&self, record: Never) -> Never {
        record
    }
    fn job(&self, job: Never) -> Never {
        job
    }
}

impl Machine for Parent {
    type Input = (u8, u64);
    type Message = Never;
    type Timer = Timer;
    type Record = Never;
    type Job = Never;
    type Output = (u8, u64);
    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        let (name, event) = match event {
            Event::Input((name, n)) => (name, Event::Input(n)),
            Event::Timer(Timer::Of(name, n)) => (name, Event::Timer(n)),
            _ => return,
        };
        turn.arm(Timer::Own, Span(9));
        let Some(child) = self.children.member(name, || Child { name }) else { return };
        let outputs: Vec<u64> = child.step(event, &InParent(name), turn).collect();
        outputs.into_iter().for_each(|n| turn.output((name, n)));
    }
}

fn parent() -> Parent {
    Parent { children: Family::new(2) }
}

#[test]
fn a_childs_effects_appear_in_order_under_the_parents_names() {
    let effects = testing::effects(&mut parent(), Event::Input((4, 10)), Time::ZERO);
    assert_eq!(
        effects.iter().map(|e| format!("{e:?}")).collect::<Vec<_>>(),
        ["arm Own after 0.000ms", "arm Of(4, 10) after 0.000ms", "output (4, 10)", "output (4, 14)",]
    );
    let effects = testing::effects(&mut parent(), Event::Timer(Timer::Of(4, 10)), Time::ZERO);
    assert!(matches!(effects[1], Effect::Disarm(Timer::Of(4, 10))));
}

#[test]
fn a_family_refuses_one_more_than_its_bound() {
    let mut parent = parent();
    for name in [3, 1, 2] {
        testing::effects(&mut parent, Event::Input((name, 0)), Time::ZERO);
    }
    assert_eq!(parent.children.keys().collect::<Vec<_>>(), [1, 3]);
    assert_eq!(parent.children.retire(3).map(|c| c.name), Some(3));
    testing::effects(&mut parent, Event::Input((2, 0)), Time::ZERO);
    assert_eq!(parent.children.iter().map(|(k, c)| (k, c.name)).collect::<Vec<_>>(), [(1, 1), (2, 2)]);
}
