//! Two memory models for two threads, each cell written by one of them.
//!
//! In [`Order::Sequential`] a load sees the newest store. In [`Order::Weak`] a cell is a list of messages, and a
//! relaxed load may see any that the thread has not yet been shown to be past. Every message carries what its writer
//! had seen at its last release fence; an acquire fence takes over what was loaded before it; sequentially consistent
//! fences are in one order, each seeing all that those before it saw. That contains store buffers (TSO), stores that
//! overtake stores and loads that overtake loads. It does not let a load see a store that comes later in time.

use std::rc::Rc;

use synod_tail::Fence;

/// How loads and stores may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Order {
    Sequential,
    Weak,
}

/// The oldest message of each cell that may still be seen.
pub(crate) type View = Vec<u8>;

fn join(into: &mut View, other: &View) {
    for (a, b) in into.iter_mut().zip(other) {
        *a = (*a).max(*b);
    }
}

#[derive(Clone, Debug, Hash)]
struct Message {
    value: u64,
    view: Rc<View>,
}

/// All cells, with their histories.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Memory {
    order: Order,
    cells: Vec<Rc<Vec<Message>>>,
    fenced: View,
}

/// What one thread has seen.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Eyes {
    now: View,
    loaded: View,
    released: Rc<View>,
}

impl Eyes {
    pub(crate) fn new(cells: usize) -> Self {
        Self { now: vec![0; cells], loaded: vec![0; cells], released: Rc::new(vec![0; cells]) }
    }
}

impl Memory {
    pub(crate) fn new(order: Order, cells: usize) -> Self {
        let zero = Rc::new(vec![Message { value: 0, view: Rc::new(vec![0; cells]) }]);
        Self { order, cells: vec![zero; cells], fenced: vec![0; cells] }
    }

    /// The newest value of a cell.
    pub(crate) fn newest(&self, cell: usize) -> u64 {
        self.cells[cell].last().expect("a cell has a value").value
    }

    pub(crate) fn store(&mut self, cell: usize, value: u64, eyes: &mut Eyes) {
        let messages = Rc::make_mut(&mut self.cells[cell]);
        if self.order == Order::Sequential {
            messages[0].value = value;
            return;
        }
        let place = u8::try_from(messages.len()).expect("few stores");
        eyes.now[cell] = place;
        let mut view = (*eyes.released).clone();
        view[cell] = place;
        messages.push(Message { value, view: Rc::new(view) });
    }

    /// Each value that a load may see, and what the thread has seen then.
    pub(crate) fn load(&self, cell: usize, eyes: &Eyes) -> Vec<(u64, Eyes)> {
        let from = usize::from(eyes.now[cell]);
        let seen = |(place, message): (usize, &Message)| {
            let mut eyes = eyes.clone();
            eyes.now[cell] = u8::try_from(place).expect("few stores");
            join(&mut eyes.loaded, &message.view);
            (message.value, eyes)
        };
        self.cells[cell].iter().enumerate().skip(from).map(seen).collect()
    }

    pub(crate) fn fence(&mut self, fence: Fence, eyes: &mut Eyes) {
        if fence != Fence::Release {
            join(&mut eyes.now, &eyes.loaded);
        }
        if fence == Fence::SeqCst {
            join(&mut eyes.now, &self.fenced);
            self.fenced.clone_from(&eyes.now);
        }
        if fence != Fence::Acquire {
            eyes.released = Rc::new(eyes.now.clone());
        }
    }
}
