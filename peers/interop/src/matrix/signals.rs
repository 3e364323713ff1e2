//! What a browser says about the urgency of its requests, by its own log, and what a server of ours made of
//! it, by the server's log and trace. The readers are independent of ours: they judge them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// RFC 9218 §4: urgency and incremental.
type SignalPriority = (u8, bool);

/// What a browser asked for, by the connection's first id of the server's and the stream.
#[derive(Debug, Default)]
pub(super) struct AskedSignals {
    pub(super) requests: BTreeMap<(String, u64), SignalRequest>,
}

#[derive(Debug)]
pub(super) struct SignalRequest {
    pub(super) path: String,
    /// By its Priority field, and by each PRIORITY_UPDATE.
    pub(super) said: Vec<SignalPriority>,
}

/// Reads Chromium's log of its network.
pub(super) fn of_browser(log: &Path) -> Result<AskedSignals> {
    let log: Value = serde_json::from_slice(&std::fs::read(log)?)?;
    let kind =
        |name: &str| log["constants"]["logEventTypes"][name].as_u64().with_context(|| format!("no {name}"));
    let (session, sent) = (kind("QUIC_SESSION")?, kind("HTTP3_HEADERS_SENT")?);
    let update = kind("HTTP3_PRIORITY_UPDATE_SENT")?;
    let (mut connections, mut asked) = (BTreeMap::new(), AskedSignals::default());
    // An update may be logged ahead of its request.
    let mut ahead: BTreeMap<(String, u64), Vec<SignalPriority>> = BTreeMap::new();
    for event in log["events"].as_array().context("no events")? {
        let (params, source) = (&event["params"], event["source"]["id"].as_u64());
        let Some(of) = event["type"].as_u64() else { continue };
        if of == session {
            if let Some(id) = params["connection_id"].as_str() {
                connections.insert(source, id.to_owned());
            }
            continue;
        }
        let Some(connection) = connections.get(&source).filter(|_| of == sent || of == update) else {
            continue;
        };
        if of == sent {
            let key = (connection.clone(), params["stream_id"].as_u64().context("no stream")?);
            let field = |name: &str| header(&params["headers"], name);
            let first = priority(field("priority").as_deref().unwrap_or_default());
            let said = [first].into_iter().chain(ahead.remove(&key).unwrap_or_default()).collect();
            asked.requests.insert(key, SignalRequest { path: field(":path").unwrap_or_default(), said });
        } else {
            let key = (connection.clone(), params["prioritized_element_id"].as_u64().context("no element")?);
            let said = priority(params["priority_field_value"].as_str().context("no value")?);
            match asked.requests.get_mut(&key) {
                Some(request) => request.said.push(said),
                None => ahead.entry(key).or_default().push(said),
            }
        }
    }
    Ok(asked)
}

impl AskedSignals {
    /// The browser told several kinds of things apart.
    pub(super) fn check_variety(&self) -> Result<()> {
        let of = |part: &str| self.requests.values().find(|r| r.path.contains(part)).map(|r| r.said[0].0);
        let urgencies: std::collections::BTreeSet<u8> =
            self.requests.values().flat_map(|r| r.said.iter().map(|(u, _)| *u)).collect();
        ensure!(urgencies.len() > 2, "the browser knows the urgencies {urgencies:?} only");
        ensure!(of("fetch-high") < of("fetch-low"), "high and low are alike to the browser");
        Ok(())
    }
}

/// What a trace shows.
#[derive(Debug, Default)]
pub(super) struct TraceShown {
    /// Packets with something that left while something less urgent waited.
    pub(super) contests: usize,
    /// Answers for which a PRIORITY_UPDATE was used.
    pub(super) updated: usize,
}

