//! The body of a POST of transfers, and what it orders.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use synod_host::pay::{AccountId, Named, Order, What};

use super::{account, number};
use crate::{http::request::malformed, problem::Problem};

/// A string as it stands in a body, unless it has escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text<'a>(Cow<'a, str>);

impl Text<'_> {
    pub(super) fn into_string(self) -> String {
        self.0.into_owned()
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Text<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(Read)
    }
}

/// One leg of several.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
struct Leg<'a> {
    to: Text<'a>,
    amount: Text<'a>,
}

/// The body of a POST of transfers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
pub(super) struct Payment<'a> {
    pub(super) id: Text<'a>,
    #[serde(alias = "debit_account_id")]
    from: Text<'a>,
    #[serde(alias = "credit_account_id")]
    to: Option<Text<'a>>,
    amount: Option<Text<'a>>,
    legs: Option<Vec<Leg<'a>>>,
    #[serde(default)]
    pending: bool,
    resolver: Option<Text<'a>>,
    /// In ms of Unix time.
    expires_at: Option<Text<'a>>,
    #[serde(default)]
    post_pending: bool,
    #[serde(default)]
    void_pending: bool,
    pending_id: Option<Text<'a>>,
    /// Whose hold it is, where several have one of the name.
    pending_from: Option<Text<'a>>,
    ledger: Option<u32>,
    code: Option<u16>,
    pub(super) until: Option<Text<'a>>,
}

impl Payment<'_> {
    /// What is ordered.
    ///
    /// # Errors
    /// SYN-3001 for fields that are no names and numbers, that are missing, or that do not go together.
    pub(super) fn order(&self) -> Result<Order, Problem> {
        let from = account(&self.from)?;
        Ok(Order {
            id: number("id", &self.id)?,
            from,
            what: self.what(from)?,
            ledger: self.ledger.unwrap_or(1),
            code: self.code.unwrap_or(0),
        })
    }

    fn what(&self, from: AccountId) -> Result<What, Problem> {
        let decides = self.post_pending || self.void_pending;
        let modes = [self.pending, self.post_pending, self.void_pending, self.legs.is_some()];
        let modes = modes.into_iter().filter(|mode| *mode).count();
        let is_hold = self.resolver.is_some() || self.expires_at.is_some();
        let rules = [
            (modes > 1, "only one of pending, post_pending, void_pending and legs can be said"),
            (decides && self.to.is_some(), "to is what the hold says"),
            (decides != self.pending_id.is_some(), "pending_id goes with post_pending and void_pending"),
            (self.pending_from.is_some() && !decides, "pending_from goes with pending_id"),
            (self.void_pending && self.amount.is_some(), "void_pending frees all of the hold"),
            (is_hold && !self.pending, "resolver and expires_at go with pending"),
            (
                self.legs.is_some() && (self.to.is_some() || self.amount.is_some()),
                "legs say to and amount each",
            ),
        ];
        if let Some((_, why)) = rules.into_iter().find(|(is_broken, _)| *is_broken) {
            return Err(malformed(why));
        }
        if let Some(legs) = &self.legs {
            let legs = legs.iter().map(|leg| Ok((account(&leg.to)?, number("amount", &leg.amount)?)));
            return Ok(What::Multi(legs.collect::<Result<_, Problem>>()?));
        }
        if let Some(hold) = &self.pending_id {
            let payer = self.pending_from.as_deref().map(account).transpose()?;
            let hold = Named { id: number("pending_id", hold)?, payer };
            let amount = self.amount.as_deref().map(|amount| number("amount", amount)).transpose()?;
            return Ok(if self.void_pending { What::Void { hold } } else { What::Post { hold, amount } });
        }
        let to = self.to.as_deref().ok_or_else(|| malformed("to is missing"))?;
        let amount = self.amount.as_deref().ok_or_else(|| malformed("amount is missing"))?;
        let (to, amount) = (account(to)?, number("amount", amount)?);
        if !self.pending {
            return Ok(What::Pay { to, amount });
        }
        let resolver = self.resolver.as_deref().map(account).transpose()?.unwrap_or(from);
        let expires_at = self.expires_at.as_deref().map(|at| number("expires_at", at)).transpose()?;
        let expires_at = u64::try_from(expires_at.unwrap_or(0));
        let expires_at = expires_at.map_err(|_| malformed("expires_at is not below 2^64"))?;
        Ok(What::Hold { to, amount, resolver, expires_at })
    }
}

