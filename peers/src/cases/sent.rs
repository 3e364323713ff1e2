//! The client sends, and the server counts: streams, messages, datagrams.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use quickset_stacks::{PeerConnection, StackClient, StackUpload};

use super::{CaseClient, SentInAll, TimedSpan, WARM};
use crate::pattern::pieces;
use crate::tally::ArrivedSoFar;
use crate::wire::say;

pub(super) async fn upload<C: StackClient>(client: &CaseClient<C>) -> Result<()> {
    let mut connection = client.stack.connect(false).await?;
    let mut upload = connection.open_upload().await?;
    let (mut course, mut sent) = (SendingCourse::default(), 0);
    for piece in pieces(u64::MAX) {
        if course.is_over(client)? {
            break;
        }
        sent += piece.len() as u64;
        upload.send(piece).await?;
    }
    upload.end().await?;
    tell(&connection, ArrivedSoFar { received_bytes: sent, received: 1 })?;
    super::until_looked_at().await?;
    connection.close();
    Ok(())
}

pub(super) async fn messages<C: StackClient>(client: &CaseClient<C>, len: usize) -> Result<()> {
    let mut connection = client.stack.connect(false).await?;
    let message = whole(len);
    let (mut course, mut sent) = (SendingCourse::default(), 0);
    while !course.is_over(client)? {
        for _ in 0..AT_ONCE {
            connection.send_message(message.clone()).await?;
        }
        sent += AT_ONCE;
    }
    tell(&connection, ArrivedSoFar { received_bytes: sent * len as u64, received: sent })?;
    super::until_looked_at().await?;
    connection.close();
    Ok(())
}

pub(super) async fn datagrams<C: StackClient>(client: &CaseClient<C>, len: usize) -> Result<()> {
    let mut connection = client.stack.connect(false).await?;
    let datagram = whole(len);
    let (mut course, mut sent, mut next) = (SendingCourse::default(), 0, VecDeque::new());
    while !course.is_over(client)? {
        next.resize(AT_ONCE as usize, datagram.clone());
        while !next.is_empty() {
            connection.send_datagrams(&mut next).await?;
        }
        sent += AT_ONCE;
    }
    // What waits leaves, and what is lost is found to be.
    tokio::time::sleep(SETTLING).await;
    tell(&connection, ArrivedSoFar { received_bytes: sent * len as u64, received: sent })?;
    super::until_looked_at().await?;
    connection.close();
    Ok(())
}

/// Messages or datagrams that are given to the stack between two looks at the clock.
const AT_ONCE: u64 = 32;

/// How long the last datagrams may take.
const SETTLING: Duration = Duration::from_millis(300);

fn whole(len: usize) -> Bytes {
    pieces(len as u64).next().unwrap_or_default()
}

fn tell(connection: &impl PeerConnection, sent: ArrivedSoFar) -> Result<()> {
    say(&SentInAll { sent, counts: connection.counter().and_then(|counter| counter()) })
}

/// Where a client is that sends all the time: before the clock starts, or behind that.
struct SendingCourse {
    begun: Instant,
    span: Option<TimedSpan>,
}

impl Default for SendingCourse {
    fn default() -> Self {
        Self { begun: Instant::now(), span: None }
    }
}

impl SendingCourse {
    /// Whether the time is over; says so then, and when it begins.
    fn is_over<C>(&mut self, client: &CaseClient<C>) -> Result<bool> {
        let Some(span) = &self.span else {
            if self.begun.elapsed() >= WARM {
                self.span = Some(TimedSpan::begin()?);
            }
            return Ok(false);
        };
        if span.wall.elapsed() < client.time {
            return Ok(false);
        }
        say(&span.end(0, Vec::new()))?;
        Ok(true)
    }
}