/// Holds the trace of one of our connections against what the browser asked for, and the order of what was
/// sent against both.
pub(super) fn compare(asked: &AskedSignals, trace: &Path) -> Result<TraceShown> {
    let name = trace.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let connection = name.split('_').next().unwrap_or_default();
    let records = records(trace)?;
    let mut play = Play::of(&records);
    for record in &records {
        play.take(record)?;
    }
    let wanted = asked.requests.iter().filter(|((id, _), _)| id == connection);
    for ((_, stream), request) in wanted {
        let used = play.streams.get(stream).map(|s| &s.used);
        let used = used.with_context(|| format!("{} did not come", request.path))?;
        // The last updates may have come too late, or for what was over.
        let (said, n) = (&request.said, used.len());
        ensure!(
            n > 0 && n <= said.len() && used[..] == said[..n],
            "{}: the browser said {said:?}, ours used {used:?}",
            request.path
        );
    }
    let updated = play.streams.values().filter(|stream| stream.used.len() > 1).count();
    Ok(TraceShown { contests: play.contests, updated })
}

/// A trace as it happened.
#[derive(Default)]
struct Play {
    streams: BTreeMap<u64, SignalStream>,
    contests: usize,
}

#[derive(Default)]
struct SignalStream {
    used: Vec<SignalPriority>,
    /// The answer is there to be sent, up to its end; so much was.
    is_there: bool,
    end: u64,
    sent: u64,
}

impl Play {
    /// The lengths of all streams, which are known afterwards.
    fn of(records: &[Value]) -> Self {
        let mut play = Self::default();
        for frame in records.iter().flat_map(stream_frames) {
            let stream = play.streams.entry(frame.stream).or_default();
            stream.end = stream.end.max(frame.end);
        }
        play
    }