/// The payee and the amount that words about an order name.
pub(super) fn named(order: &Order) -> (String, String) {
    match &order.what {
        What::Pay { to, amount } | What::Hold { to, amount, .. } => (to.to_string(), amount.to_string()),
        What::Multi(legs) => {
            let to: Vec<String> = legs.iter().map(|(to, _)| to.to_string()).collect();
            let sum = legs.iter().fold(0_u128, |sum, (_, amount)| sum.saturating_add(*amount));
            (to.join(", "), sum.to_string())
        }
        What::Post { amount, .. } => {
            (String::new(), amount.map(|amount| amount.to_string()).unwrap_or_default())
        }
        What::Close { to, amount } => (to.to_string(), amount.to_string()),
        What::Void { .. } | What::Rekey(_) | What::Move(_) | What::Limit(_) => Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(fields: &str) -> Result<What, String> {
        let body = format!("{{\"id\": \"7\", \"from\": \"0-0-2\"{fields}}}");
        let payment: Payment<'_> = serde_json::from_str(&body).map_err(|error| error.to_string())?;
        payment.order().map(|order| order.what).map_err(|problem| problem.code().to_string())
    }

    fn account(registrar: u32) -> AccountId {
        AccountId { shard: 0, registrar, local: 2 }
    }

    #[test]
    fn a_body_orders_what_its_fields_say() {
        let to = account(1);
        let hold = |payer| Named { id: 3, payer };
        for (fields, wanted) in [
            (r#", "to": "0-1-2", "amount": "5""#, What::Pay { to, amount: 5 }),
            (
                r#", "legs": [{"to": "0-1-2", "amount": "5"}, {"to": "0-2-2", "amount": "1"}]"#,
                What::Multi(vec![(to, 5), (account(2), 1)]),
            ),
            (
                r#", "to": "0-1-2", "amount": "5", "pending": true"#,
                What::Hold { to, amount: 5, resolver: account(0), expires_at: 0 },
            ),
            (
                r#", "to": "0-1-2", "amount": "5", "pending": true, "resolver": "0-1-2", "expires_at": "9""#,
                What::Hold { to, amount: 5, resolver: to, expires_at: 9 },
            ),
            (r#", "post_pending": true, "pending_id": "3""#, What::Post { hold: hold(None), amount: None }),
            (
                r#", "post_pending": true, "pending_id": "3", "amount": "4""#,
                What::Post { hold: hold(None), amount: Some(4) },
            ),
            (r#", "void_pending": true, "pending_id": "3""#, What::Void { hold: hold(None) }),
            (
                r#", "void_pending": true, "pending_id": "3", "pending_from": "0-1-2""#,
                What::Void { hold: hold(Some(to)) },
            ),
        ] {
            assert_eq!(what(fields), Ok(wanted), "{fields}");
        }
    }

    #[test]
    fn a_string_with_escapes_is_read_as_what_it_means() {
        let to = r#", "\u0074o": "0-\u0031-2", "amount": "\u0035""#;
        assert_eq!(what(to), Ok(What::Pay { to: account(1), amount: 5 }));
        let text = |body: &'static str| serde_json::from_str::<Text<'_>>(body).expect("a string");
        assert!(matches!(text("\"plain\"").0, Cow::Borrowed("plain")));
        assert_eq!(text(r#""\u0070lain""#).into_string(), "plain");
        assert!(serde_json::from_str::<Text<'_>>("7").is_err());
    }

    #[test]
    fn fields_that_do_not_go_together_are_refused() {
        for fields in [
            "",
            r#", "to": "0-1-2""#,
            r#", "amount": "5""#,
            r#", "to": "0-1-2", "amount": "5", "resolver": "0-1-2""#,
            r#", "to": "0-1-2", "amount": "5", "pending_id": "3""#,
            r#", "to": "0-1-2", "amount": "5", "legs": []"#,
            r#", "pending": true, "legs": []"#,
            r#", "post_pending": true"#,
            r#", "to": "0-1-2", "amount": "5", "pending_from": "0-1-2""#,
            r#", "post_pending": true, "pending_id": "3", "pending_from": "0""#,
            r#", "post_pending": true, "void_pending": true, "pending_id": "3""#,
            r#", "post_pending": true, "pending_id": "3", "to": "0-1-2""#,
            r#", "void_pending": true, "pending_id": "3", "amount": "5""#,
            r#", "to": "0-1-2", "amount": "5", "pending": true, "expires_at": "18446744073709551616""#,
            r#", "post_pending": true, "pending_id": "-3""#,
        ] {
            assert_eq!(what(fields), Err("SYN-3001".to_owned()), "{fields}");
        }
        assert!(what(r#", "to": "0-1-2", "amount": 5"#).is_err(), "amounts are strings");
        assert!(what(r#", "to": "0-1-2", "amount": "5", "fee": "1""#).is_err());
    }
}
