//! Records on a stream of bytes: each behind its length (`spec/web.md` §8).

use bytes::{Buf as _, Bytes, BytesMut};

use super::MessageFault;
use super::fields::{FieldReader, PutFields};
use super::parts::{MAX_RECORD, StreamMessage};

/// Takes records off a stream of bytes.
#[derive(Debug, Default)]
pub struct RecordSplitter {
    /// What came and was not taken: less than a record, once all that is whole was taken.
    rest: BytesMut,
}

impl RecordSplitter {
    /// More bytes came.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// The next record that is whole, if there is one.
    ///
    /// # Errors
    /// When one is too long (DT-5), before it is there.
    pub fn next_record(&mut self) -> Result<Option<Bytes>, MessageFault> {
        let mut fields = FieldReader::new(&self.rest, "a record");
        let Ok(length) = fields.varint() else { return Ok(None) };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > MAX_RECORD {
            return Err(MessageFault::Long(length));
        }
        let header = self.rest.len() - fields.rest().len();
        if fields.rest().len() < length {
            return Ok(None);
        }
        self.rest.advance(header);
        Ok(Some(self.rest.split_to(length).freeze()))
    }
}

/// What a message is on a stream of bytes: its records, each behind its length.
pub fn stream_bytes(message: &impl StreamMessage) -> Vec<u8> {
    let mut out = Vec::new();
    for record in message.records() {
        out.put_varint(record.len() as u64);
        out.put(&record);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{FromClient, FromServer, PersonInput, RecordInbox};
    use super::*;

    #[test]
    fn records_come_off_a_stream_however_it_is_cut() {
        let messages = [FromServer::Name("x".repeat(4000)), FromServer::Bell, FromServer::Ping(7)];
        let bytes: Vec<u8> = messages.iter().flat_map(stream_bytes).collect();
        for cut in [1, 2, 3, 1000, 10_000] {
            let (mut splitter, mut inbox, mut read) =
                (RecordSplitter::default(), RecordInbox::<FromServer>::new(), Vec::new());
            for piece in bytes.chunks(cut) {
                splitter.feed(piece);
                while let Some(record) = splitter.next_record().unwrap() {
                    read.extend(inbox.receive(&record).unwrap());
                }
            }
            assert_eq!(read, messages, "{cut}");
        }
        // The length of a record, then the record.
        assert_eq!(stream_bytes(&FromClient::Ping(1)), [9, 0x10, 0, 0, 0, 0, 0, 0, 0, 1]);
        let key = PersonInput::Key { down: true, keysym: 0x61, keycode: None };
        assert_eq!(stream_bytes(&key), [6, 0x20, 1, 0, 0, 0, 0x61]);
    }

    #[test]
    fn a_record_that_is_too_long_is_refused_before_it_comes() {
        // DT-5.
        let mut splitter = RecordSplitter::default();
        splitter.feed(&[0x80, 0x01, 0x00]);
        assert_eq!(splitter.next_record(), Ok(None), "its length is cut");
        splitter.feed(&[0x01]);
        assert_eq!(splitter.next_record(), Err(MessageFault::Long(65_537)));
    }
}
