use super::MalformedMessage;
use crate::Field;

/// How much content a message has, against what it says (RFC 9114 §4.1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContentLength {
    declared: Option<u64>,
    seen: u64,
}

impl ContentLength {
    /// Of a message with these fields.
    pub(crate) fn of(fields: &[Field]) -> Self {
        Self { declared: Self::declared(fields).ok().flatten(), seen: 0 }
    }

    /// Of a message that has no content whatever it says (RFC 9110 §6.4.1).
    pub(crate) fn none() -> Self {
        Self { declared: Some(0), seen: 0 }
    }

    /// A DATA frame begins.
    pub(crate) fn add(&mut self, n: u64) -> Result<(), MalformedMessage> {
        self.seen = self.seen.saturating_add(n);
        match self.declared {
            Some(declared) if self.seen > declared => {
                Err(MalformedMessage("more content than content-length says"))
            }
            _ => Ok(()),
        }
    }

    /// The message is complete.
    pub(crate) fn end(&self) -> Result<(), MalformedMessage> {
        match self.declared {
            Some(declared) if self.seen != declared => {
                Err(MalformedMessage("less content than content-length says"))
            }
            _ => Ok(()),
        }
    }

    /// What `content-length` says (RFC 9110 §8.6): digits, the same each time it is there.
    pub(super) fn declared(fields: &[Field]) -> Result<Option<u64>, MalformedMessage> {
        let mut declared = None;
        for field in fields.iter().filter(|f| f.name == "content-length") {
            let digits = (!field.value.is_empty()).then_some(&field.value[..]);
            let length = digits.and_then(|d| {
                d.iter().try_fold(0_u64, |n, &b| {
                    b.is_ascii_digit().then_some(())?;
                    n.checked_mul(10)?.checked_add(u64::from(b - b'0'))
                })
            });
            let length = length.ok_or(MalformedMessage("a content-length that is none"))?;
            if declared.is_some_and(|before| before != length) {
                return Err(MalformedMessage("two values of content-length"));
            }
            declared = Some(length);
        }
        Ok(declared)
    }
}
