//! The application protocols of WebTransport sessions (draft-ietf-webtrans-http3 §3.3): a client's request
//! says which it speaks, a server's response which of them it is.

use sfv::{BareItem, FieldType as _, Item, List, ListEntry, Parser};

use crate::{Field, Request, Response};

/// A name that cannot be written: it holds anything but printable ASCII.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot name a protocol of WebTransport, which is text of printable ASCII")]
pub struct UnspeakableProtocol(pub String);

impl Request {
    /// For a session in one of these application protocols, the best first (`wt-available-protocols`).
    ///
    /// # Errors
    /// When a name cannot be written.
    pub fn offering(self, protocols: &[&str]) -> Result<Self, UnspeakableProtocol> {
        let items = protocols.iter().map(|name| item(name).map(ListEntry::Item));
        let list: List = items.collect::<Result<_, _>>()?;
        // An empty list is no field (RFC 9651 §4.1).
        Ok(match list.serialize() {
            Some(value) => self.with(AVAILABLE, value),
            None => self,
        })
    }

    /// The application protocols that its client speaks, the best first. None where the field is not there,
    /// or holds anything but strings, which has it ignored.
    pub fn protocols(&self) -> Vec<String> {
        let list = values(&self.fields, AVAILABLE).and_then(|value| Parser::new(&value).parse::<List>().ok());
        let names = list.unwrap_or_default().into_iter().map(|entry| match entry {
            ListEntry::Item(item) => string(item),
            ListEntry::InnerList(_) => None,
        });
        names.collect::<Option<_>>().unwrap_or_default()
    }
}

impl Response {
    /// Accepts a session in this one of the application protocols that its client
    /// [speaks](Request::protocols) (`wt-protocol`).
    ///
    /// # Errors
    /// When the name cannot be written.
    pub fn choosing(self, protocol: &str) -> Result<Self, UnspeakableProtocol> {
        Ok(self.with(CHOSEN, item(protocol)?.serialize()))
    }

    /// The application protocol that its server chose; `None` where the field is not there, or is no string,
    /// which has it ignored.
    pub fn protocol(&self) -> Option<String> {
        let value = values(&self.fields, CHOSEN)?;
        string(Parser::new(&value).parse::<Item>().ok()?)
    }
}

fn item(name: &str) -> Result<Item, UnspeakableProtocol> {
    let text = sfv::String::from_string(name.to_owned()).map_err(|_| UnspeakableProtocol(name.to_owned()))?;
    Ok(Item::new(BareItem::String(text)))
}

fn string(item: Item) -> Option<String> {
    match item.bare_item {
        BareItem::String(text) => Some(text.into()),
        _ => None,
    }
}

/// All fields of a name as one (RFC 9110 §5.3).
fn values(fields: &[Field], name: &str) -> Option<Vec<u8>> {
    let values: Vec<&[u8]> = fields.iter().filter(|f| f.name == name).map(|f| &f.value[..]).collect();
    (!values.is_empty()).then(|| values.join(&b","[..]))
}

const AVAILABLE: &str = "wt-available-protocols";
const CHOSEN: &str = "wt-protocol";

#[cfg(test)]
mod tests {
    use super::*;

    fn request(lines: &[&str]) -> Vec<String> {
        let plain = Request::extended("webtransport", "a", "/");
        lines.iter().fold(plain, |r, value| r.with(AVAILABLE, (*value).to_owned())).protocols()
    }

    fn response(value: &str) -> Option<String> {
        Response::new(200).with(CHOSEN, value.to_owned()).protocol()
    }

    #[test]
    fn lists_of_strings_are_read_and_nothing_else() {
        assert_eq!(request(&[]), [""; 0]);
        assert_eq!(request(&[r#""chat/2", "chat/1""#]), ["chat/2", "chat/1"]);
        assert_eq!(request(&[r#""a";x=1, "b\"c\\""#]), ["a", r#"b"c\"#], "parameters stand for nothing");
        assert_eq!(request(&[r#""a""#, r#""b""#]), ["a", "b"], "in several lines");
        for ignored in [r#""a", b"#, r#""a", ("b")"#, r#""a", 1"#, r#""a", :YQ==:"#, r#""a"#, ""] {
            assert_eq!(request(&[ignored]), [""; 0], "{ignored}");
        }
        assert_eq!(response(r#""chat/1""#).as_deref(), Some("chat/1"));
        assert_eq!(response(r#""chat/1";x"#).as_deref(), Some("chat/1"));
        for ignored in ["chat", "1", r#""a", "b""#, r#""a"#, "?1", ""] {
            assert_eq!(response(ignored), None, "{ignored}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let names = ["moq-00", r#"with "quotes" and \"#, ""];
        let request = Request::extended("webtransport", "a", "/").offering(&names).unwrap();
        assert_eq!(request.protocols(), names);
        assert_eq!(request.fields[0].value, r#""moq-00", "with \"quotes\" and \\", """#);
        assert_eq!(Response::new(200).choosing(names[1]).unwrap().protocol().as_deref(), Some(names[1]));
        assert!(Request::extended("webtransport", "a", "/").offering(&[]).unwrap().fields.is_empty());
        for bad in ["é", "a\n"] {
            assert_eq!(Response::new(200).choosing(bad), Err(UnspeakableProtocol(bad.into())));
            assert!(Request::extended("webtransport", "a", "/").offering(&["a", bad]).is_err());
        }
    }
}
