//! Input messages once more, in a datagram (`spec/web.md` WB-27).

use super::fields::{FieldReader, PutFields};
use super::parts::StreamMessage as _;
use super::{MessageFault, PersonInput};

/// Keys and pointers that were sent on the input stream of a page as well, in order.
///
/// Whichever comes first is passed on, so that a lost packet of the stream holds up nothing that a person
/// does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputCopy {
    /// The number of the first in the visit (`spec/desktop.md` §9).
    pub first: u64,
    /// Those that can be read. What follows another kind of message is left to the stream.
    pub inputs: Vec<PersonInput>,
}

impl InputCopy {
    /// Whether a datagram has such messages; those of other types are not for here.
    pub fn is_one(datagram: &[u8]) -> bool {
        datagram.first() == Some(&INPUT)
    }

    /// Reads a datagram that [`is_one`](Self::is_one).
    ///
    /// # Errors
    /// When a field is missing, or a length is beyond the end.
    pub fn decode(datagram: &[u8]) -> Result<Self, MessageFault> {
        let mut fields = FieldReader::new(datagram, "a datagram of input messages");
        fields.u8()?;
        let (first, mut inputs) = (fields.varint()?, Vec::new());
        while !fields.is_empty() {
            let length = fields.length("the length of an input message", datagram.len())?;
            match PersonInput::decode(fields.take(length)?)? {
                Some(input) if Self::takes(&input) => inputs.push(input),
                _ => break,
            }
        }
        Ok(Self { first, inputs })
    }

    /// Whether copies may have it: what is short, and means the same whenever it comes.
    pub fn takes(input: &PersonInput) -> bool {
        matches!(input, PersonInput::Key { .. } | PersonInput::Pointer { .. })
    }

    /// The datagram with the newest of `sent` that [`takes`](Self::takes) allows, as far as they fit into
    /// 160 bytes. They are the input messages from number `first` on, and none is left out but the
    /// first ones. `None` when there is nothing to be copied.
    pub fn of_newest<'a>(
        first: u64,
        sent: impl DoubleEndedIterator<Item = &'a PersonInput> + ExactSizeIterator,
    ) -> Option<Vec<u8>> {
        let (mut number, mut records, mut bytes) = (first + sent.len() as u64, Vec::new(), 0);
        for input in sent.rev().take_while(|input| Self::takes(input)) {
            let mut record = Vec::new();
            input.encode(&mut record);
            bytes += 1 + record.len();
            if bytes > MOST_COPIED {
                break;
            }
            number -= 1;
            records.push(record);
        }
        let mut datagram = vec![INPUT];
        datagram.put_varint(number);
        for record in records.iter().rev() {
            datagram.put_varint(record.len() as u64);
            datagram.put(record);
        }
        (!records.is_empty()).then_some(datagram)
    }
}

/// The type of the datagram; those below are of `spec/web.md` §3 and of sound.
const INPUT: u8 = 0x06;
/// Twenty keys, or what a pointer does in a third of a second: more than is on the way at once. What waits
/// for a packet that was lost longer ago comes by the stream.
const MOST_COPIED: usize = 160;

#[cfg(test)]
mod tests {
    use super::super::ClipboardMessage;
    use super::*;

    fn key(keysym: u32) -> PersonInput {
        PersonInput::Key { down: true, keysym, keycode: None }
    }

    #[test]
    fn copies_are_the_newest_messages_without_a_gap() {
        // The example of spec/web.md §10: key 0x61 goes down, then the pointer is at 2, 3.
        let sent = [key(0x61), PersonInput::Pointer { buttons: 0, x: 2, y: 3 }];
        let bytes = [6, 7, 6, 0x20, 1, 0, 0, 0, 0x61, 6, 0x21, 0, 0, 2, 0, 3];
        assert_eq!(InputCopy::of_newest(7, sent.iter()).unwrap(), bytes);
        assert_eq!(InputCopy::decode(&bytes), Ok(InputCopy { first: 7, inputs: sent.to_vec() }));
        // What does not fit is the oldest; 22 keys of 7 bytes fit.
        let many: Vec<PersonInput> = (0..100).map(key).collect();
        let copy = InputCopy::decode(&InputCopy::of_newest(50, many.iter()).unwrap()).unwrap();
        assert_eq!((copy.first, copy.inputs), (128, many[78..].to_vec()));
        // A text is no affair of datagrams, nor is what comes before it.
        let ask = PersonInput::Clipboard(ClipboardMessage::Ask);
        let sent = [key(1), ask.clone(), key(2)];
        let copy = InputCopy::decode(&InputCopy::of_newest(3, sent.iter()).unwrap()).unwrap();
        assert_eq!(copy, InputCopy { first: 5, inputs: vec![key(2)] });
        assert_eq!(InputCopy::of_newest(3, [key(1), ask].iter()), None);
        assert_eq!(InputCopy::of_newest(3, [].iter()), None);
    }

    #[test]
    fn what_is_cut_or_of_another_kind_is_no_copy() {
        let whole = InputCopy::of_newest(1 << 40, [key(1), key(2)].iter()).unwrap();
        for cut in 1..whole.len() {
            // It may end behind its number, and behind a message.
            let read = InputCopy::decode(&whole[..cut]);
            assert_eq!(read.is_ok(), [9, 16].contains(&cut), "{cut}: {read:?}");
        }
        // A kind that is not known, an offer, and what the stream has first: HELD.
        for other in [&[0x3f][..], &[0x0d], &[0x22, 1, 0, 0, 0, 1]] {
            let mut datagram = vec![6, 9, other.len() as u8];
            datagram.extend_from_slice(other);
            datagram.extend_from_slice(&[6, 0x20, 1, 0, 0, 0, 0x61]);
            assert_eq!(InputCopy::decode(&datagram), Ok(InputCopy { first: 9, inputs: Vec::new() }));
        }
        assert!(InputCopy::decode(&[6, 9, 0]).is_err(), "an empty message");
        assert!([&[5, 0][..], &[4, 0], &[]].iter().all(|other| !InputCopy::is_one(other)));
    }
}
