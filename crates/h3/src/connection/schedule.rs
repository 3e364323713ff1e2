//! How responses share the way: by what the client says, the server, and its application.

use quickset_quic::{self as quic, Class, Dir, Side, StreamId};

use super::exchange::{Exchange, RequestKind, SendWishes};
use super::{Connection, VerbRefusal};
use crate::priority::SaidPriority;
use crate::{Priority, Response, Transport};

impl Connection {
    /// Sends a message by this priority from now on, until the client's next word on it; see
    /// [`respond`](Self::respond) for what outlasts that. A server's classes are not those that the client
    /// names.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn schedule(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        priority: &Priority,
    ) -> Result<(), VerbRefusal> {
        self.alive()?;
        let exchange = self.exchanges.get_mut(&id).ok_or(VerbRefusal::UnknownStream)?;
        exchange.wishes.passing = Some(SaidPriority::of(priority));
        self.apply(t, id);
        Ok(())
    }

    /// How a response is sent where neither the client says it nor the response; in front of
    /// [`Config::usual`](super::Config::usual).
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn presume(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        priority: &Priority,
    ) -> Result<(), VerbRefusal> {
        self.alive()?;
        let exchange = self.exchanges.get_mut(&id).ok_or(VerbRefusal::UnknownStream)?;
        let before = exchange.wishes.in_force();
        exchange.wishes.usual = SaidPriority::of(priority);
        self.apply_change(t, id, &before);
        self.care(t, id);
        Ok(())
    }

    /// Sends a stream of a session by this priority from now on: what it is among the streams of that
    /// session, and below which classes of the session's it hangs. Unless told, they share what the session
    /// gets; what that is goes by the session's own priority, which is that of its request.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn schedule_session_stream(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        priority: &Priority,
    ) -> Result<(), VerbRefusal> {
        self.alive()?;
        let (_, said) = self.sessions.said(id).ok_or(VerbRefusal::UnknownStream)?;
        *said = Some(SaidPriority::of(priority));
        self.place(t, id);
        Ok(())
    }

    /// HP-14: a stream of a session hangs under a class of the session's, which is among its siblings what
    /// the session is.
    pub(super) fn place(&mut self, t: &mut dyn Transport, id: StreamId) {
        let Some((session, said)) = self.sessions.said(id) else { return };
        let said = said.clone();
        let Some(exchange) = self.exchanges.get(&session) else { return };
        if !is_sent_on(id, self.side) {
            return;
        }
        // Nobody else's class is called so.
        let class = Class { name: format!("\u{2}{}", session.0), priority: exchange.priority() };
        let mut path = exchange.wishes.in_force().classes().to_vec();
        path.push(class);
        path.extend_from_slice(said.as_ref().map_or(&[], SaidPriority::classes));
        // As it is from the start of any stream.
        let priority = said.map_or(quic::Priority::weighted(1.0), |said| said.priority());
        t.set_priority(id, priority);
        t.set_class(id, &path);
    }

    /// HP-1: the client says how a message is to be sent, in a request or an update; a client does so by its
    /// own words. How many classes it named.
    pub(super) fn obey(&mut self, t: &mut dyn Transport, id: StreamId, priority: &Priority) -> usize {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return 0 };
        let said = SaidPriority::of(priority);
        // HP-2, RFC 9218 §7: all of what was said before is replaced.
        exchange.wishes.asked = if self.side.is_server() { said.by_client() } else { said };
        exchange.wishes.passing = None;
        let classes = exchange.classes();
        self.apply(t, id);
        self.care(t, id);
        classes
    }

    /// What the server says itself of a response.
    pub(super) fn rank(&mut self, t: &mut dyn Transport, id: StreamId, response: &Response) {
        let is_ranked = response.field("priority").is_some();
        let usual = response.field("content-type").and_then(|kind| self.config.usual_of(kind));
        let Some(exchange) = self.exchanges.get_mut(&id).filter(|_| is_ranked || usual.is_some()) else {
            return;
        };
        let before = exchange.wishes.in_force();
        exchange.wishes.own = SaidPriority::of(&Priority::of(&response.fields));
        if let Some(usual) = usual {
            exchange.wishes.usual = std::mem::take(&mut exchange.wishes.usual).or(&SaidPriority::of(usual));
        }
        self.apply_change(t, id, &before);
        self.care(t, id);
    }

    /// The client says it of what was handed over whole, and waits in the transport. How many classes it
    /// named.
    pub(super) fn reschedule(&mut self, t: &mut dyn Transport, id: StreamId, priority: &Priority) -> usize {
        let asked = SaidPriority::of(priority).by_client();
        let said = self.lingering.get(&id).map_or_else(|| asked.clone(), |wishes| wishes.of(&asked));
        t.set_priority(id, said.priority());
        t.set_class(id, said.classes());
        asked.classes().len()
    }

    /// What the server says of a response outlasts the exchange, until all of it has arrived; that may be so
    /// before the request has ended.
    pub(super) fn linger(&mut self, id: StreamId, exchange: Box<Exchange>) {
        let SendWishes { own, usual, .. } = &exchange.wishes;
        let says = *own != SaidPriority::default() || *usual != SaidPriority::default();
        if self.side.is_server() && says && !exchange.sent_whole {
            self.lingering.insert(id, exchange.wishes);
        }
    }

    /// What was sent on a stream has arrived, or the peer wants none of it.
    pub(super) fn sent_whole(&mut self, id: StreamId) {
        self.lingering.remove(&id);
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.sent_whole = true;
        }
    }

    /// A stream is over, with a request or without one: what the client said of it makes room for others.
    pub(super) fn forget_priorities(&mut self, id: StreamId) {
        self.priorities.remove(&id);
        self.early_priorities.remove(&id);
    }

    /// What holds of a response, with what it says of classes: somebody said it just now.
    fn apply(&mut self, t: &mut dyn Transport, id: StreamId) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        let said = exchange.wishes.in_force();
        t.set_priority(id, exchange.kind.among_siblings(&said));
        if exchange.classed || !said.classes().is_empty() {
            t.set_class(id, said.classes());
            exchange.classed = !said.classes().is_empty();
        }
        self.place_session(t, id);
    }

    /// A session is something else among its siblings: said of one of its streams, it is said of their class.
    /// Others stay where they hang, so that no client can have all of them moved by a few bytes.
    fn place_session(&mut self, t: &mut dyn Transport, session: StreamId) {
        if !self.is_session(session) {
            return;
        }
        if let Some(id) = self.sessions.latest(session, self.side) {
            self.place(t, id);
        }
    }

    /// What holds of a response where something else did `before`. HP-8: what a request said of its classes
    /// is not said again by that, since a later one may have said something else of them.
    fn apply_change(&mut self, t: &mut dyn Transport, id: StreamId, before: &SaidPriority) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        let said = exchange.wishes.in_force();
        if said.classes() != before.classes() {
            return self.apply(t, id);
        }
        t.set_priority(id, exchange.kind.among_siblings(&said));
        self.place_session(t, id);
    }
}

