//! The server, which answers whatever it is asked for, or counts what it is sent.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use quickset_stacks::{
    AnswerHead, PeerConnection, StackAnswer, StackCounter, StackDownload, StackServer, bytes_of,
};
use tokio::task::spawn_local;

use crate::cases::{BenchCase, BenchWork};
use crate::pattern::{PatternSum, expected, pieces};
use crate::tally::TALLY;

/// Serves all clients until the process ends.
pub(crate) async fn serve(mut server: impl StackServer, case: BenchCase) {
    let counters = (case == BenchCase::Lossless10 || case.is_sent()).then(watch);
    while let Some(connection) = server.accept().await {
        if let Some(counters) = &counters {
            counters.borrow_mut().extend(connection.counter());
        }
        spawn_local(async move {
            match case.work() {
                BenchWork::Upload => take_uploads(connection).await,
                BenchWork::Messages(len) => take_messages(connection, len).await,
                BenchWork::Datagrams(len) => take_datagrams(connection, len).await,
                _ => answer_all(connection).await,
            }
        });
    }
}

async fn answer_all(mut connection: impl PeerConnection) {
    while let Ok(answer) = connection.requested().await {
        // A client that has enough leaves in the middle.
        spawn_local(async move { drop(send(answer).await) });
    }
}

async fn send(mut answer: impl StackAnswer) -> Result<()> {
    let bytes = bytes_of(&answer.question().await?).context("a path of no length")?;
    let (head, mut pieces) = (AnswerHead { status: 200, length: bytes, kind: None }, pieces(bytes));
    let first = pieces.next().unwrap_or_default();
    if first.len() as u64 == bytes {
        return answer.whole(&head, first).await;
    }
    answer.begin(&head).await?;
    answer.send(first).await?;
    for piece in pieces {
        answer.send(piece).await?;
    }
    answer.end().await
}

async fn take_uploads(mut connection: impl PeerConnection) {
    while let Ok(mut upload) = connection.accept_upload().await {
        spawn_local(async move {
            let mut sum = PatternSum::default();
            let mut take = |part: &[u8]| {
                sum.add(part);
                TALLY.add(part.len() as u64, 0);
            };
            loop {
                match upload.receive(&mut take).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    // It has left in the middle.
                    Err(_) => return,
                }
            }
            demand(&sum, sum.bytes(), expected(sum.bytes()));
            TALLY.add(0, 1);
        });
    }
}

/// Where they are streams, each has a task, as whoever lets none hold up the others would have it.
async fn take_messages<C: PeerConnection>(mut connection: C, len: usize) {
    let right = expected(len as u64);
    loop {
        let mut sum = PatternSum::default();
        if C::HAS_MESSAGES {
            if connection.receive_message(&mut |part| sum.add(part)).await.is_err() {
                return;
            }
            count(&sum, len, right);
        } else {
            let Ok(mut stream) = connection.accept_upload().await else { return };
            spawn_local(async move {
                while stream.receive(&mut |part| sum.add(part)).await? {}
                count(&sum, len, right);
                anyhow::Ok(())
            });
        }
    }
}

/// One more has come.
fn count(sum: &PatternSum, len: usize, right: u64) {
    demand(sum, len as u64, right);
    TALLY.add(sum.bytes(), 1);
}

async fn take_datagrams(mut connection: impl PeerConnection, len: usize) {
    let right = expected(len as u64);
    let mut take = |datagram: &[u8]| {
        let mut sum = PatternSum::default();
        sum.add(datagram);
        count(&sum, len, right);
    };
    while connection.receive_datagrams(&mut take).await.is_ok() {}
}

/// Ends the process where other bytes came than were sent: the run has failed.
fn demand(sum: &PatternSum, bytes: u64, right: u64) {
    if sum.bytes() != bytes || sum.value() != right {
        eprintln!("{} bytes came instead of {bytes}, or others", sum.bytes());
        std::process::exit(1);
    }
}

/// Keeps what the stack counts of all connections up to date.
fn watch() -> Rc<RefCell<Vec<StackCounter>>> {
    let counters: Rc<RefCell<Vec<StackCounter>>> = Rc::default();
    let watched = counters.clone();
    spawn_local(async move {
        let mut last = Vec::new();
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let watched = watched.borrow();
            last.resize(watched.len(), None);
            // One that has ended stays as it was last.
            for (last, counter) in last.iter_mut().zip(watched.iter()) {
                *last = counter().or(*last);
            }
            TALLY.set_counts(last.iter().flatten());
        }
    });
    counters
}
