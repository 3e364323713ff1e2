use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::task::JoinHandle;

use super::super::site::{AnswerContent, Readable};
use super::answers::AnswerTurn;
use super::desk::LogEntry;
use super::purse::{Paid, Purse};

/// The content of an answer, read when the connection has room for it. Nothing of it is kept for a client
/// that takes nothing.
#[derive(Debug)]
pub(super) struct AnswerBody {
    source: BodySource,
    left: u64,
    entry: LogEntry,
    purse: Arc<Purse>,
    _seat: (AnswerTurn, Option<Paid>),
}

#[derive(Debug)]
enum BodySource {
    Text(Bytes),
    File {
        file: Arc<Readable>,
        offset: u64,
        /// The disk is waited for.
        reading: Option<JoinHandle<io::Result<Bytes>>>,
    },
}

impl AnswerBody {
    pub(super) fn new(
        content: AnswerContent,
        entry: LogEntry,
        purse: Arc<Purse>,
        turn: AnswerTurn,
        paid: Option<Paid>,
    ) -> Self {
        let (source, left) = match content {
            AnswerContent::File { file, from, len } => {
                (BodySource::File { file, offset: from, reading: None }, len)
            }
            AnswerContent::Text(text) => {
                let len = text.len() as u64;
                (BodySource::Text(text), len)
            }
        };
        Self { source, left, entry, purse, _seat: (turn, paid) }
    }
}

impl BodySource {
    /// The next part, of at most `left` bytes, when the connection may hold one.
    fn poll_part(&mut self, cx: &mut Context<'_>, left: u64, purse: &Arc<Purse>) -> Poll<io::Result<Bytes>> {
        let (file, offset, reading) = match self {
            Self::Text(text) => return Poll::Ready(Ok(std::mem::take(text))),
            Self::File { file, offset, reading } => (file, offset, reading),
        };
        let part = if let Some(task) = reading {
            let read = ready!(Pin::new(task).poll(cx)).map_err(io::Error::other);
            *reading = None;
            read??
        } else {
            let want = usize::try_from(left).map_or(PART, |left| left.min(PART));
            let len = ready!(purse.poll_room(cx, want));
            let end = *offset + left;
            let Some(part) = file.read_at_once(*offset, len, end) else {
                let (file, offset) = (file.clone(), *offset);
                *reading = Some(tokio::task::spawn_blocking(move || file.read(offset, len, end)));
                return self.poll_part(cx, left, purse);
            };
            part
        };
        *offset += part.len() as u64;
        Poll::Ready(Ok(purse.carry(part)))
    }
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Self { source, left, entry, purse, .. } = &mut *self;
        if *left == 0 {
            return Poll::Ready(None);
        }
        let part = match ready!(source.poll_part(cx, *left, purse)) {
            Ok(part) => part,
            Err(error) => return Poll::Ready(Some(Err(entry.fails(error)))),
        };
        if part.is_empty() {
            // The head has promised more: the connection says so by an error.
            let error = io::Error::other("the file became shorter while it was sent");
            return Poll::Ready(Some(Err(entry.fails(error))));
        }
        *left -= part.len() as u64;
        entry.moved(part.len());
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        if self.left > 0 && self.entry.failed.is_none() {
            self.entry.failed = Some("the client left, or took nothing".to_owned());
        }
    }
}

/// Bytes of a file read at a time.
const PART: usize = 64 << 10;
