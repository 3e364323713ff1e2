use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use hyper::body::{Frame, SizeHint};
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

use super::super::site::Content;
use super::desk::Entry;

/// The content of an answer, read when the connection has room for it. Nothing of it is kept for a client that takes nothing.
#[derive(Debug)]
pub(super) struct Body {
    source: Source,
    left: u64,
    entry: Entry,
}

#[derive(Debug)]
enum Source {
    Text(Bytes),
    File(File, BytesMut),
}

impl Body {
    pub(super) fn new(content: Content, entry: Entry) -> Self {
        let (source, left) = match content {
            Content::File(file, len) => (Source::File(File::from_std(file), BytesMut::new()), len),
            Content::Text(text) => {
                let len = text.len() as u64;
                (Source::Text(text), len)
            }
        };
        Self { source, left, entry }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Self { source, left, entry } = &mut *self;
        if *left == 0 {
            return Poll::Ready(None);
        }
        let part = match source {
            Source::Text(text) => std::mem::take(text),
            Source::File(file, part) => {
                part.reserve(PART.min(usize::try_from(*left).unwrap_or(PART)));
                // The future may go: what the file has read meanwhile, it keeps.
                let read = ready!(pin!(file.take(*left).read_buf(part)).poll(cx));
                if let Err(error) = read {
                    return Poll::Ready(Some(Err(entry.fails(error))));
                }
                part.split().freeze()
            }
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

impl Drop for Body {
    fn drop(&mut self) {
        if self.left > 0 && self.entry.failed.is_none() {
            self.entry.failed = Some("the client left, or took nothing".to_owned());
        }
    }
}

/// Bytes of a file read at a time.
const PART: usize = 64 << 10;
