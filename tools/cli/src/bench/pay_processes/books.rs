//! The load's own books: what each account paid and was paid, and which places its payments have.

use synod_host::pay::AccountId;

/// One account, as the load knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) credits: u128,
    pub(crate) debits: u128,
    /// Places in its log, as its payments were told.
    pub(crate) places: Vec<u64>,
}

/// Every customer, of each institution in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Books {
    customers: u32,
    pub(crate) accounts: Vec<Account>,
}

/// A payment of the load. Customers have numbers from 0 on, those of the first institution first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) id: u128,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) amount: u128,
}

impl Books {
    /// Books of institutions with so many customers each, who have nothing.
    pub(crate) fn new(institutions: usize, customers: u32) -> Self {
        let count = institutions.saturating_mul(usize::try_from(customers).unwrap_or(usize::MAX));
        Self { customers, accounts: vec![Account::default(); count] }
    }

    /// The account of a customer: behind the issuer, in the order in which they were opened.
    pub(crate) fn id(&self, customer: usize) -> AccountId {
        let number = u32::try_from(customer).unwrap_or(u32::MAX);
        let (registrar, local) = (number / self.customers, number % self.customers);
        AccountId { shard: 0, registrar, local: u64::from(local) + 2 }
    }

    /// The institution of a customer.
    pub(crate) fn institution(&self, customer: usize) -> usize {
        usize::try_from(self.id(customer).registrar).unwrap_or(usize::MAX)
    }

    /// A payment has a place.
    pub(crate) fn paid(&mut self, payment: &Payment, n: u64) {
        if let Some(payer) = self.accounts.get_mut(payment.from) {
            payer.debits += payment.amount;
            payer.places.push(n);
        }
        if let Some(payee) = self.accounts.get_mut(payment.to) {
            payee.credits += payment.amount;
        }
    }

    /// What was given to each customer at first.
    pub(crate) fn grant(&mut self, amount: u128) {
        self.accounts.iter_mut().for_each(|account| account.credits += amount);
    }

    /// Takes in what another keeps of the same customers.
    pub(crate) fn add(&mut self, other: Self) {
        for (own, other) in self.accounts.iter_mut().zip(other.accounts) {
            own.credits += other.credits;
            own.debits += other.debits;
            own.places.extend(other.places);
        }
    }

    /// Payments whose places are not each one place of their payers' logs, without gaps from 1 on: lost, and told twice.
    pub(crate) fn misplaced(&mut self) -> (u64, u64) {
        let (mut lost, mut twice) = (0, 0);
        for account in &mut self.accounts {
            account.places.sort_unstable();
            let told = account.places.len() as u64;
            account.places.dedup();
            let distinct = account.places.len() as u64;
            twice += told - distinct;
            lost += account.places.last().map_or(0, |last| last.saturating_sub(distinct));
        }
        (lost, twice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn customers_have_the_accounts_behind_their_issuers() {
        let books = Books::new(2, 3);
        let ids: Vec<String> = (0..6).map(|customer| books.id(customer).to_string()).collect();
        assert_eq!(ids, ["0-0-2", "0-0-3", "0-0-4", "0-1-2", "0-1-3", "0-1-4"]);
        assert_eq!((books.institution(2), books.institution(3)), (0, 1));
    }

    #[test]
    fn a_place_that_is_missing_or_told_twice_is_found() {
        let mut books = Books::new(1, 2);
        let payment = |id| Payment { id, from: 0, to: 1, amount: 5 };
        books.grant(10);
        books.paid(&payment(1), 2);
        books.paid(&payment(2), 1);
        assert_eq!(books.misplaced(), (0, 0));
        assert_eq!((books.accounts[0].debits, books.accounts[1].credits), (10, 20));
        books.paid(&payment(3), 2);
        assert_eq!(books.clone().misplaced(), (0, 1));
        books.paid(&payment(4), 5);
        assert_eq!(books.misplaced(), (2, 1));
        let mut sum = Books::new(1, 2);
        sum.add(books.clone());
        assert_eq!(sum, books);
    }
}
