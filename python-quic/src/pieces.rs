//! Bytes of a stream that come in pieces, as many at a time as Python asks for.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

/// Where pieces come from. It tells its error each time that it is asked.
pub(crate) trait PieceStream: Send {
    type Error;

    /// Waits for the next piece; `None` behind the last. Dropping the future loses nothing.
    fn next_piece(&mut self) -> impl Future<Output = Result<Option<Bytes>, Self::Error>> + Send;
}

/// A stream, and what was taken from it and is not Python's yet.
pub(crate) struct PieceReader<S> {
    pub(crate) stream: S,
    /// The end of a piece that was longer than was asked for.
    taken: Option<Bytes>,
}

impl<S: PieceStream> PieceReader<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, taken: None }
    }

    /// Waits for bytes, and takes what else is there, at most so many. Dropping the future loses nothing.
    ///
    /// # Errors
    /// That of the stream, before any byte.
    pub(crate) async fn read(&mut self, most: usize) -> Result<Vec<Bytes>, S::Error> {
        let mut next = match self.taken.take() {
            Some(taken) => Some(taken),
            None => self.stream.next_piece().await?,
        };
        let (mut pieces, mut room) = (Vec::new(), most);
        while let Some(mut piece) = next {
            if piece.len() > room {
                self.taken = Some(piece.split_off(room));
            }
            room -= piece.len();
            pieces.push(piece);
            if room == 0 {
                break;
            }
            next = self.there();
        }
        Ok(pieces)
    }

    /// What is there without waiting. An error is told to whoever reads on.
    fn there(&mut self) -> Option<Bytes> {
        match pin!(self.stream.next_piece()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(next)) => next,
            Poll::Ready(Err(_)) | Poll::Pending => None,
        }
    }
}
