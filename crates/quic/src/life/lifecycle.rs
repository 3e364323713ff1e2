use quickset_base::{Duration, Reason, Time};
use quickset_wire::TransportErrorCode;
use quickset_wire::frame::Frame;

use crate::TransportError;

/// How a connection lives and dies: idle timeout, keep-alive, closing and draining (RFC 9000 §10).
#[derive(Debug)]
pub(crate) struct Lifecycle {
    state: LifecycleState,
    idle_timeout: Option<Duration>,
    keep_alive: Option<Duration>,
    /// RFC 9000 §21.6: nobody holds a connection by never finishing its handshake.
    handshake_until: Option<Time>,
    handshake_timeout: Duration,
    /// The handshake is complete, and nobody has said yet that it is confirmed: a client that waits for that.
    unconfirmed: bool,
    /// The last authentic packet, or the first eliciting packet sent behind it.
    heard: Time,
    /// An eliciting packet was sent since something was heard.
    asked: bool,
    /// The idle timeout runs from then, whatever was heard since.
    held: Option<Time>,
    ping: bool,
}

#[derive(Debug)]
enum LifecycleState {
    Open,
    /// Apart, since it is short beside the life of a connection.
    Closing(Box<Closing>),
    Draining {
        until: Time,
    },
    Drained,
}

#[derive(Debug)]
struct Closing {
    farewell: CloseFrame,
    /// The datagram that it left in, once it has: said again as it was, there is no need for keys
    /// (RFC 9000 §10.2.1).
    said: Vec<u8>,
    until: Time,
    /// When it is said again unasked, and how long after the time before.
    again: Option<Time>,
    step: Duration,
    due: bool,
    heard: u32,
    /// Datagrams that come before the next answer; doubled each time (RFC 9000 §10.2.1).
    patience: u32,
}

/// What CONNECTION_CLOSE says.
#[derive(Clone, Debug)]
pub(crate) enum CloseFrame {
    Transport(TransportError),
    Application { code: u64, reason: Vec<u8> },
}

/// What a timer meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    Nothing,
    /// The idle timeout or the handshake timeout: the connection is gone, without a word.
    Silence,
    /// Closing or draining is over.
    Drained,
}

impl Lifecycle {
    pub(crate) fn new(now: Time, keep_alive: Option<Duration>, handshake_timeout: Duration) -> Self {
        Self {
            state: LifecycleState::Open,
            idle_timeout: None,
            keep_alive,
            handshake_until: Some(now + handshake_timeout),
            handshake_timeout,
            unconfirmed: false,
            heard: now,
            asked: false,
            held: None,
            ping: false,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, LifecycleState::Open)
    }

    /// What comes is read: until we have said farewell, or the peer has. RFC 9000 §10.2.1: from then on it
    /// matters only that something comes.
    pub(crate) fn listens(&self) -> bool {
        match &self.state {
            LifecycleState::Open => true,
            LifecycleState::Closing(closing) => closing.said.is_empty(),
            LifecycleState::Draining { .. } | LifecycleState::Drained => false,
        }
    }

    pub(crate) fn is_drained(&self) -> bool {
        matches!(self.state, LifecycleState::Drained)
    }

