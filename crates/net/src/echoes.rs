//! What the network says to the first datagrams of clients (ICMP): nothing listens on the port, no route
//! leads on.
//!
//! The system tells a socket without a peer of its own only when it is asked to, which here is while
//! handshakes of ours are under way: later an answer that anybody can forge is not worth a connection, and a
//! server has nobody to miss. Only Linux can be asked; over other sockets such a handshake is silent until it
//! times out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Context;

use quickset_base::Time;

use crate::refusal::refusal;
use crate::shared::Shared;
use crate::socket::{DatagramSocket, UndeliveredDatagram, canonical};

/// Clients whose servers have not answered, and the system's queue of what came back.
#[derive(Default)]
pub(crate) struct Echoes {
    dialing: VecDeque<Arc<Shared>>,
    listening: Option<Listening>,
}

/// A socket hears errors as long as there is one.
struct Listening(Arc<dyn DatagramSocket>);

impl Echoes {
    /// A connection has begun.
    pub(crate) fn begun(&mut self, socket: &Arc<dyn DatagramSocket>, shared: &Arc<Shared>) {
        if !is_dialing(shared) {
            return;
        }
        self.dialing.push_back(shared.clone());
        if self.listening.is_none() {
            self.listen(socket);
        }
    }

    /// Connections go on with this socket.
    pub(crate) fn listen(&mut self, socket: &Arc<dyn DatagramSocket>) {
        self.listening = None;
        if !self.dialing.is_empty() {
            let heard = socket.hear_errors(true);
            heard.as_ref().err().inspect(|error| tracing::debug!(%error, "no errors are told"));
            self.listening = heard.is_ok().then(|| Listening(socket.clone()));
        }
    }

    /// Tells connections what came back. Those that heard something are `ready` to be polled.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, now: Time, ready: &mut VecDeque<Arc<Shared>>) {
        let Some(Listening(socket)) = &self.listening else { return };
        while self.dialing.front().is_some_and(|shared| !is_dialing(shared)) {
            self.dialing.pop_front();
        }
        if self.dialing.is_empty() {
            self.listening = None;
            return;
        }
        socket.poll_errors(cx, &mut |UndeliveredDatagram { remote, error, quoted }| {
            let remote = canonical(remote);
            for shared in &self.dialing {
                let heard = shared.lock().conn.undelivered(now, remote, quoted, refusal(error, false));
                if heard && shared.enqueue() {
                    ready.push_back(shared.clone());
                }
            }
        });
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Err(error) = self.0.hear_errors(false) {
            tracing::debug!(%error, "errors are still told");
        }
    }
}

/// Whether its server has not answered.
fn is_dialing(shared: &Shared) -> bool {
    let state = shared.lock();
    state.conn.side().is_client() && !state.connected && state.conn.closed().is_none()
}
