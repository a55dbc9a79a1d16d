//! What clients do that keep to their protocol: requests repeated, copied, and said in bursts.

use synod_machine::{Message as _, Span};
use synod_service::ClientMessage;
use synod_sim::{Again, Burst, Family, Incident, PPM, Strategy};
use synod_wire::Bytes;

/// Whether a frame is an item to be ordered. Attachments are not repeated: they name the member they are for.
fn is_item(body: &Bytes) -> bool {
    matches!(body.as_ref(), [version, 0, ..] if *version == ClientMessage::VERSION)
}

/// The strategy of a client's incident; `None` when it is none.
pub(super) fn of(incident: &Incident) -> Option<Box<dyn Strategy>> {
    let span = Span::micros(incident.amount.unsigned_abs());
    Some(match incident.family {
        Family::ClientRetry | Family::ClientDup => Box::new(Again {
            others: incident.family == Family::ClientDup,
            share_ppm: PPM / 2,
            longest: span,
            is_request: is_item,
        }),
        Family::ClientBurst => Box::new(Burst { period: span }),
        _ => return None,
    })
}
