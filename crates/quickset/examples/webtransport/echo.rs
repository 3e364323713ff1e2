//! The server: what comes on a session goes back.

use std::error::Error;

use quickset::Connection;
use quickset::bytes::Bytes;
use quickset::h3::webtransport::{RecvStream, SendStream, Session, SessionEnding, SessionError};
use quickset::h3::{Config, HttpError, Response, Server};

/// Serves the sessions of a connection until it ends, and tells of each how it ended.
pub(crate) async fn serve(
    connection: &Connection,
    mut ended: impl FnMut(&str, &SessionEnding),
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut http = Server::new(connection, Config { webtransport: 1, ..Config::default() })?;
    while let Some(call) = http.accept().await {
        let path = String::from_utf8_lossy(call.request.path.as_deref().unwrap_or_default()).into_owned();
        if !call.is_session() || !path.starts_with("/echo") {
            call.reply.end(&Response::new(404))?;
            continue;
        }
        // Of the protocols that the client speaks the one that it likes best: all are the same to an echo.
        let response = Response::new(200);
        let response = match call.request.protocols().first() {
            Some(protocol) => response.choosing(protocol)?,
            None => response,
        };
        let session = call.into_session(&response)?;
        match echo(&session, &path).await {
            SessionError::Over(ending) => ended(&path, &ending),
            SessionError::Http(HttpError::Closed(_)) => break,
            error => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sends everything back until the session is over: a stream in both directions on itself, one in one
/// direction on one of ours, datagrams behind the path. `end` as a datagram closes the session.
async fn echo(session: &Session, path: &str) -> SessionError {
    loop {
        let done = tokio::select! {
            stream = session.accept_bi() => stream.map(|(send, recv)| spawn(send, recv)),
            stream = session.accept_uni() => stream.map(|recv| {
                let session = session.clone();
                tokio::spawn(async move { back(session.open_uni().await?, recv).await });
            }),
            datagram = session.next_datagram() => datagram.and_then(|data| answer(session, path, &data)),
        };
        if let Err(error) = done {
            return error;
        }
    }
}

fn spawn(send: SendStream, recv: RecvStream) {
    tokio::spawn(back(send, recv));
}

async fn back(mut send: SendStream, mut recv: RecvStream) -> Result<(), SessionError> {
    while let Some(data) = recv.next().await? {
        send.send(data).await?;
    }
    send.finish()
}

fn answer(session: &Session, path: &str, data: &Bytes) -> Result<(), SessionError> {
    if &data[..] == b"end" {
        session.close(42, "as you say");
    }
    session.send_datagram(&[path.as_bytes(), b" ", data].concat())
}
