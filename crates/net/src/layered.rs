use std::fmt;
use std::marker::PhantomData;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use quickset_quic::{Dir, StreamEvent};

use crate::budget::poll_budget;
use crate::connection::Connection;
use crate::layer::{Layer, LayerClock, LayerTurn};
use crate::runtime::sleep_until;
use crate::shared::LockedState;

/// A connection with a layer on it. Clones are handles of the same one, and hold the connection as those of
/// [`Connection`] do.
pub struct Layered<L> {
    connection: Connection,
    layer: PhantomData<fn() -> L>,
}

/// The connection has a layer already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the streams of the connection have an owner already")]
pub struct LayerTaken;

impl Connection {
    /// Gives the streams of this connection to the layer that `begin` makes: before any was opened or
    /// accepted.
    ///
    /// # Errors
    /// When there is one already.
    pub fn layered<L: Layer>(
        &self,
        begin: impl FnOnce(&mut LayerTurn<'_>) -> L,
    ) -> Result<Layered<L>, LayerTaken> {
        let layered = Layered { connection: self.clone(), layer: PhantomData };
        let mut woken = Vec::new();
        let shared = self.shared();
        let mut state = shared.lock();
        if state.layer.is_some() {
            return Err(LayerTaken);
        }
        let clock = LayerClock::of(&shared.line.clock);
        let mut turn = LayerTurn { connection: &mut state.conn, clock, woken: &mut woken };
        let mut layer = begin(&mut turn);
        // What came before it.
        for dir in Dir::ALL {
            layer.on_stream(&mut turn, StreamEvent::Opened(dir));
        }
        layer.on_datagrams(&mut turn);
        layer.on_told(&mut turn);
        state.layer = Some(Box::new(layer));
        drop(state);
        shared.nudge();
        woken.into_iter().for_each(Waker::wake);
        Ok(layered)
    }

    /// Waits as long as it takes now to reach the peer and hear from it, by what is known of the path.
    pub async fn round_trip(&self) {
        let rtt = self.stats().rtt;
        let clock = &self.shared().line.clock;
        let at = clock.instant_now() + rtt.max(Duration::from_millis(1));
        sleep_until(&*clock.runtime, at).await;
    }
}

impl<L: Layer> Layered<L> {
    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// A verb on the layer.
    pub fn with<T>(&self, verb: impl FnOnce(&mut L, &mut LayerTurn<'_>) -> T) -> T {
        let mut woken = Vec::new();
        let shared = self.connection.shared();
        let mut state = shared.lock();
        let LockedState { conn, layer, .. } = &mut *state;
        let clock = LayerClock::of(&shared.line.clock);
        let mut turn = LayerTurn { connection: conn, clock, woken: &mut woken };
        let layer = layer.as_mut().and_then(|held| held.any().downcast_mut());
        let result = verb(layer.expect("the layer came with the handle, and stays"), &mut turn);
        drop(state);
        shared.nudge();
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// A verb that may have to wait; it keeps the waker then. Tasks that find it ready again and again let
    /// others run, too.
    pub fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        verb: impl FnOnce(&mut L, &mut LayerTurn<'_>, &Waker) -> Poll<T>,
    ) -> Poll<T> {
        let coop = ready!(poll_budget(cx));
        let result = ready!(self.with(|layer, turn| verb(layer, turn, cx.waker())));
        coop.made_progress();
        Poll::Ready(result)
    }
}

impl<L> Clone for Layered<L> {
    fn clone(&self) -> Self {
        Self { connection: self.connection.clone(), layer: PhantomData }
    }
}

impl<L> fmt::Debug for Layered<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layered").field("connection", &self.connection).finish_non_exhaustive()
    }
}