    fn take(&mut self, record: &Value) -> Result<()> {
        let data = &record["data"];
        let (frame, id) = (&data["frame"], data["stream_id"].as_u64().unwrap_or_default());
        match (record["name"].as_str().unwrap_or_default(), frame["frame_type"].as_str()) {
            ("http:frame_parsed", Some("headers")) => {
                let field = header(&frame["headers"], "priority").unwrap_or_default();
                self.streams.entry(id).or_default().used.push(priority(&field));
            }
            ("http:priority_updated", _) => {
                let new = data["new"].as_str().unwrap_or_default();
                self.streams.entry(id).or_default().used.push(priority(new));
            }
            ("http:frame_created", Some("data")) => self.streams.entry(id).or_default().is_there = true,
            ("transport:packet_sent", _) => {
                for sent in stream_frames(record) {
                    self.sent(&sent)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// New data of a stream: of what else was there nothing may have been more urgent, nor an earlier one of
    /// the same urgency if both go one after the other (RFC 9218 §10).
    fn sent(&mut self, frame: &SentFrame) -> Result<()> {
        let Some(stream) = self.streams.get_mut(&frame.stream).filter(|stream| frame.end > stream.sent)
        else {
            return Ok(());
        };
        stream.sent = frame.end;
        let Some(&(urgency, incremental)) = stream.used.last() else { return Ok(()) };
        let mut is_contest = false;
        for (id, other) in self.streams.iter().filter(|(id, _)| **id != frame.stream) {
            let Some(&(others, shares)) = other.used.last() else { continue };
            if !other.is_there || other.sent >= other.end {
                continue;
            }
            let is_behind = others == urgency && !incremental && !shares && *id < frame.stream;
            if others < urgency || is_behind {
                bail!(
                    "bytes up to {} of stream {} (u={urgency}, {incremental}) left before those of stream {id} (u={others}, \
                     {shares}), of which {} of {} had",
                    frame.end,
                    frame.stream,
                    other.sent,
                    other.end
                );
            }
            is_contest |= others > urgency;
        }
        self.contests += usize::from(is_contest);
        Ok(())
    }
}

/// A STREAM frame that was sent.
struct SentFrame {
    stream: u64,
    end: u64,
}

/// Those of requests in a packet.
fn stream_frames(record: &Value) -> Vec<SentFrame> {
    let is_sent = record["name"].as_str() == Some("transport:packet_sent");
    let frames = record["data"]["frames"].as_array().filter(|_| is_sent);
    let of = |frame: &Value| {
        let (stream, offset) = (frame["stream_id"].as_u64()?, frame["offset"].as_u64()?);
        let is_request = frame["frame_type"].as_str() == Some("stream") && stream % 4 == 0;
        is_request.then_some(SentFrame { stream, end: offset + frame["length"].as_u64()? })
    };
    frames.into_iter().flatten().filter_map(of).collect()
}

/// RFC 7464: each behind a separator.
fn records(trace: &Path) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(trace)?;
    let lines = text.split('\u{1e}').map(str::trim).filter(|record| !record.is_empty());
    lines
        .map(|record| {
            serde_json::from_str(record).with_context(|| record.chars().take(200).collect::<String>())
        })
        .collect()
}

/// A field of a head, in a list of names and values, or of lines.
fn header(headers: &Value, name: &str) -> Option<String> {
    let value = |header: &Value| match header.as_str() {
        Some(line) => Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned()),
        None => header["value"].as_str().filter(|_| header["name"].as_str() == Some(name)).map(str::to_owned),
    };
    headers.as_array()?.iter().find_map(value)
}

/// Of a Priority field, what it may say of urgency and of incremental: browsers write these two and no more.
fn priority(value: &str) -> SignalPriority {
    let mut read = (3, false);
    for parameter in value.split(',').map(str::trim) {
        match parameter.split_once('=') {
            Some(("u", urgency)) => read.0 = urgency.parse().unwrap_or(3),
            Some(("i", incremental)) => read.1 = incremental == "?1",
            None if parameter == "i" => read.1 = true,
            _ => {}
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_priority_is_read_as_rfc_9218_has_it() {
        let table = [
            ("", (3, false)),
            ("u=0, i", (0, true)),
            ("i", (3, true)),
            ("u=5", (5, false)),
            ("u=1,i=?0", (1, false)),
        ];
        for (value, wanted) in table {
            assert_eq!(priority(value), wanted, "{value}");
        }
    }

    /// Two answers of 2000 bytes, the second one more urgent.
    fn sent(order: &[(u64, u64)]) -> Result<usize> {
        let ask = |id: u64, value: &str| {
            let headers = serde_json::json!([{ "name": "priority", "value": value }]);
            serde_json::json!({ "name": "http:frame_parsed",
                "data": { "stream_id": id, "frame": { "frame_type": "headers", "headers": headers } } })
        };
        let answer = |id: u64| {
            serde_json::json!({ "name": "http:frame_created",
                "data": { "stream_id": id, "frame": { "frame_type": "data" } } })
        };
        let packet = |(id, offset): &(u64, u64)| {
            let frame = serde_json::json!({ "frame_type": "stream", "stream_id": id, "offset": offset, "length": 1000 });
            serde_json::json!({ "name": "transport:packet_sent", "data": { "frames": [frame] } })
        };
        let mut records = vec![ask(0, "u=3"), answer(0), ask(4, "u=1"), answer(4)];
        records.extend(order.iter().map(packet));
        let mut play = Play::of(&records);
        records.iter().try_for_each(|record| play.take(record))?;
        Ok(play.contests)
    }

    #[test]
    fn what_is_less_urgent_may_leave_behind_the_rest_only() {
        assert_eq!(sent(&[(4, 0), (4, 1000), (0, 0), (0, 1000)]).ok(), Some(2));
        // What was lost is no news.
        assert_eq!(sent(&[(4, 0), (4, 1000), (0, 0), (4, 0), (0, 1000)]).ok(), Some(2));
        assert!(sent(&[(4, 0), (0, 0), (4, 1000), (0, 1000)]).is_err());
        assert!(sent(&[(0, 0), (4, 0), (4, 1000), (0, 1000)]).is_err());
    }
}
