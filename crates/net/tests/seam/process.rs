//! A pair of sockets in one process, with a delay, which loses every n-th datagram.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use quickset_net::{
    AddressPair, Batch, DatagramSocket, Ecn, Obstacle, ReceiveBuffers, ReceivedCount, UnsentBatch,
};

use crate::simulated::SimulatedRuntime;

pub(crate) struct Wires {
    pub(crate) client: Arc<Wire>,
    pub(crate) server: Arc<Wire>,
}

#[derive(Debug)]
pub(crate) struct Wire {
    address: SocketAddr,
    runtime: SimulatedRuntime,
    /// One way.
    delay: Duration,
    peer: Mutex<Weak<Wire>>,
    /// Every so manieth is lost; none for 0.
    loses: usize,
    state: Mutex<WireState>,
}

#[derive(Debug, Default)]
struct WireState {
    /// What is under way to this end, and when it is there.
    incoming: VecDeque<(Instant, Ecn, Vec<u8>)>,
    reader: Option<Waker>,
    /// Who waits until the other end has read something.
    writer: Option<Waker>,
    carried: usize,
    lost: usize,
    was_full: usize,
    room: Option<usize>,
    holds: Option<usize>,
    most: Option<usize>,
}

impl Wires {
    pub(crate) fn new(runtime: &SimulatedRuntime, loses: usize) -> Self {
        Self::far(runtime, Wire::DELAY, loses)
    }

    /// With this delay, one way.
    pub(crate) fn far(runtime: &SimulatedRuntime, delay: Duration, loses: usize) -> Self {
        let end = |last| {
            Arc::new(Wire {
                address: ([192, 0, 2, last], 4433).into(),
                runtime: runtime.clone(),
                delay,
                peer: Mutex::new(Weak::new()),
                loses,
                state: Mutex::default(),
            })
        };
        let (client, server) = (end(1), end(2));
        *client.peer.lock().expect(NO_PANIC) = Arc::downgrade(&server);
        *server.peer.lock().expect(NO_PANIC) = Arc::downgrade(&client);
        Self { client, server }
    }
}

impl Wire {
    /// One way, unless told otherwise.
    pub(crate) const DELAY: Duration = Duration::from_millis(10);

    fn state(&self) -> MutexGuard<'_, WireState> {
        self.state.lock().expect(NO_PANIC)
    }

    pub(crate) fn carried(&self) -> usize {
        self.state().carried
    }

    pub(crate) fn lost(&self) -> usize {
        self.state().lost
    }

    pub(crate) fn was_full(&self) -> usize {
        self.state().was_full
    }

    /// It refuses what is larger, from now on.
    pub(crate) fn takes_at_most(&self, bytes: usize) {
        self.state().most = Some(bytes);
    }

    /// As many datagrams are under way to the other end at most.
    pub(crate) fn has_room_for(&self, datagrams: usize) {
        self.state().room = Some(datagrams);
    }

    /// As many bytes wait to be read at most: what comes on top of them is lost.
    pub(crate) fn holds(&self, bytes: usize) {
        self.state().holds = Some(bytes);
    }

    /// Takes a datagram to the other end, unless it is lost.
    fn carry(&self, ecn: Ecn, bytes: &[u8]) {
        let Some(peer) = self.peer.lock().expect(NO_PANIC).upgrade() else { return };
        {
            let mut state = self.state();
            state.carried += 1;
            if self.loses > 0 && state.carried % self.loses == 0 {
                state.lost += 1;
                return;
            }
        }
        let at = self.runtime.time() + self.delay;
        let mut there = peer.state();
        let waiting: usize = there.incoming.iter().map(|(_, _, bytes)| bytes.len()).sum();
        if there.holds.is_some_and(|most| waiting + bytes.len() > most) {
            drop(there);
            self.state().lost += 1;
            return;
        }
        there.incoming.push_back((at, ecn, bytes.to_vec()));
        if let Some(reader) = there.reader.clone() {
            self.runtime.wake_at(at, reader);
        }
    }

    fn is_full(&self) -> bool {
        let room = self.state().room;
        let under_way =
            self.peer.lock().expect(NO_PANIC).upgrade().map_or(0, |peer| peer.state().incoming.len());
        room.is_some_and(|room| under_way >= room)
    }
}

impl DatagramSocket for Wire {
    fn local_addr(&self) -> SocketAddr {
        self.address
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut ReceiveBuffers,
        _hurry: bool,
    ) -> Poll<io::Result<ReceivedCount>> {
        let Some(peer) = self.peer.lock().expect(NO_PANIC).upgrade() else { return Poll::Pending };
        let now = self.runtime.time();
        let (mut filled, mut state) = (0, self.state());
        state.reader = Some(cx.waker().clone());
        while filled < ReceiveBuffers::WIDTH && state.incoming.front().is_some_and(|next| next.0 <= now) {
            let (_, ecn, bytes) = state.incoming.pop_front().expect("it was there");
            buffers.put(filled, AddressPair::to(peer.address), ecn, &bytes);
            filled += 1;
        }
        let next = state.incoming.front().map(|next| next.0);
        drop(state);
        if filled > 0 {
            let writer = peer.state().writer.take();
            writer.into_iter().for_each(Waker::wake);
            return Poll::Ready(Ok(ReceivedCount { buffers: filled, was_all: false }));
        }
        if let Some(next) = next {
            self.runtime.wake_at(next, cx.waker().clone());
        }
        Poll::Pending
    }

    fn poll_send(&self, cx: &mut Context<'_>, batch: &Batch) -> Poll<Result<(), UnsentBatch>> {
        if self.is_full() {
            let mut state = self.state();
            state.was_full += 1;
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let most = self.state().most.unwrap_or(usize::MAX);
        let (mut left, mut is_refused) = (0, false);
        for (at, segment) in batch.segments().enumerate() {
            if segment.len() > most {
                is_refused = true;
                continue;
            }
            self.carry(batch.ecn, segment);
            left |= 1 << at;
        }
        Poll::Ready(if is_refused {
            let error = io::Error::other("too large for this wire");
            Err(UnsentBatch { left, obstacle: Obstacle::Size, error })
        } else {
            Ok(())
        })
    }

    fn send_response(&self, _path: &AddressPair, bytes: &[u8]) -> io::Result<()> {
        self.carry(Ecn::NotEct, bytes);
        Ok(())
    }

    fn max_segments(&self) -> usize {
        10
    }
}

const NO_PANIC: &str = "nobody panics with it locked";
