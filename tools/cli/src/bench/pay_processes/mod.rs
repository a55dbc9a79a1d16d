//! `synod bench pay --part processes`: institutions as processes with journals, and customers of each who pay at random over HTTP.
//!
//! *What is real.* All of it: node processes, links over TLS, journals, indexes, the gateways' `POST /v1/pay/create_transfers`.
//! *Faults.* One institution is killed with SIGKILL, started again, and made 100 ms slow in both directions, one after another under load.
//! Its own customers wait meanwhile and send the same ids again; those of the others go on.
//!
//! *Audit.* The load keeps books of its own. At the end every account at every node has to have the credits, debits and number of
//! entries of these books, and the places that ids were told to have are all different and without gaps: a payment that was lost, or that
//! happened twice, makes one of these wrong. Without a passed audit there are no figures.

mod audit;
mod books;
mod load;
mod plan;
mod report;
mod run;
mod setup;

pub(crate) use audit::{Audit, audit};
pub(crate) use books::{Books, Payment};
pub(crate) use load::{Load, body};
pub(crate) use plan::{Fault, ProcessPlan};
pub(crate) use run::run;
pub(crate) use setup::{asked, open, places, start};