    /// RFC 9000 §10.1: the smaller of both sides' timeouts, zero standing for none.
    pub(crate) fn set_idle_timeout(&mut self, ours: Option<Duration>, peers: Duration) {
        let peers = (!peers.is_zero()).then_some(peers);
        self.idle_timeout = match (ours, peers) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// The smaller of both sides' idle timeouts.
    #[inline]
    pub(super) fn idle_timeout(&self) -> Option<Duration> {
        self.idle_timeout
    }

    /// When something was heard, or the first eliciting packet sent behind it.
    #[inline]
    pub(crate) fn heard(&self) -> Time {
        self.heard
    }

    /// The handshake is complete: from here on not its length is bounded, but the silence until it is
    /// confirmed.
    pub(crate) fn established(&mut self) {
        self.handshake_until = None;
        self.unconfirmed = true;
    }

    pub(crate) fn confirmed(&mut self) {
        self.unconfirmed = false;
    }

    /// An authentic packet came.
    pub(crate) fn on_heard(&mut self, now: Time) {
        self.heard = now;
        self.asked = false;
    }

    /// What came was no mere answer.
    #[inline]
    pub(crate) fn on_elicited(&mut self) {
        self.held = None;
    }

    /// A datagram came that is not read any more.
    pub(crate) fn on_unread(&mut self) {
        if let LifecycleState::Closing(closing) = &mut self.state {
            closing.heard += 1;
            if closing.heard >= closing.patience {
                closing.heard = 0;
                closing.patience = closing.patience.saturating_mul(2);
                closing.due = true;
            }
        }
    }

    /// An eliciting packet went out. RFC 9000 §10.1: only the first since something was heard counts, else a
    /// sender would keep a dead path alive by itself.
    pub(crate) fn on_eliciting_sent(&mut self, now: Time) {
        self.ping = false;
        if !self.asked {
            self.asked = true;
            self.heard = now;
            self.held = None;
        }
    }

    /// A PING is owed.
    pub(crate) fn wants_ping(&self) -> bool {
        self.ping
    }

    pub(crate) fn ping(&mut self) {
        self.ping = true;
    }

    /// Since when nothing was heard, if nothing is under way that would be answered.
    pub(crate) fn silent_since(&self) -> Option<Time> {
        // As in `keep_alive_at`.
        let is_idle = self.is_open() && self.handshake_until.is_none() && !self.asked && !self.ping;
        is_idle.then_some(self.heard)
    }

    /// A PING is owed that does not restart the idle timer: nobody wants to send anything, and a peer that is
    /// gone is to be found gone as early as without it (RFC 9000 §10.1).
    pub(crate) fn ask(&mut self) {
        self.ping = true;
        self.asked = true;
    }

    /// From what was heard last the idle timeout runs on, until the peer or our application has something to
    /// say by itself. RFC 9000 §10.1 would have any packet of the peer's restart it: but of one that is asked
    /// on and on, and has nothing to say, the answers would keep the connection alive for ever, which nobody
    /// has asked for.
    pub(crate) fn hold(&mut self) {
        self.held.get_or_insert(self.heard);
    }

    /// Says farewell and stays for three PTOs to repeat it: whenever the peer shows that it has not heard it,
    /// and unasked behind each of the first two. A peer that only listens asks for nothing, and would wait
    /// for its idle timeout if the one packet were lost (RFC 9000 §10.2.1 bounds the rate, not the reasons).
    ///
    /// Before the handshake is done nothing is said unasked: the peer has something under way then that is
    /// repeated and answered, and a server has only its word that it is there.
    pub(crate) fn close(&mut self, now: Time, farewell: CloseFrame, pto: Duration, is_established: bool) {
        if self.is_open() {
            let grace = self.grace(pto);
            let (until, step) = (now + grace, grace / 3);
            self.state = LifecycleState::Closing(Box::new(Closing {
                farewell,
                said: Vec::new(),
                until,
                again: (is_established && !step.is_zero()).then(|| now + step),
                step,
                due: true,
                heard: 0,
                patience: 1,
            }));
        }
    }

    /// The peer said farewell: nothing more is sent (RFC 9000 §10.2.2).
    pub(crate) fn drain(&mut self, now: Time, pto: Duration) {
        let until = match &self.state {
            LifecycleState::Open => now + self.grace(pto),
            LifecycleState::Closing(closing) => closing.until,
            LifecycleState::Draining { .. } | LifecycleState::Drained => return,
        };
        self.state = LifecycleState::Draining { until };
    }

    /// Gone at once, without a word.
    pub(crate) fn vanish(&mut self) {
        self.state = LifecycleState::Drained;
    }

    /// The farewell, when it is due, and the datagram that it was in before.
    pub(crate) fn farewell(&self) -> Option<(&CloseFrame, &[u8])> {
        match &self.state {
            LifecycleState::Closing(closing) if closing.due => Some((&closing.farewell, &closing.said)),
            _ => None,
        }
    }

    /// It leaves in this datagram; or again in that in which it left before.
    pub(crate) fn farewell_sent(&mut self, datagram: &[u8]) {
        if let LifecycleState::Closing(closing) = &mut self.state {
            closing.due = false;
            if closing.said.is_empty() {
                closing.said = datagram.to_vec();
            }
        }
    }

    pub(crate) fn deadline(&self, pto: Duration) -> Option<(Time, Reason)> {
        match &self.state {
            LifecycleState::Open => {
                let idle = self.idle_at(pto).map(|t| (t, Reason::IdleTimeout));
                let handshake = self.handshake_at(pto).map(|t| (t, Reason::Handshake));
                let keep_alive = self.keep_alive_at().map(|t| (t, Reason::KeepAlive));
                [idle, handshake, keep_alive].into_iter().flatten().min_by_key(|(t, _)| *t)
            }
            LifecycleState::Closing(closing) => Some((closing.again.unwrap_or(closing.until), Reason::Close)),
            LifecycleState::Draining { until } => Some((*until, Reason::Close)),
            LifecycleState::Drained => None,
        }
    }

    /// RFC 9000 §10.1: at least three PTOs as they are now. The one of the handshake is that of a guessed
    /// RTT.
    fn idle_at(&self, pto: Duration) -> Option<Time> {
        self.idle_timeout.map(|t| self.held.unwrap_or(self.heard) + t.max(self.grace(pto)))
    }

    /// Three PTOs, as RFC 9000 §10.1 and §10.2 would have them of any length. But how long a round trip takes
    /// is for the peer to say: who acknowledges a packet an hour late would be waited for, and kept, for half
    /// a day. On a path on which the handshake came through in time the first PTO, of three round trips, is
    /// no longer than three times as much.
    fn grace(&self, pto: Duration) -> Duration {
        3 * pto.min(self.handshake_timeout.saturating_mul(3))
    }

    /// A server that gave up while our last flight was lost is gone without a word, and has no keys to answer
    /// our probes with. Who is not confirmed would probe for ever then, where neither side has an idle
    /// timeout. Where they have, that is what ends it: a path that goes away just before the word comes may
    /// be back by then.
    fn handshake_at(&self, pto: Duration) -> Option<Time> {
        let bound = self.handshake_timeout.max(self.idle_timeout.unwrap_or_default());
        let silent = || self.unconfirmed.then(|| self.heard + bound.max(self.grace(pto)));
        self.handshake_until.or_else(silent)
    }

    /// RFC 9000 §10.1.2: when a connection is kept from timing out, for those who want that.
    fn keep_alive_at(&self) -> Option<Time> {
        // Only once the handshake is done, and not while an answer is awaited already.
        let period =
            self.keep_alive.filter(|_| self.handshake_until.is_none() && !self.asked && !self.ping)?;
        Some(self.heard + period)
    }

    pub(crate) fn on_time(&mut self, now: Time, pto: Duration) -> Expired {
        match &mut self.state {
            LifecycleState::Open => {
                let silent = self.idle_at(pto).is_some_and(|t| t <= now);
                if silent || self.handshake_at(pto).is_some_and(|t| t <= now) {
                    self.state = LifecycleState::Drained;
                    return Expired::Silence;
                }
                if self.keep_alive_at().is_some_and(|t| t <= now) {
                    self.ping = true;
                }
                Expired::Nothing
            }
            LifecycleState::Closing(closing) => {
                closing.on_time(now);
                let until = closing.until;
                self.stays(until, now)
            }
            LifecycleState::Draining { until } => {
                let until = *until;
                self.stays(until, now)
            }
            LifecycleState::Drained => Expired::Nothing,
        }
    }

    /// Closing or draining lasts until then.
    fn stays(&mut self, until: Time, now: Time) -> Expired {
        if until > now {
            return Expired::Nothing;
        }
        self.state = LifecycleState::Drained;
        Expired::Drained
    }
}

impl Closing {
    /// It is said again when that is due, unless it has not left yet: then it does as soon as it may.
    fn on_time(&mut self, now: Time) {
        if let Some(again) = self.again.filter(|again| *again <= now) {
            self.due = true;
            // A driver that is late does not say at once, and twice, what it missed.
            self.again = Some(again.max(now) + self.step).filter(|next| *next < self.until);
        }
    }
}

impl CloseFrame {
    /// The application's words, of which no more is kept than is sent.
    pub(crate) fn application(code: u64, reason: &[u8]) -> Self {
        Self::Application { code, reason: cut(reason, MAX_WORDS).to_vec() }
    }