/// Whether this side sends on a stream.
pub(super) fn is_sent_on(id: StreamId, side: Side) -> bool {
    id.dir() == Dir::Bi || id.initiator() == side
}

impl Exchange {
    /// Classes that the client named last.
    pub(super) fn classes(&self) -> usize {
        self.wishes.asked.classes().len()
    }

    fn priority(&self) -> quic::Priority {
        self.kind.among_siblings(&self.wishes.in_force())
    }
}

impl RequestKind {
    /// What a message of this kind is among its siblings, where `said` was said of it.
    fn among_siblings(self, said: &SaidPriority) -> quic::Priority {
        let mut priority = said.priority();
        // RFC 9218 §10, §11: a tunnel shares the way with others as urgent. It has no end that anybody waits
        // for, and who is behind it would wait for ever.
        priority.incremental |= matches!(self, Self::Connect | Self::Session);
        priority
    }
}

impl SendWishes {
    /// What the response is sent by: the application's word of just now, or what lasts.
    fn in_force(&self) -> SaidPriority {
        self.passing.clone().unwrap_or_else(|| self.lasting())
    }

    /// HP-10, HP-11, RFC 9218 §8: the server's word before the client's, and that before what is usual; each
    /// parameter by itself.
    pub(super) fn lasting(&self) -> SaidPriority {
        self.of(&self.asked)
    }

    fn of(&self, asked: &SaidPriority) -> SaidPriority {
        self.own.clone().or(asked).or(&self.usual)
    }
}
