//! Of a visit: what HELLO and WELCOME say of it.

use core::fmt;

use super::MessageFault;
use super::fields::{FieldReader, PutFields};

/// Names a visit among all of a client's: 128 random bits, which a client draws when it starts and keeps from
/// session to session. It is in no log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VisitId(pub [u8; 16]);

impl fmt::Debug for VisitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VisitId(..)")
    }
}

/// What a server knows of a client's visit when a session of it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitCount {
    /// There were sessions of it before, and nothing of their input is passed on any more. Otherwise the
    /// visit begins, as far as the server knows, with this session.
    pub resumed: bool,
    /// How many input messages of it were passed on to the desktop. The first of this session has this
    /// number.
    pub taken: u64,
}

impl VisitCount {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        out.put_u8(self.resumed.into());
        out.put_varint(self.taken);
    }

    pub(super) fn read(f: &mut FieldReader<'_>) -> Result<Self, MessageFault> {
        Ok(Self { resumed: f.u8()? & 1 != 0, taken: f.varint()? })
    }
}
