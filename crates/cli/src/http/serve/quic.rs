//! The site by HTTP/3.

use std::future::{Future as _, poll_fn};
use std::io;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use quickset::h3::{self, Call, ContentSender, HttpError, Reply, Request, Response};
use quickset::{Connection, Endpoint, Peer};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::super::pulse::{Pulse, PulseLimits, Still};
use super::super::site::{AnswerContent, FileAnswer, Readable};
use super::answers::AnswerTurn;
use super::clients::called;
use super::desk::{Asker, LogEntry, MAX_CONTENT, ServeDesk, ServedVersion};
use super::purse::Purse;
use super::ranks::RankVerdict;
use super::seats::{Seats, resting};

/// Takes connections until the endpoint is closed.
pub(super) async fn accept(
    endpoint: &Endpoint,
    desk: &Arc<ServeDesk>,
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
                let Some(seat) = seat.map(Arc::new) else {
                    connection.close(h3::ErrorCode::H3_EXCESSIVE_LOAD.0, TOO_MANY);
                    continue;
                };
                let talk = talk(connection.clone(), desk.clone(), resting(&seat), stop.clone());
                talks.spawn(async move {
                    let proven = async {
                        // Who comes through the handshake is there.
                        let proves = || seat.prove(connection.remote_address().ip());
                        if is_early && connection.connected().await.is_ok() && !proves() {
                            connection.close(h3::ErrorCode::H3_EXCESSIVE_LOAD.0, TOO_MANY);
                        }
                    };
                    let talked = async { tokio::join!(talk, proven) };
                    tokio::select! {
                        _ = talked => {}
                        () = seat.lost() => connection.close(h3::ErrorCode::H3_NO_ERROR.0, MADE_ROOM),
                    }
                });
            }
            Some(_) = talks.join_next() => {}
        }
    }
}

/// A connection, until the client or we have enough.
async fn talk(
    connection: Connection,
    desk: Arc<ServeDesk>,
    pulse: Arc<Pulse>,
    mut stop: watch::Receiver<bool>,
) {
    let config = h3::Config { max_field_section: MAX_HEAD as u64, ..h3::Config::default() };
    let Ok(mut server) = h3::Server::new(&connection, config) else { return };
    let client = connection.remote_address().ip();
    // The connection has paid for itself.
    let Some(purse) = Purse::new(&desk.budget, client, 0) else { return };
    let guest = desk.answers.guest(client);
    server.repair_urgent(URGENT, &desk.repair);
    let name = Peer::of(&connection).certificates().and_then(|chain| chain.first().map(called));
    let asker = Asker {
        client: connection.remote_address(),
        name,
        version: ServedVersion::Three,
        pulse: pulse.clone(),
    };
    let visit = AnswersOf { desk: desk.clone(), asker, purse: purse.clone(), connection: connection.clone() };
    let serve = async |call: Call, turn: AnswerTurn| {
        // Without memory nothing was done with it: it may be made again.
        let Some(paid) = purse.answer(turn.is_first) else { return call.reply.reject() };
        let answer = answer(visit.clone(), call);
        let mut answer = Box::pin(async move {
            answer.await;
            drop((turn, paid));
        });
        // Most are through at once: a task is for those that have to wait.
        if poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx).is_pending())).await {
            tokio::spawn(answer);
        }
    };
    // Without anything under way connections end by QUIC's own idle timeout, unless the client keeps them
    // alive.
    let limits = PulseLimits { idle: desk.limits.stall, ..desk.limits };
    let mut uptake = Uptake { connection, pulse, limits, seen: 0 };
    let mut asked = None;
    loop {
        // Requests that have no turn yet wait where QUIC counts them, all but one.
        let next = async {
            if asked.is_none() {
                asked = server.accept().await;
            }
            if asked.is_some() { Some(guest.turn().await) } else { None }
        };
        let (call, turn) = tokio::select! {
            turn = next => match (asked.take(), turn) {
                (Some(call), Some(turn)) => (call, turn),
                _ => return,
            },
            () = purse.recalled() => return uptake.connection.close(h3::ErrorCode::H3_EXCESSIVE_LOAD.0, RECALLED),
            _ = stop.wait_for(|stop| *stop) => break,
            still = uptake.still() => match still {
                Still::Idle => break,
                Still::Stalled => return uptake.connection.close(h3::ErrorCode::H3_EXCESSIVE_LOAD.0, STALLED),
            }
        };
        serve(call, turn).await;
    }
    // Those that are still on their way are few.
    let serve_last = |call: Call| drop(tokio::spawn(answer(visit.clone(), call)));
    asked.into_iter().for_each(serve_last);
    // What is under way may end as always.
    uptake.pulse.moved();
    tokio::select! {
        () = server.shutdown(serve_last) => {}
        _ = uptake.still() => uptake.connection.close(h3::ErrorCode::H3_EXCESSIVE_LOAD.0, STALLED),
    }
}

