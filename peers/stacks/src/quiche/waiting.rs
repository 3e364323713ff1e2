//! The tasks of a connection, each of which waits for what concerns it.

use std::collections::BTreeMap;
use std::task::{Context, Waker};

use quiche::Connection;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuicheWait {
    /// Anything that comes.
    News,
    /// A stream can be opened, of both directions or of one.
    OpeningBidi,
    OpeningUni,
    /// There is something to read on this stream.
    Reading(u64),
    /// There is room on this stream.
    Writing(u64),
    /// Datagrams have come.
    Datagrams,
    /// There is room for datagrams.
    DatagramRoom,
}

/// The tasks that wait, each for what concerns it.
#[derive(Default)]
pub(super) struct QuicheWaiting {
    news: Vec<Waker>,
    opening_bidi: Vec<Waker>,
    opening_uni: Vec<Waker>,
    reading: BTreeMap<u64, Waker>,
    writing: BTreeMap<u64, Waker>,
    datagrams: Vec<Waker>,
    datagram_room: Vec<Waker>,
}

impl QuicheWaiting {
    pub(super) fn add(&mut self, wait: QuicheWait, cx: &Context<'_>) {
        let waker = cx.waker().clone();
        let several = match wait {
            QuicheWait::Reading(stream) => return drop(self.reading.insert(stream, waker)),
            QuicheWait::Writing(stream) => return drop(self.writing.insert(stream, waker)),
            QuicheWait::News => &mut self.news,
            QuicheWait::OpeningBidi => &mut self.opening_bidi,
            QuicheWait::OpeningUni => &mut self.opening_uni,
            QuicheWait::Datagrams => &mut self.datagrams,
            QuicheWait::DatagramRoom => &mut self.datagram_room,
        };
        several.retain(|one| !one.will_wake(&waker));
        several.push(waker);
    }

    pub(super) fn wake_all(&mut self) {
        let Self { news, opening_bidi, opening_uni, reading, writing, datagrams, datagram_room } =
            std::mem::take(self);
        let several = [news, opening_bidi, opening_uni, datagrams, datagram_room];
        several
            .into_iter()
            .flatten()
            .chain(reading.into_values())
            .chain(writing.into_values())
            .for_each(Waker::wake);
    }

    /// Wakes those who wait for anything.
    pub(super) fn wake_for_news(&mut self) {
        self.news.drain(..).for_each(Waker::wake);
    }

    /// Wakes those who can go on: readers of what has come, and a few writers, of whom each takes what room
    /// there is and leaves the rest to the next.
    pub(super) fn wake_for_streams(&mut self, quic: &mut Connection) {
        if !self.reading.is_empty() {
            while let Some(stream) = quic.stream_readable_next() {
                self.reading.remove(&stream).into_iter().for_each(Waker::wake);
            }
        }
        let mut woken = 0;
        while woken < WRITERS && !self.writing.is_empty() {
            let Some(stream) = quic.stream_writable_next() else { break };
            if let Some(waker) = self.writing.remove(&stream) {
                waker.wake();
                woken += 1;
            }
        }
        if quic.peer_streams_left_bidi() > 0 {
            self.opening_bidi.drain(..).for_each(Waker::wake);
        }
        if quic.peer_streams_left_uni() > 0 {
            self.opening_uni.drain(..).for_each(Waker::wake);
        }
        if quic.dgram_recv_queue_len() > 0 {
            self.datagrams.drain(..).for_each(Waker::wake);
        }
        if !quic.is_dgram_send_queue_full() {
            self.datagram_room.drain(..).for_each(Waker::wake);
        }
    }
}

/// Writers that are woken at a time.
const WRITERS: usize = 16;
