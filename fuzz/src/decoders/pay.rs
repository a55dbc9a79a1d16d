//! Payments without an order: receipts that go from hand to hand.

use synod_astro::PaymentReceipt;

use super::wires;

wires! {
    "pay-receipt" receipt PaymentReceipt;
}
