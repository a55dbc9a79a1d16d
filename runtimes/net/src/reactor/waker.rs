//! Which connections want attention: each has a waker that puts its token on one list and rings the reactor.
//!
//! Bounds: a token is on the list once, so the list is as long as there are connections.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use tokio::sync::Notify;

/// Tokens of connections whose sockets became ready.
pub(crate) struct ReadyList {
    tokens: Mutex<Vec<usize>>,
    bell: Arc<Notify>,
}

/// The waker of one connection.
pub(crate) struct ConnWaker {
    token: usize,
    listed: AtomicBool,
    list: Arc<ReadyList>,
}

impl ReadyList {
    pub(crate) fn new(bell: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { tokens: Mutex::default(), bell })
    }

    /// Swaps the listed tokens into `into`, which is empty.
    pub(crate) fn take(&self, into: &mut Vec<usize>) {
        assert!(into.is_empty(), "earlier tokens were handled");
        core::mem::swap(&mut *self.tokens.lock().unwrap_or_else(PoisonError::into_inner), into);
    }

    /// The waker of connection `token`.
    pub(crate) fn waker(self: &Arc<Self>, token: usize) -> Arc<ConnWaker> {
        Arc::new(ConnWaker { token, listed: AtomicBool::new(false), list: self.clone() })
    }
}

impl ConnWaker {
    /// Lists the connection, to be looked at in the next turn.
    pub(crate) fn list(&self) {
        if !self.listed.swap(true, Ordering::AcqRel) {
            self.list.tokens.lock().unwrap_or_else(PoisonError::into_inner).push(self.token);
            self.list.bell.notify_one();
        }
    }

    /// The connection is being looked at: later news list it again.
    pub(crate) fn seen(&self) {
        self.listed.store(false, Ordering::Release);
    }

    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        self.clone().into()
    }
}

impl Wake for ConnWaker {
    fn wake(self: Arc<Self>) {
        self.list();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.list();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_listed_once_until_it_is_seen() {
        let list = ReadyList::new(Arc::default());
        let (a, b) = (list.waker(4), list.waker(9));
        a.waker().wake_by_ref();
        b.list();
        a.list();
        let mut tokens = Vec::new();
        list.take(&mut tokens);
        assert_eq!(tokens, [4, 9]);
        tokens.clear();
        a.list();
        list.take(&mut tokens);
        assert!(tokens.is_empty(), "not yet seen");
        a.seen();
        a.list();
        list.take(&mut tokens);
        assert_eq!(tokens, [4]);
    }
}
