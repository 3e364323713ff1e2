//! Sans-IO HTTP/3.

mod error;
mod field;
pub mod qpack;

pub use error::{Code, Error};
pub use field::Field;