    /// The frame, as far as `encrypted` allows: the application's words are for 1-RTT packets only
    /// (RFC 9000 §10.2.3).
    pub(crate) fn frame(&self, one_rtt: bool, room: usize) -> Frame<'_> {
        // Type, code, frame type and length take at most 19 bytes.
        let words = room.saturating_sub(19).min(MAX_WORDS);
        match self {
            Self::Transport(error) => Frame::ConnectionClose {
                code: error.code,
                frame_type: error.frame.unwrap_or(0),
                reason: cut(error.reason.as_bytes(), words),
            },
            Self::Application { code, reason } if one_rtt => {
                Frame::ApplicationClose { code: *code, reason: cut(reason, words) }
            }
            Self::Application { .. } => Frame::ConnectionClose {
                code: TransportErrorCode::APPLICATION_ERROR,
                frame_type: 0,
                reason: &[],
            },
        }
    }
}

fn cut(bytes: &[u8], len: usize) -> &[u8] {
    &bytes[..bytes.len().min(len)]
}

/// Bytes of a reason that are sent.
const MAX_WORDS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const PTO: Duration = Duration::from_millis(100);
    const SECOND: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn open() -> Lifecycle {
        let mut life = Lifecycle::new(at(0), None, Duration::from_secs(10));
        life.established();
        life.confirmed();
        life.set_idle_timeout(Some(Duration::from_secs(30)), Duration::from_secs(1));
        life
    }

    #[test]
    fn the_smaller_idle_timeout_counts_and_sending_restarts_it_once() {
        let mut life = open();
        assert_eq!(life.deadline(PTO), Some((at(1000), Reason::IdleTimeout)));
        life.on_eliciting_sent(at(500));
        life.on_eliciting_sent(at(900));
        assert_eq!(life.deadline(PTO), Some((at(1500), Reason::IdleTimeout)), "RFC 9000 §10.1");
        life.on_heard(at(1200));
        assert_eq!(life.deadline(PTO), Some((at(2200), Reason::IdleTimeout)));
        assert_eq!(life.on_time(at(2200), PTO), Expired::Silence);
        assert!(life.is_drained());
    }

    #[test]
    fn the_idle_timeout_is_never_shorter_than_three_ptos() {
        let mut life = open();
        life.set_idle_timeout(None, Duration::from_millis(10));
        assert_eq!(life.deadline(PTO), Some((at(300), Reason::IdleTimeout)));
        let now = Some((at(10), Reason::IdleTimeout));
        assert_eq!(life.deadline(PTO / 50), now, "with the PTO of the moment");
    }

    /// The peer says how long round trips are; a handshake that may take ten seconds has none of more than
    /// that.
    #[test]
    fn round_trips_that_no_handshake_had_make_nothing_last() {
        let mut life = open();
        life.set_idle_timeout(None, Duration::from_millis(10));
        let day = Duration::from_secs(86_400);
        assert_eq!(
            life.deadline(30 * SECOND),
            Some((at(90_000), Reason::IdleTimeout)),
            "as RFC 9000 §10.1 says"
        );
        assert_eq!(life.deadline(day), Some((at(90_000), Reason::IdleTimeout)));
        life.close(at(0), CloseFrame::Application { code: 1, reason: vec![] }, day, false);
        assert_eq!(life.deadline(day), Some((at(90_000), Reason::Close)));
        let mut life = open();
        life.drain(at(0), day);
        assert_eq!(life.deadline(day), Some((at(90_000), Reason::Close)));
    }

    #[test]
    fn silence_is_bounded_until_the_handshake_is_confirmed() {
        let mut life = Lifecycle::new(at(0), None, Duration::from_secs(10));
        assert_eq!(life.deadline(PTO), Some((at(10_000), Reason::Handshake)));
        life.on_heard(at(9000));
        assert_eq!(life.deadline(PTO), Some((at(10_000), Reason::Handshake)), "who talks on is no better");
        life.established();
        assert_eq!(life.deadline(PTO), Some((at(19_000), Reason::Handshake)));
        life.on_eliciting_sent(at(9500));
        life.on_eliciting_sent(at(9900));
        life.on_heard(at(9600));
        assert_eq!(life.deadline(PTO), Some((at(19_600), Reason::Handshake)));
        assert_eq!(life.deadline(PTO * 40), Some((at(21_600), Reason::Handshake)), "three PTOs at least");
        // An outage just then is no worse than one behind it.
        life.set_idle_timeout(Some(Duration::from_secs(30)), Duration::ZERO);
        assert_eq!(
            life.deadline(PTO).map(|(at, _)| at),
            Some(at(39_600)),
            "what was heard last, and the timeout"
        );
        life.set_idle_timeout(None, Duration::ZERO);
        life.confirmed();
        assert_eq!(life.deadline(PTO), None);
    }

    /// RFC 9000 §10.2.1.
    #[test]
    fn a_farewell_is_repeated_ever_less_often() {
        let mut life = open();
        life.close(at(0), CloseFrame::Application { code: 1, reason: vec![] }, PTO, true);
        let mut answers = Vec::new();
        for n in 0..40 {
            if life.farewell().is_some() {
                answers.push(n);
                life.farewell_sent(&[n as u8]);
            }
            assert!(!life.listens());
            life.on_unread();
        }
        assert_eq!(answers, [0, 1, 3, 7, 15, 31]);
        assert_eq!(life.on_time(at(300), PTO), Expired::Drained);
    }

    /// RFC 9000 §10.2.1: a bounded number of them, and none in a handshake.
    #[test]
    fn a_farewell_is_said_three_times_to_who_says_nothing() {
        for (is_established, expected) in [(true, &[0, 100, 200][..]), (false, &[0])] {
            let mut life = open();
            life.close(at(0), CloseFrame::Application { code: 1, reason: vec![] }, PTO, is_established);
            let (mut now, mut said) = (at(0), Vec::new());
            loop {
                if life.farewell().is_some() {
                    said.push(now.as_nanos() / 1_000_000);
                    life.farewell_sent(b"bye");
                }
                let (next, reason) = life.deadline(PTO).expect("until it is drained");
                assert_eq!(reason, Reason::Close);
                assert!(next > now, "{now} {next}");
                now = next;
                if life.on_time(now, PTO) == Expired::Drained {
                    break;
                }
            }
            assert_eq!((said.as_slice(), now), (expected, at(300)));
        }
        // A driver that slept over both says it once.
        let mut life = open();
        life.close(at(0), CloseFrame::Application { code: 1, reason: vec![] }, PTO, true);
        life.farewell_sent(b"bye");
        assert_eq!(life.on_time(at(250), PTO), Expired::Nothing);
        assert!(life.farewell().is_some());
        life.farewell_sent(b"");
        assert_eq!(life.deadline(PTO), Some((at(300), Reason::Close)));
    }

    /// RFC 9000 §10.1.2, §19.2.
    #[test]
    fn keep_alive_pings_while_nothing_is_awaited() {
        let mut life = open();
        life.keep_alive = Some(Duration::from_millis(400));
        assert_eq!(life.deadline(PTO), Some((at(400), Reason::KeepAlive)));
        life.on_time(at(400), PTO);
        assert!(life.wants_ping());
        life.on_eliciting_sent(at(400));
        assert_eq!(life.deadline(PTO), Some((at(1400), Reason::IdleTimeout)));
    }

    /// RFC 9000 §10.2.3.
    #[test]
    fn the_applications_words_stay_out_of_the_handshake() {
        let bye = CloseFrame::Application { code: 7, reason: b"secret".to_vec() };
        assert!(matches!(bye.frame(false, 1000), Frame::ConnectionClose { reason: b"", .. }));
        assert!(matches!(bye.frame(true, 1000), Frame::ApplicationClose { code: 7, reason: b"secret" }));
        assert!(matches!(bye.frame(true, 21), Frame::ApplicationClose { code: 7, reason: b"se" }));
    }
}
