//! `synod demo pay`: four institutions as processes, customers who pay each other, a kill, a double spend, a receipt, an audit.

mod double;
mod scenes;

pub(crate) use scenes::{NODES, PayShown, play};