/// Whether a client takes what it asked for.
///
/// Answers are handed over long before they are taken: a whole file may lie in the buffer of its stream, and
/// the rest waits until a good part of that has gone. So it goes by what of the streams has left, for which
/// the client has to make room and the path has to be free. Who takes less than a little in all the time that
/// nothing may move, takes nothing.
struct Uptake {
    connection: Connection,
    pulse: Arc<Pulse>,
    limits: PulseLimits,
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

/// What all answers of a connection need.
#[derive(Clone)]
struct AnswersOf {
    desk: Arc<ServeDesk>,
    asker: Asker,
    purse: Arc<Purse>,
    connection: Connection,
}

async fn answer(visit: AnswersOf, call: Call) {
    let AnswersOf { desk, asker, purse, connection } = visit;
    let Call { request, reply, mut content, .. } = call;
    let asked = request.clone();
    let answer = if desk.takes(&request) {
        // RFC 8470 §3: what comes early may be somebody else's, again. Who is through with the handshake is
        // not.
        if connection.connected().await.is_err() {
            return;
        }
        // In a place of its own: what answers take is moved about for each of them, and this is rare and
        // large.
        Box::pin(desk.put(request, &asker, &mut content, &purse)).await
    } else {
        // What comes with the request is of no use, but it may come until the answer is there.
        // Without an answer the client hears of it, as the reply is dropped.
        if says_content(&request) && pass_over(&mut content).await.is_err() {
            return;
        }
        desk.answer(request, &asker).await
    };
    let Some((FileAnswer { mut response, content }, mut entry)) = answer else {
        return;
    };
    match desk.ranks.of(&asked, &response) {
        Some(RankVerdict::Own(priority)) => response = response.with_priority(priority),
        Some(RankVerdict::Usual(priority)) => reply.presume(priority),
        None => {}
    }
    let result = send(reply, &response, content, &mut entry).await;
    entry.failed = result.err().map(|error| error.to_string());
}

/// Whether there is to be content, and how much.
fn says_content(request: &Request) -> bool {
    request.field("content-length").is_some_and(|length| length.iter().any(|digit| *digit != b'0'))
}

/// RFC 9114 §4.1.2: a request with less content than it says, or more, is none. Who brings much does not get
/// far.
async fn pass_over(content: &mut h3::Content) -> Result<(), HttpError> {
    let mut left = MAX_CONTENT;
    while let Some(data) = content.next().await? {
        left = left.saturating_sub(data.len());
        if left == 0 {
            break;
        }
    }
    Ok(())
}

async fn send(
    reply: Reply,
    response: &Response,
    content: AnswerContent,
    entry: &mut LogEntry,
) -> anyhow::Result<()> {
    let content = match content {
        // What is there and short leaves with its head.
        AnswerContent::Text(text) if text.len() <= SHORT => {
            let n = text.len();
            if let Err(error) = reply.answer(response, text).await {
                return satisfied(error);
            }
            entry.sent(n);
            return Ok(());
        }
        content => content,
    };
    let mut out = reply.respond(response)?;
    match content {
        AnswerContent::Text(text) => send_part(&mut out, text, entry).await?,
        AnswerContent::File { file, from, len } => send_file(&mut out, file, from, len, entry).await?,
    }
    out.finish().or_else(satisfied)
}

/// A client that has all it wants finds nothing wrong.
fn satisfied(error: HttpError) -> anyhow::Result<()> {
    match error {
        HttpError::Stopped(code) if code == h3::ErrorCode::H3_NO_ERROR.0 => Ok(()),
        error => Err(error.into()),
    }
}

/// No more is read than leaves soon, so that nothing is held for a client that takes nothing.
async fn send_file(
    out: &mut ContentSender,
    file: Arc<Readable>,
    from: u64,
    len: u64,
    entry: &mut LogEntry,
) -> anyhow::Result<()> {
    let (mut offset, end) = (from, from + len);
    while offset < end {
        let room = out.room().await?.min(PART);
        let len = usize::try_from(end - offset).map_or(room, |left| left.min(room));
        let part = read(&file, offset, len, end).await?;
        if part.is_empty() {
            // The head has promised more: the exchange is given up, so that nobody takes this for the whole.
            anyhow::bail!("the file became shorter while it was sent");
        }
        offset += part.len() as u64;
        send_part(out, part, entry).await?;
    }
    Ok(())
}

/// Reads a part of a file, in the background if the disk is to be waited for.
async fn read(file: &Arc<Readable>, offset: u64, len: usize, end: u64) -> io::Result<Bytes> {
    if let Some(part) = file.read_at_once(offset, len, end) {
        return Ok(part);
    }
    let file = file.clone();
    tokio::task::spawn_blocking(move || file.read(offset, len, end)).await.map_err(io::Error::other)?
}

async fn send_part(out: &mut ContentSender, mut part: Bytes, entry: &mut LogEntry) -> Result<(), HttpError> {
    while !part.is_empty() {
        let n = out.send_some(&mut part).await?;
        entry.sent(n);
    }
    Ok(())
}

/// Answers more urgent than this are repaired where repair was asked for. 3 is what requests are that say
/// nothing, so that the client chooses.
const URGENT: u8 = 3;

/// Bytes in [`PulseLimits::stall`], which is a minute unless told: 2 kbit/s, and more than control streams
/// have to say.
const LEAST: u64 = 16 << 10;

const STALLED: &[u8] = b"nothing of the answers is taken";

const TOO_MANY: &[u8] = b"too many connections";

const MADE_ROOM: &[u8] = b"there are too many connections, and nothing was asked for on this one";

const RECALLED: &[u8] = b"others need the memory";

/// Bytes of the head of a request at most; 8 KiB of fields are more than browsers send.
const MAX_HEAD: usize = 16 << 10;

/// Bytes of an answer that is handed over in one go at most.
const SHORT: usize = 64 << 10;

/// Bytes of a file read at a time at most.
const PART: usize = 256 << 10;
