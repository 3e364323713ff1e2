//! Requests and responses as field sections, and what makes them malformed (RFC 9114 §4.1.2 to §4.5).

mod length;
mod rules;

use bytes::Bytes;

pub(crate) use length::ContentLength;
pub(crate) use rules::trailers;

use crate::{Field, Priority};

/// The head of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `:method`.
    pub method: Bytes,
    /// `:scheme`; none in a CONNECT without `protocol`.
    pub scheme: Option<Bytes>,
    /// `:authority`.
    pub authority: Option<Bytes>,
    /// `:path`; none in a CONNECT without `protocol`.
    pub path: Option<Bytes>,
    /// `:protocol` of an extended CONNECT (RFC 9220).
    pub protocol: Option<Bytes>,
    /// The other fields, in order. Of `cookie` there may be several; see [`cookie`](Self::cookie).
    pub fields: Vec<Field>,
}

/// The head of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// `:status`, 100 to 999 and not 101.
    pub status: u16,
    /// The fields, in order.
    pub fields: Vec<Field>,
}

/// Why a message is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed message: {0}")]
pub struct MalformedMessage(pub &'static str);

impl Request {
    /// A request of `https` without fields.
    pub fn new(method: impl Into<Bytes>, authority: impl Into<Bytes>, path: impl Into<Bytes>) -> Self {
        Self {
            method: method.into(),
            scheme: Some(Bytes::from_static(b"https")),
            authority: Some(authority.into()),
            path: Some(path.into()),
            protocol: None,
            fields: Vec::new(),
        }
    }

    /// A request for a tunnel to `authority`, host and port (RFC 9114 §4.4).
    pub fn connect(authority: impl Into<Bytes>) -> Self {
        let (method, authority) = (Bytes::from_static(b"CONNECT"), Some(authority.into()));
        Self { method, authority, ..Self::default() }
    }

    /// An extended CONNECT (RFC 9220) for a stream that speaks `protocol`.
    pub fn extended(protocol: impl Into<Bytes>, authority: impl Into<Bytes>, path: impl Into<Bytes>) -> Self {
        Self { protocol: Some(protocol.into()), ..Self::new("CONNECT", authority, path) }
    }

    /// With one more field.
    #[must_use]
    pub fn with(mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.fields.push(Field::new(name, value));
        self
    }

    /// The same with a `priority` field; nothing where all is as by default.
    #[must_use]
    pub fn with_priority(self, priority: &Priority) -> Self {
        let value = priority.value();
        if value.is_empty() { self } else { self.with("priority", value) }
    }

    /// The value of the first field of this name, which is lowercase.
    pub fn field(&self, name: &str) -> Option<&Bytes> {
        first(&self.fields, name)
    }

    /// All cookies in one value, as those who do not speak HTTP/2 or HTTP/3 need it (RFC 9114 §4.2.1).
    pub fn cookie(&self) -> Option<Bytes> {
        let parts = || self.fields.iter().filter(|f| f.name == "cookie").map(|f| &f.value);
        if parts().count() < 2 {
            return parts().next().cloned();
        }
        let parts: Vec<&[u8]> = parts().map(|p| &p[..]).collect();
        Some(parts.join(&b"; "[..]).into())
    }

    /// Whether the stream carries a tunnel once it is accepted.
    pub fn is_connect(&self) -> bool {
        self.method == "CONNECT"
    }

    /// The field section, pseudo-header fields first.
    pub(crate) fn section(&self) -> Vec<Field> {
        let pseudo = [
            (":method", Some(&self.method)),
            (":scheme", self.scheme.as_ref()),
            (":authority", self.authority.as_ref()),
            (":path", self.path.as_ref()),
            (":protocol", self.protocol.as_ref()),
        ];
        let pseudo = pseudo.into_iter().filter_map(|(name, value)| Some(Field::new(name, value?.clone())));
        pseudo.chain(self.fields.iter().cloned()).collect()
    }

    /// Reads a field section.
    ///
    /// # Errors
    /// When it is no request.
    pub fn from_section(section: Vec<Field>) -> Result<Self, MalformedMessage> {
        let mut request = Self::default();
        let mut method = None;
        let fields = rules::split(section, |name, value| {
            let slot = match name {
                b":method" => &mut method,
                b":scheme" => &mut request.scheme,
                b":authority" => &mut request.authority,
                b":path" => &mut request.path,
                b":protocol" => &mut request.protocol,
                _ => return Err(MalformedMessage("a pseudo-header field that requests have not")),
            };
            if slot.replace(value).is_some() {
                return Err(MalformedMessage("a pseudo-header field twice"));
            }
            Ok(())
        })?;
        request.fields = fields;
        request.method = method.ok_or(MalformedMessage("no :method"))?;
        request.check()?;
        Ok(request)
    }

    /// Whether all is there, and in form.
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&self) -> Result<(), MalformedMessage> {
        rules::request(self)
    }
}

impl Response {
    /// A response without fields.
    pub fn new(status: u16) -> Self {
        Self { status, fields: Vec::new() }
    }

    /// With one more field.
    #[must_use]
    pub fn with(mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.fields.push(Field::new(name, value));
        self
    }

    /// The same with a `priority` field; nothing where all is as by default.
    #[must_use]
    pub fn with_priority(self, priority: &Priority) -> Self {
        let value = priority.value();
        if value.is_empty() { self } else { self.with("priority", value) }
    }

    /// The value of the first field of this name, which is lowercase.
    pub fn field(&self, name: &str) -> Option<&Bytes> {
        first(&self.fields, name)
    }

    /// Whether another response follows (1xx).
    pub fn is_interim(&self) -> bool {
        self.status < 200
    }

    /// 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The field section, the status first.
    pub(crate) fn section(&self) -> Vec<Field> {
        let status = Field::new(":status", self.status.to_string());
        core::iter::once(status).chain(self.fields.iter().cloned()).collect()
    }

    /// Reads a field section.
    ///
    /// # Errors
    /// When it is no response.
    pub fn from_section(section: Vec<Field>) -> Result<Self, MalformedMessage> {
        let mut status = None;
        let fields = rules::split(section, |name, value| match (name, &status) {
            (b":status", None) => {
                status = Some(value);
                Ok(())
            }
            (b":status", Some(_)) => Err(MalformedMessage("a pseudo-header field twice")),
            _ => Err(MalformedMessage("a pseudo-header field that responses have not")),
        })?;
        let status = match status.as_deref() {
            None => return Err(MalformedMessage("no :status")),
            Some(&[a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9']) => {
                [a, b, c].into_iter().fold(0, |n, digit| n * 10 + u16::from(digit - b'0'))
            }
            Some(_) => return Err(MalformedMessage("a :status that is none")),
        };
        let response = Self { status, fields };
        response.check()?;
        Ok(response)
    }

    /// Whether it is in form.
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&self) -> Result<(), MalformedMessage> {
        rules::response(self)
    }
}

fn first<'a>(fields: &'a [Field], name: &str) -> Option<&'a Bytes> {
    fields.iter().find(|f| f.name == name).map(|f| &f.value)
}

#[cfg(test)]
mod tests;
