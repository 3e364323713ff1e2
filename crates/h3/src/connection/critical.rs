use quickset_quic::{Dir, StreamId};

use super::outlet::StreamOutlet;
use crate::frame::{Frame, Settings, stream};
use crate::trace::{StreamKind, TraceSide, Traced, TracedFrame, tell};
use crate::{Error, ErrorCode, Transport, varint};

/// Our three streams without which the connection cannot be (RFC 9114 §6.2.1, RFC 9204 §4.2).
#[derive(Debug)]
pub(super) struct Critical {
    lanes: [CriticalStream; 3],
    /// One of them is not open, or has something to say: mostly none has.
    owes: bool,
    /// What is said first, for the trace.
    settings: Frame,
}

#[derive(Debug, Default)]
struct CriticalStream {
    id: Option<StreamId>,
    out: StreamOutlet,
}

impl Critical {
    /// The streams with their types, and SETTINGS on the first.
    pub(super) fn new(settings: &Settings) -> Self {
        let mut lanes = KINDS.map(|kind| {
            let mut header = Vec::new();
            varint::put(&mut header, kind);
            (CriticalStream::default(), header)
        });
        let settings = Frame::Settings(*settings);
        settings.encode(&mut lanes[0].1);
        Self {
            settings,
            owes: true,
            lanes: lanes.map(|(mut lane, header)| {
                lane.out.push(header);
                lane
            }),
        }
    }

    /// A frame on the control stream.
    pub(super) fn send(&mut self, frame: &Frame) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.push(0, bytes);
    }

    fn push(&mut self, lane: usize, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.lanes[lane].out.push(bytes);
            self.owes = true;
        }
    }

    /// Whether all instructions for the table were taken.
    pub(super) fn wants_encoder(&self) -> bool {
        self.lanes[1].out.queued() == 0
    }

    /// Bytes of instructions that can go out now, where that is known: none before the stream is open.
    pub(super) fn encoder_credit(&self, t: &dyn Transport) -> Option<u64> {
        let Some(id) = self.lanes[1].id else { return Some(0) };
        Some(t.send_credit(id)?.saturating_sub(self.lanes[1].out.queued() as u64))
    }

    pub(super) fn encoder(&mut self, instructions: Vec<u8>) {
        self.push(1, instructions);
    }

    pub(super) fn decoder(&mut self, instructions: Vec<u8>) -> Result<(), Error> {
        self.push(2, instructions);
        // RFC 9204 §7.3: who does not take what it makes us say.
        if self.lanes[2].out.queued() > MAX_ANSWERS {
            return Err(Error::new(ErrorCode::H3_EXCESSIVE_LOAD, "the decoder stream is not read"));
        }
        Ok(())
    }

    /// Our control stream, once it is open.
    pub(super) fn control(&self) -> Option<StreamId> {
        self.lanes[0].id
    }

    /// Whether this is one of the streams.
    pub(super) fn has(&self, id: StreamId) -> bool {
        self.lanes.iter().any(|lane| lane.id == Some(id))
    }

    /// Opens what is not open, and hands on what there is room for.
    pub(super) fn flush(&mut self, t: &mut dyn Transport) {
        if self.owes {
            self.flush_all(t);
            self.owes = self.lanes.iter().any(|lane| lane.id.is_none() || lane.out.queued() > 0);
        }
    }

    fn flush_all(&mut self, t: &mut dyn Transport) {
        for (lane, kind) in self.lanes.iter_mut().zip(KINDS) {
            if lane.id.is_none() {
                lane.id = t.open(Dir::Uni);
                if let Some(id) = lane.id {
                    // Everything else waits for what is said here.
                    t.set_critical(id);
                    if kind == stream::QPACK_DECODER {
                        // RFC 9204 §2.1.4: until an encoder hears of it, it compresses a little less.
                        t.set_piggyback(id);
                    }
                    tell(t, || Traced::Stream(TraceSide::Local, id, StreamKind::Uni(kind)));
                    if kind == stream::CONTROL {
                        tell(t, || Traced::Created(id, TracedFrame::Other(&self.settings)));
                    }
                }
            }
            if let Some(id) = lane.id {
                lane.out.flush(t, id);
            }
        }
    }
}

/// What the lanes are for.
const KINDS: [u64; 3] = [stream::CONTROL, stream::QPACK_ENCODER, stream::QPACK_DECODER];

/// Bytes on the decoder stream that wait at most; an acknowledgment has ten at most.
const MAX_ANSWERS: usize = 64 << 10;
