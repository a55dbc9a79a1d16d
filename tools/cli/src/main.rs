//! The binary `synod`.
fn main() {}
