//! What an HTTP/3 connection tells the trace of its QUIC connection.
//!
//! Events are those of draft-ietf-quic-qlog-h3-events, with the names they had in qlog 0.3, as the rest of
//! the trace has. A [`Transport`] that keeps no trace says so in [`is_traced`](crate::Transport::is_traced),
//! and nothing is made for it.
//!
//! Invariant: of what a field says nothing is told that is secret ([`is_private`]); names, values and their
//! number are bounded, whatever the peer sends.

use quickset_quic::StreamId;

use crate::frame::{Frame, Settings, stream};
use crate::{Field, Transport};

/// Something for the trace. Each is told when it happens: what is sent, when it is handed to the transport.
#[derive(Clone, Copy, Debug)]
pub enum Traced<'a> {
    /// The settings of one side are known.
    Settings(TraceSide, &'a Settings),
    /// It is known what a stream is for.
    Stream(TraceSide, StreamId, StreamKind),
    /// A frame is sent.
    Created(StreamId, TracedFrame<'a>),
    /// A frame came.
    Parsed(StreamId, TracedFrame<'a>),
    /// A request has another priority: what it was, if that is known, and what it is, as a Priority field has
    /// it.
    Priority(StreamId, Option<&'a [u8]>, &'a [u8]),
}

/// Whose doing something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceSide {
    /// Ours.
    Local,
    /// The peer's.
    Remote,
}

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// A request and its response.
    Request,
    /// A unidirectional stream, by its type.
    Uni(u64),
}

/// A frame, as far as it is told.
#[derive(Clone, Copy, Debug)]
pub enum TracedFrame<'a> {
    /// DATA of so many bytes.
    Data(u64),
    /// HEADERS.
    Headers(&'a [Field]),
    /// Any other that is known. HEADERS have been decoded and are not told so.
    Other(&'a Frame),
    /// Of a type that is not known.
    Unknown(u64),
}

/// Tells of something, if there is a trace: one call where there is none.
#[inline]
pub(crate) fn tell<'a>(t: &mut dyn Transport, what: impl FnOnce() -> Traced<'a>) {
    if t.is_traced() {
        t.trace(&what());
    }
}

/// Whether the value of a field is kept out of traces: credentials, what QPACK never indexes, and what the
/// application says is secret.
pub fn is_private(field: &Field) -> bool {
    let private: &[&[u8]] = &[
        b"authorization",
        b"proxy-authorization",
        b"cookie",
        b"set-cookie",
        b"authentication-info",
        b"proxy-authentication-info",
        b"www-authenticate",
        b"proxy-authenticate",
    ];
    field.sensitive || private.contains(&&field.name[..])
}

impl StreamKind {
    /// As the draft calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Uni(stream::CONTROL) => "control",
            Self::Uni(stream::PUSH) => "push",
            Self::Uni(stream::QPACK_ENCODER) => "qpack_encode",
            Self::Uni(stream::QPACK_DECODER) => "qpack_decode",
            Self::Uni(kind) if crate::frame::is_grease(kind) => "reserved",
            Self::Uni(_) => "unknown",
        }
    }
}

#[cfg(feature = "qlog")]
pub(crate) mod json {
    use serde_json::{Value, json};

    use super::{Field, Frame, Settings, TraceSide, Traced, TracedFrame, is_private};

    /// The name of an event, and its data.
    pub(crate) fn event(what: &Traced<'_>) -> (&'static str, Value) {
        match what {
            Traced::Settings(side, settings) => ("http:parameters_set", parameters(*side, settings)),
            Traced::Stream(side, id, kind) => (
                "http:stream_type_set",
                json!({ "owner": owner(*side), "stream_id": id.0, "stream_type": kind.name() }),
            ),
            Traced::Created(id, told) => {
                ("http:frame_created", json!({ "stream_id": id.0, "frame": frame(told) }))
            }
            Traced::Parsed(id, told) => {
                ("http:frame_parsed", json!({ "stream_id": id.0, "frame": frame(told) }))
            }
            Traced::Priority(id, old, new) => {
                let mut data = json!({ "stream_id": id.0, "new": text(new) });
                if let Some(old) = old {
                    data["old"] = text(old).into();
                }
                ("http:priority_updated", data)
            }
        }
    }

