//! The site by HTTP/3.

use std::fs::File;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use quickset::h3::{self, Call, HttpError, Sender};
use quickset::{Connection, Endpoint};
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::super::pulse::{Limits, Pulse, Still};
use super::super::site::{Answer, Content};
use super::desk::{Asker, Desk, Entry, Version};
use super::ranks::Verdict;
use super::seats::Seats;

/// Takes connections until the endpoint is closed.
pub(super) async fn accept(
    endpoint: &Endpoint,
    desk: &Arc<Desk>,
    seats: &Arc<Seats>,
    stop: &watch::Receiver<bool>,
    talks: &mut JoinSet<()>,
) {
    loop {
        tokio::select! {
            connection = endpoint.accept() => {
                let Some(connection) = connection else { return };
                let is_early = connection.is_early();
                let seat = if is_early { seats.take_unproven() } else { seats.take(connection.remote_address().ip()) };
                let Some(mut seat) = seat else {
                    connection.close(h3::Code::H3_EXCESSIVE_LOAD.0, TOO_MANY);
                    continue;
                };
                let talk = talk(connection.clone(), desk.clone(), stop.clone());
                talks.spawn(async move {
                    let proven = async {
                        // Who comes through the handshake is there.
                        if is_early && connection.connected().await.is_ok() && !seat.prove(connection.remote_address().ip()) {
                            connection.close(h3::Code::H3_EXCESSIVE_LOAD.0, TOO_MANY);
                        }
                        drop(connection);
                    };
                    tokio::join!(talk, proven);
                    drop(seat);
                });
            }
            Some(_) = talks.join_next() => {}
        }
    }
}

/// A connection, until the client or we have enough.
async fn talk(connection: Connection, desk: Arc<Desk>, mut stop: watch::Receiver<bool>) {
    let Ok(mut server) = h3::Server::new(&connection, h3::Config::default()) else { return };
    server.repair_urgent(URGENT, &desk.repair);
    let pulse = Arc::new(Pulse::new());
    let asker = Asker { client: connection.remote_address(), version: Version::Three, pulse: pulse.clone() };
    let serve = |call: Call| drop(tokio::spawn(answer(desk.clone(), call, asker.clone())));
    // Without anything under way connections end by QUIC's own idle timeout, unless the client keeps them alive.
    let limits = Limits { idle: desk.limits.stall, ..desk.limits };
    let mut uptake = Uptake { connection, pulse, limits, seen: 0 };
    loop {
        tokio::select! {
            call = server.accept() => match call {
                Some(call) => serve(call),
                None => return,
            },
            _ = stop.wait_for(|stop| *stop) => break,
            still = uptake.still() => match still {
                Still::Idle => break,
                Still::Stalled => return uptake.connection.close(h3::Code::H3_EXCESSIVE_LOAD.0, STALLED),
            }
        }
    }
    // What is under way may end as always.
    uptake.pulse.moved();
    tokio::select! {
        () = server.shutdown(serve) => {}
        _ = uptake.still() => uptake.connection.close(h3::Code::H3_EXCESSIVE_LOAD.0, STALLED),
    }
}

/// Whether a client takes what it asked for.
///
/// Answers are handed over long before they are taken: a whole file may lie in the buffer of its stream, and the rest waits until
/// a good part of that has gone. So it goes by what of the streams has left, for which the client has to make room and the path
/// has to be free. Who takes less than a little in all the time that nothing may move, takes nothing.
struct Uptake {
    connection: Connection,
    pulse: Arc<Pulse>,
    limits: Limits,
    /// Bytes of streams that had left when that was asked last.
    seen: u64,
}

impl Uptake {
    /// Waits until nothing has moved for too long. Dropping the future loses nothing.
    async fn still(&mut self) -> Still {
        loop {
            let still = self.pulse.still(self.limits).await;
            let left = self.connection.stats().stream_bytes;
            if left.saturating_sub(self.seen) < LEAST {
                return still;
            }
            self.seen = left;
            self.pulse.moved();
        }
    }
}

async fn answer(desk: Arc<Desk>, call: Call, asker: Asker) {
    // What comes with the request is of no use, but it may come until the answer is there.
    let Call { request, reply, content: _unread, .. } = call;
    // Without an answer the client hears of it, as the reply is dropped.
    let asked = request.clone();
    let Some((Answer { mut response, content }, mut entry)) = desk.answer(request, &asker).await else {
        return;
    };
    match desk.ranks.of(&asked, &response) {
        Some(Verdict::Own(priority)) => response = response.with_priority(priority),
        Some(Verdict::Usual(priority)) => reply.presume(priority),
        None => {}
    }
    let result = match reply.respond(&response) {
        Ok(out) => send(out, content, &mut entry).await,
        Err(error) => Err(error.into()),
    };
    entry.failed = result.err().map(|error| error.to_string());
}

async fn send(mut out: Sender, content: Content, entry: &mut Entry) -> anyhow::Result<()> {
    match content {
        Content::Text(text) => send_part(&mut out, text, entry).await?,
        Content::File(file, len) => send_file(&mut out, file, len, entry).await?,
    }
    match out.finish() {
        // It has all it wants.
        Err(HttpError::Stopped(code)) if code == h3::Code::H3_NO_ERROR.0 => Ok(()),
        result => Ok(result?),
    }
}

/// One part is read while the one before is on its way; no more is in memory. The first ones are short, since a client may ask
/// for many and take nothing of them.
async fn send_file(out: &mut Sender, file: File, len: u64, entry: &mut Entry) -> anyhow::Result<()> {
    let mut file = tokio::fs::File::from_std(file).take(len);
    let mut size = FIRST_PART;
    while file.limit() > 0 {
        let mut part = BytesMut::with_capacity(size);
        size = PART.min(2 * size);
        if file.read_buf(&mut part).await? == 0 {
            // The head has promised more: the exchange is given up, so that nobody takes this for the whole.
            anyhow::bail!("the file became shorter while it was sent");
        }
        send_part(out, part.freeze(), entry).await?;
    }
    Ok(())
}

async fn send_part(out: &mut Sender, mut part: Bytes, entry: &mut Entry) -> Result<(), HttpError> {
    while !part.is_empty() {
        let n = out.send_some(&mut part).await?;
        entry.sent(n);
    }
    Ok(())
}

/// Answers more urgent than this are repaired where repair was asked for. 3 is what requests are that say nothing, so that
/// the client chooses.
const URGENT: u8 = 3;

/// Bytes in [`Limits::stall`], which is a minute unless told: 2 kbit/s, and more than control streams have to say.
const LEAST: u64 = 16 << 10;

const STALLED: &[u8] = b"nothing of the answers is taken";

const TOO_MANY: &[u8] = b"too many connections";

/// Bytes of a file read at a time, at first and at most.
const FIRST_PART: usize = 32 << 10;
const PART: usize = 256 << 10;
