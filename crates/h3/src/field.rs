use core::fmt;

use bytes::Bytes;

/// A field line: a name, which is lowercase in HTTP/3, and a value. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Field {
    /// The name; one that begins with a colon is a pseudo-header field.
    pub name: Bytes,
    /// The value, whatever bytes it has.
    pub value: Bytes,
    /// The value is a secret: it is neither kept in a table nor found there, so that nobody can guess it by
    /// the length of what is sent, and whoever forwards it must do the same (RFC 9204 §7.1.3). The values of
    /// `authorization` and of short cookies are treated so in any case.
    pub sensitive: bool,
}

impl Field {
    /// A field line whose value is no secret.
    pub fn new(name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self { name: name.into(), value: value.into(), sensitive: false }
    }

    /// What the line counts towards SETTINGS_MAX_FIELD_SECTION_SIZE (RFC 9114 §4.2.2), in bytes.
    pub fn size(&self) -> u64 {
        (self.name.len() + self.value.len()) as u64 + 32
    }
}

/// A secret is not printed.
impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name.escape_ascii())?;
        if self.sensitive { f.write_str("(secret)") } else { write!(f, "{}", self.value.escape_ascii()) }
    }
}