    fn owner(side: TraceSide) -> &'static str {
        match side {
            TraceSide::Local => "local",
            TraceSide::Remote => "remote",
        }
    }

    fn parameters(side: TraceSide, settings: &Settings) -> Value {
        let mut data = json!({
            "owner": owner(side),
            "max_table_capacity": settings.qpack_max_table_capacity,
            "blocked_streams_count": settings.qpack_blocked_streams,
            "enable_connect_protocol": u8::from(settings.enable_connect_protocol),
            "h3_datagram": u8::from(settings.h3_datagram),
        });
        if let Some(max) = settings.max_field_section_size {
            data["max_field_section_size"] = max.into();
        }
        data
    }

    fn frame(told: &TracedFrame<'_>) -> Value {
        match told {
            TracedFrame::Data(len) => json!({ "frame_type": "data", "raw": { "payload_length": len } }),
            TracedFrame::Headers(fields) => {
                let headers: Vec<Value> = fields.iter().take(MAX_FIELDS).map(header).collect();
                let mut frame = json!({ "frame_type": "headers", "headers": headers });
                if fields.len() > MAX_FIELDS {
                    frame["headers_omitted"] = (fields.len() - MAX_FIELDS).into();
                }
                frame
            }
            TracedFrame::Other(Frame::Headers(coded)) => {
                json!({ "frame_type": "headers", "headers": [], "raw": { "payload_length": coded.len() } })
            }
            TracedFrame::Other(Frame::Settings(settings)) => {
                let setting = |name: &str, value: u64| json!({ "name": name, "value": value });
                let mut list = vec![
                    setting("settings_qpack_max_table_capacity", settings.qpack_max_table_capacity),
                    setting("settings_qpack_blocked_streams", settings.qpack_blocked_streams),
                    setting("settings_enable_connect_protocol", settings.enable_connect_protocol.into()),
                    setting("settings_h3_datagram", settings.h3_datagram.into()),
                ];
                if let Some(max) = settings.max_field_section_size {
                    list.push(setting("settings_max_field_section_size", max));
                }
                json!({ "frame_type": "settings", "settings": list })
            }
            TracedFrame::Other(Frame::GoAway(id)) => json!({ "frame_type": "goaway", "id": id }),
            TracedFrame::Other(Frame::CancelPush(id)) => {
                json!({ "frame_type": "cancel_push", "push_id": id })
            }
            TracedFrame::Other(Frame::MaxPushId(id)) => json!({ "frame_type": "max_push_id", "push_id": id }),
            TracedFrame::Other(Frame::PriorityUpdate(id, value)) => update("request", *id, value),
            TracedFrame::Other(Frame::PushPriorityUpdate(id, value)) => update("push", *id, value),
            TracedFrame::Unknown(kind) => json!({ "frame_type": "unknown", "frame_type_bytes": kind }),
        }
    }

    fn update(target: &str, id: u64, value: &[u8]) -> Value {
        json!({
            "frame_type": "priority_update",
            "target_stream_type": target,
            "prioritized_element_id": id,
            "priority_field_value": text(value),
        })
    }

    fn header(field: &Field) -> Value {
        if is_private(field) {
            return json!({ "name": text(&field.name) });
        }
        json!({ "name": text(&field.name), "value": text(&field.value) })
    }

    /// Text of bounded length, whatever the bytes.
    fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_TEXT)]).into_owned()
    }

    /// Fields of a section that are told, and bytes of each name and value.
    const MAX_FIELDS: usize = 100;
    const MAX_TEXT: usize = 256;
}
