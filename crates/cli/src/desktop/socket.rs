//! The session of a page by WebSocket (RFC 6455), where UDP does not get through: its messages are bytes.

use std::io;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::{SinkExt as _, Stream, StreamExt as _, future};
use quickset_desktop::serve::PageBytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::io::{CopyToBytes, SinkWriter, StreamReader};

/// The bytes of a server's WebSocket: those of its binary messages one behind the other, however they are
/// cut (WB-19).
pub(super) async fn bytes<S>(stream: S) -> Box<dyn PageBytes>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let config = WebSocketConfig::default()
        .max_message_size(Some(MOST_MESSAGE))
        .max_frame_size(Some(MOST_MESSAGE))
        // What is written leaves at once, and waits for the socket.
        .write_buffer_size(0)
        .max_write_buffer_size(2 * MOST_MESSAGE);
    let (sink, messages) = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await.split();
    let messages: Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>> =
        Box::pin(messages.filter_map(|message| future::ready(binary(message))));
    let sink = sink
        .with(|bytes: Bytes| future::ready(Ok::<_, Error>(Message::Binary(bytes))))
        .sink_map_err(io::Error::other);
    Box::new(tokio::io::join(StreamReader::new(messages), SinkWriter::new(CopyToBytes::new(sink))))
}

/// What a message has for us; pings are answered below, and an end ends the stream.
fn binary(message: Result<Message, Error>) -> Option<io::Result<Bytes>> {
    match message {
        Ok(Message::Binary(bytes)) => Some(Ok(bytes)),
        Ok(Message::Text(_)) => Some(Err(io::Error::new(io::ErrorKind::InvalidData, "a message of text"))),
        Ok(_) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => None,
        Err(error) => Some(Err(io::Error::other(error))),
    }
}

/// The longest message, in bytes: some frames of DT-56.
const MOST_MESSAGE: usize = 1 << 20;
