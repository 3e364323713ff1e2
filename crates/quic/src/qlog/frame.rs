use ::qlog::events::RawInfo;
use ::qlog::events::quic::{AckedRanges, ErrorSpace, QuicFrame, StreamType};
use quickset_base::number::Unsigned as _;
use quickset_wire::frame::{Ack, Frame, Frames};
use quickset_wire::{Dir, StreamId};
use serde::Serialize;

use super::extension::{ExtensionFields, TracedExtension};
use super::metrics::single;

/// A frame in a record.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Logged {
    Known(QuicFrame),
    Extension(TracedExtension),
}

/// Puts the frames of `payload` into `out`, as far as they can be read and up to [`MAX_FRAMES`]. Returns how
/// many more there are.
pub(super) fn collect(payload: &[u8], ack_delay_exponent: u8, out: &mut Vec<Logged>) -> u64 {
    out.clear();
    let mut omitted = 0;
    for frame in Frames::new(payload).map_while(Result::ok) {
        if out.len() < MAX_FRAMES {
            out.push(logged(&frame, ack_delay_exponent));
        } else {
            omitted += 1;
        }
    }
    omitted
}

/// Bytes as digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    ::qlog::HexSlice::new(bytes).to_string()
}

/// Words that came from somewhere, in bounds.
pub(super) fn words(bytes: &[u8]) -> Option<String> {
    let cut = &bytes[..bytes.len().min(MAX_WORDS)];
    (!cut.is_empty()).then(|| String::from_utf8_lossy(cut).into_owned())
}

/// A token whose length alone is told: who knows it can pose as its owner.
pub(super) fn token(len: usize) -> ::qlog::Token {
    let raw = RawInfo { length: Some(len as u64), ..RawInfo::default() };
    ::qlog::Token { ty: None, details: None, raw: Some(raw) }
}

