//! Reliable broadcasts: messages, records, certificates, evidence.

use synod_broadcast::bracha;
use synod_broadcast::signed::{self, Acked, Certificate, TwoPayloads};
use synod_crypto::Evidence;
use synod_wire::{Bytes, Limits, Wire};

use super::wires;
use crate::check::{drawn, wire};
use crate::{Kind, Target};

wires! {
    "broadcast-plain-message" plain_message bracha::Message;
    "broadcast-plain-record" plain_record bracha::Record;
    "broadcast-message" message signed::Message;
    "broadcast-record" record signed::Record;
    "broadcast-statement" statement Acked;
    "broadcast-evidence" evidence TwoPayloads;
    and Target::new("broadcast-certificate", Kind::Decoder, certificate, drawn::<Certificate>);
}

/// Decodes a certificate, screens it, and says what it leaves open: rules over foreign numbers, so they must be total.
///
/// # Panics
/// With the property that broke, or where more is open than somebody excepts.
pub fn certificate(bytes: &[u8]) {
    wire::<Certificate>(bytes);
    let Ok(certificate) = Certificate::decode(Bytes::copy_from_slice(bytes), &Limits::default()) else {
        return;
    };
    let _epoch = certificate.epoch();
    if let Ok(groups) = certificate.groups() {
        let signers: usize = groups.iter().map(|group| group.signed.len()).sum();
        assert_eq!(signers, certificate.said.len(), "a signer is not looked at");
    }
    let is_excepted = |item: &u32| certificate.said.iter().any(|said| said.except.items().contains(item));
    for quorum in [0, 1, 3, u32::MAX] {
        let open = certificate.open(quorum);
        assert!(open.items().iter().take(8).all(is_excepted), "open is what nobody excepts");
        assert!(quorum > 0 || open.items().is_empty(), "nobody is enough");
    }
}
