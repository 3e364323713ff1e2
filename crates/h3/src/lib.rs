//! Sans-IO HTTP/3.

pub mod capsule;
mod error;
mod field;
pub mod frame;
mod message;
mod priority;
pub mod qpack;
mod varint;

pub use error::{Code, Error};
pub use field::Field;
pub use message::{Malformed, Request, Response};
pub use priority::Priority;
/// Structured fields, of which [`Priority::parameters`] are made.
pub use sfv;