fn logged(frame: &Frame<'_>, ack_delay_exponent: u8) -> Logged {
    Logged::Known(match *frame {
        Frame::Padding(n) => {
            let n = n.saturated();
            QuicFrame::Padding { length: Some(n), payload_length: n }
        }
        Frame::Ping => QuicFrame::Ping { length: None, payload_length: None },
        Frame::Ack(ref ack) => acknowledgement(ack, ack_delay_exponent),
        Frame::ResetStream { id, code, final_size } => reset(id, code, final_size),
        Frame::ResetStreamAt { id, code, final_size, reliable_size } => {
            let fields = ExtensionFields::reset(id, code, final_size, reliable_size);
            return extension(frame, "reset_stream_at", fields, 0);
        }
        Frame::StopSending { id, code } => stop(id, code),
        Frame::Crypto { offset, data } => QuicFrame::Crypto { offset, length: data.len() as u64 },
        Frame::NewToken { token: bytes } => QuicFrame::NewToken { token: token(bytes.len()) },
        Frame::Stream { id, offset, fin, data } => QuicFrame::Stream {
            stream_id: id.0,
            offset,
            length: data.len() as u64,
            fin: fin.then_some(true),
            raw: None,
        },
        Frame::MaxData(maximum) => QuicFrame::MaxData { maximum },
        Frame::MaxStreamData { id, max } => QuicFrame::MaxStreamData { stream_id: id.0, maximum: max },
        Frame::MaxStreams { dir, max } => QuicFrame::MaxStreams { stream_type: kind(dir), maximum: max },
        Frame::DataBlocked(limit) => QuicFrame::DataBlocked { limit },
        Frame::StreamDataBlocked { id, limit } => QuicFrame::StreamDataBlocked { stream_id: id.0, limit },
        Frame::StreamsBlocked { dir, limit } => QuicFrame::StreamsBlocked { stream_type: kind(dir), limit },
        // Who knows the reset token can end the connection.
        Frame::NewConnectionId { sequence, retire_prior_to, ref id, token: _ } => {
            QuicFrame::NewConnectionId {
                sequence_number: narrow(sequence),
                retire_prior_to: narrow(retire_prior_to),
                connection_id_length: Some(id.len().saturated()),
                connection_id: hex(id),
                stateless_reset_token: None,
            }
        }
        Frame::RetireConnectionId { sequence } => {
            QuicFrame::RetireConnectionId { sequence_number: narrow(sequence) }
        }
        Frame::PathChallenge(data) => QuicFrame::PathChallenge { data: Some(hex(&data)) },
        Frame::PathResponse(data) => QuicFrame::PathResponse { data: Some(hex(&data)) },
        Frame::ConnectionClose { code, frame_type, reason } => {
            farewell(ErrorSpace::TransportError, code.0, reason, Some(frame_type))
        }
        Frame::ApplicationClose { code, reason } => {
            farewell(ErrorSpace::ApplicationError, code, reason, None)
        }
        Frame::HandshakeDone => QuicFrame::HandshakeDone,
        Frame::Datagram { data, .. } => QuicFrame::Datagram { length: data.len() as u64, raw: None },
        Frame::Fenced { id, offset, distance, start, each, fin, data } => {
            let (stream_id, length) = (id.0, data.len() as u64);
            let fields = ExtensionFields::Fenced { stream_id, offset, length, distance, start, each, fin };
            return extension(frame, "fenced", fields, data.len());
        }
        Frame::Abandon { id, offset, len } => {
            return extension(frame, "abandon", ExtensionFields::abandon(id, offset, len), 0);
        }
        Frame::ImmediateAck => return extension(frame, "immediate_ack", ExtensionFields::None {}, 0),
        Frame::AckFrequency { sequence, threshold, max_delay_us, reordering } => {
            let fields = ExtensionFields::Frequency { sequence, threshold, max_delay_us, reordering };
            return extension(frame, "ack_frequency", fields, 0);
        }
        Frame::SourceSymbol { session, sid, data } => {
            return extension(frame, "source_symbol", ExtensionFields::Symbol { session, sid }, data.len());
        }
        Frame::Repair { session, first, count, parameter, index, data } => {
            let fields = ExtensionFields::Repair { session, first, count, parameter, index };
            return extension(frame, "repair", fields, data.len());
        }
        Frame::SymbolAck(ref ack) => {
            return extension(frame, "symbol_ack", ExtensionFields::recovered(ack), 0);
        }
        Frame::FecWindow { epoch, window } => {
            return extension(frame, "fec_window", ExtensionFields::Window { epoch, window }, 0);
        }
        Frame::Unmarked { session, packets } => {
            return extension(frame, "unmarked", ExtensionFields::Unmarked { session, packets }, 0);
        }
    })
}

fn extension(frame: &Frame<'_>, name: &'static str, fields: ExtensionFields, payload: usize) -> Logged {
    Logged::Extension(TracedExtension::new(frame, name, fields, payload))
}

fn reset(id: StreamId, error_code: u64, final_size: u64) -> QuicFrame {
    QuicFrame::ResetStream { stream_id: id.0, error_code, final_size, length: None, payload_length: None }
}

fn stop(id: StreamId, error_code: u64) -> QuicFrame {
    QuicFrame::StopSending { stream_id: id.0, error_code, length: None, payload_length: None }
}

fn farewell(space: ErrorSpace, code: u64, reason: &[u8], trigger_frame_type: Option<u64>) -> QuicFrame {
    QuicFrame::ConnectionClose {
        error_space: Some(space),
        error_code: Some(code),
        error_code_value: None,
        reason: words(reason),
        trigger_frame_type,
    }
}

fn acknowledgement(ack: &Ack<'_>, ack_delay_exponent: u8) -> QuicFrame {
    let delay_us = ack.delay.approx() * f64::from(1u32 << ack_delay_exponent.min(20));
    let mut ranges: Vec<_> = ack.ranges().take(MAX_RANGES).map(|r| (*r.start(), *r.end())).collect();
    ranges.reverse();
    QuicFrame::Ack {
        ack_delay: Some(single(delay_us / 1e3)),
        acked_ranges: Some(AckedRanges::Double(ranges)),
        ect1: ack.ecn.map(|ecn| ecn.ect1),
        ect0: ack.ecn.map(|ecn| ecn.ect0),
        ce: ack.ecn.map(|ecn| ecn.ce),
        length: None,
        payload_length: None,
    }
}

const fn kind(dir: Dir) -> StreamType {
    match dir {
        Dir::Bi => StreamType::Bidirectional,
        Dir::Uni => StreamType::Unidirectional,
    }
}

/// The data model has 32 bits for what never gets there.
fn narrow(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Frames of a packet that are told: a packet of one-byte frames is not to become a record a hundred times
/// its size.
const MAX_FRAMES: usize = 64;
/// Ranges of an acknowledgement that are told, the newest.
const MAX_RANGES: usize = 128;
/// Bytes of a reason that are told.
const MAX_WORDS: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(payload: &[u8]) -> (usize, u64, String) {
        let mut frames = Vec::new();
        let omitted = collect(payload, 20, &mut frames);
        (frames.len(), omitted, serde_json::to_string(&frames).expect("frames can be written"))
    }

    #[test]
    fn a_packet_of_tiny_frames_makes_a_small_record() {
        let (told, omitted, text) = record(&[1; 1400]);
        assert_eq!((told, omitted), (MAX_FRAMES, 1400 - MAX_FRAMES as u64));
        assert!(text.len() < 64 * 24, "{} bytes", text.len());
    }

    #[test]
    fn of_an_acknowledgement_the_newest_ranges_are_told() {
        let mut buffer = vec![0; 2000];
        let mut w = quickset_wire::Writer::new(&mut buffer);
        let all = (0..500u64).rev().map(|n| 3 * n..=3 * n);
        assert_eq!(quickset_wire::frame::ack(&mut w, all, 0, None), 500);
        let mut frames = Vec::new();
        collect(w.written(), 3, &mut frames);
        let [Logged::Known(QuicFrame::Ack { acked_ranges: Some(AckedRanges::Double(ranges)), .. })] =
            &frames[..]
        else {
            panic!("not one ACK");
        };
        assert_eq!((ranges.len(), ranges[0], ranges[127]), (128, (372 * 3, 372 * 3), (499 * 3, 499 * 3)));
    }

    #[test]
    fn symbols_and_their_acknowledgements_are_told_by_number() {
        let mut buffer = vec![0; 200];
        let mut w = quickset_wire::Writer::new(&mut buffer);
        Frame::Repair { session: 2, first: 5, count: 4, parameter: 1, index: 7, data: b"abc" }.encode(&mut w);
        quickset_wire::frame::symbol_ack(&mut w, 12, [9..=9, 3..=6]);
        let (told, _, text) = record(w.written());
        assert_eq!(told, 2);
        for part in [
            r#""raw_frame_type":16225,"extension":"repair","session":2,"first":5,"count":4,"parameter":1,"index":7,"#,
            r#""raw":{"length":11,"payload_length":3}"#,
            r#""raw_frame_type":16226,"extension":"symbol_ack","session":12,"sids":[[3,6],[9,9]],"#,
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn a_reason_is_cut_and_always_text() {
        let frame = Frame::ApplicationClose { code: 1, reason: &[0xff; 1000] };
        let mut buffer = vec![0; 2000];
        let mut w = quickset_wire::Writer::new(&mut buffer);
        frame.encode(&mut w);
        let (told, _, text) = record(w.written());
        assert_eq!((told, text.matches('\u{fffd}').count()), (1, MAX_WORDS));
    }

    proptest! {
        /// Whatever a peer puts into a packet, its record is small and can be written.
        #[test]
        fn any_payload_makes_a_bounded_record(payload in proptest::collection::vec(any::<u8>(), 0..1500)) {
            let (told, _, text) = record(&payload);
            prop_assert!(told <= MAX_FRAMES);
            prop_assert!(text.len() < 24 * 1500, "{} bytes", text.len());
        }
    }
}
