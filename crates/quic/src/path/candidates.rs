use quickset_base::{AddressPair as Address, Rng, SleepyRng, Time};

use super::{AddressProof, Marking, PathProbe, Search};
use crate::cc::{Congestion, Pacer};
use crate::protect::Losses;
use crate::recovery::Rtt;

/// The candidate paths, beside the one in use: where the peer was seen, where we would like to go, and where
/// we come from.
///
/// At most [`MAX_CANDIDATES`], each for a few probe timeouts.
#[derive(Debug)]
pub(crate) struct Candidates {
    others: Vec<Candidate>,
    /// The datagram that is being read, when it did not come on the path in use.
    pub(crate) arrival: Option<CandidateArrival>,
    /// When something is to be done; not later than that. The end of time: never.
    due: Time,
    /// Until then the peer is not believed to have moved before it has answered a challenge.
    pub(crate) wary_until: Time,
    /// The number of our id that the peer uses on the path in use; `None` when that is not known.
    pub(crate) peer_uses: Option<u64>,
    /// Of the last path that could not be validated.
    pub(crate) kept: Option<KeptId>,
    /// The path that the application was told of last.
    pub(crate) told: u8,
    /// The server's preferred address is in use.
    pub(crate) preferred: bool,
    /// The client was followed to another address within the handshake, which proves nothing of that one.
    pub(crate) strayed: bool,
    numbers: u8,
    /// What challenges are drawn from; made when the first is.
    rng: Option<SleepyRng>,
}

/// A path that is not in use.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) address: Address,
    pub(crate) role: CandidateRole,
    /// The peer's id that is ours to use there; `None`: the one of the path in use.
    pub(crate) cid: Option<u64>,
    /// The number of our id that the peer used there.
    pub(crate) peer_uses: Option<u64>,
    pub(crate) proof: AddressProof,
    pub(crate) probe: PathProbe,
    /// Names the path for loss detection.
    pub(crate) number: u8,
    /// What was known of a path that was in use.
    pub(crate) saved: Option<Box<Saved>>,
    /// Forgotten then.
    pub(crate) until: Time,
}

/// An id for a peer that could not be reached where it was seen. Were it retired, and another one used where
/// the peer is seen next, we would run out of them as long as nothing that we send arrives, the word of what
/// we retired included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptId {
    /// The number of our id that the peer used there.
    pub(crate) peer_uses: u64,
    /// The number of the peer's.
    pub(crate) cid: u64,
}

/// Why a path is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CandidateRole {
    /// The peer sent from there.
    Seen,
    /// We want to go there.
    Ours,
    /// It was in use, and will be again if the one in use fails.
    Fallback,
    /// It was in use and cannot be again; only its id is kept for what is under way.
    Gone,
}

/// The state of a path that another one must not inherit (RFC 9000 §9.4).
#[derive(Debug)]
pub(crate) struct Saved {
    pub(crate) congestion: Box<dyn Congestion>,
    pub(crate) pacer: Pacer,
    pub(crate) rtt: Rtt,
    pub(crate) ecn: Marking,
    pub(crate) losses: Losses,
    pub(crate) mtu: usize,
    pub(crate) search: Option<Box<Search>>,
}

/// A datagram from elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CandidateArrival {
    pub(crate) address: Address,
    pub(crate) size: usize,
    /// The number of our id that it was sent to.
    pub(crate) to: Option<u64>,
    /// An authentic packet was in it.
    pub(crate) is_known: bool,
}

impl Candidates {
    pub(crate) fn new() -> Self {
        Self {
            others: Vec::new(),
            arrival: None,
            due: Time::MAX,
            wary_until: Time::ZERO,
            peer_uses: Some(0),
            kept: None,
            told: 0,
            preferred: false,
            strayed: false,
            numbers: 0,
            rng: None,
        }
    }

    /// Nothing is sent for a while.
    pub(crate) fn sleep(&mut self) {
        self.others.shrink_to_fit();
        self.rng.iter_mut().for_each(SleepyRng::sleep);
    }

    /// The path that a datagram came on, if it is one of these.
    pub(crate) fn find(&self, from: &Address) -> Option<usize> {
        let same =
            |candidate: &Candidate| candidate.role != CandidateRole::Gone && takes(&candidate.address, from);
        self.others.iter().position(same)
    }

    /// Whether a datagram that the path in use would take as well came on one of these.
    #[inline]
    pub(crate) fn claims(&self, from: &Address) -> bool {
        !self.others.is_empty()
            && self
                .others
                .iter()
                .any(|candidate| candidate.address.local.is_some() && takes(&candidate.address, from))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.others.len()
    }

    pub(crate) fn get(&self, at: usize) -> &Candidate {
        &self.others[at]
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> &mut Candidate {
        &mut self.others[at]
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Candidate> {
        self.others.iter_mut()
    }

    /// The first that is so.
    pub(crate) fn position(&self, is: impl Fn(&Candidate) -> bool) -> Option<usize> {
        self.others.iter().position(is)
    }

    pub(crate) fn remove(&mut self, at: usize) -> Candidate {
        self.others.remove(at)
    }

    /// The id that goes with packets to our id number `to`, where the peer moved without taking another
    /// itself (RFC 9000 §9.5).
    pub(crate) fn paired(&self, to: u64) -> Option<u64> {
        let kept = self.kept.filter(|kept| kept.peer_uses == to).map(|kept| kept.cid);
        kept.or_else(|| self.others.iter().find(|candidate| candidate.peer_uses == Some(to))?.cid)
    }

    /// Adds a path; returns the one that had to make room: the oldest that is only seen.
    pub(crate) fn add(&mut self, candidate: Candidate) -> Option<Candidate> {
        let full = self.others.len() >= MAX_CANDIDATES;
        let oldest = || {
            self.others
                .iter()
                .position(|w| w.role == CandidateRole::Seen)
                .or_else(|| self.position(|w| w.role == CandidateRole::Gone))
        };
        let evicted = if full { oldest() } else { None }.map(|at| self.others.remove(at));
        self.others.push(candidate);
        evicted
    }

    /// A number for a path, not that of any other in living memory.
    pub(crate) fn number(&mut self) -> u8 {
        self.numbers = self.numbers % LAST_NUMBER + 1;
        self.numbers
    }

    /// Data for a challenge. `fork` makes what it is drawn from.
    pub(crate) fn draw(&mut self, fork: impl FnOnce() -> Rng) -> [u8; 8] {
        self.rng.get_or_insert_with(|| fork().into()).awake().next().to_le_bytes()
    }

    /// Something may be due: it is looked at before anything else happens.
    pub(crate) fn stir(&mut self) {
        self.due = Time::ZERO;
    }

    /// Whether to look.
    #[inline]
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.due <= now
    }

    /// When to look; `None`: never.
    #[inline]
    pub(crate) fn due(&self) -> Option<Time> {
        (self.due < Time::MAX).then_some(self.due)
    }

    /// Whether there is anything to look at.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.due == Time::MAX
    }

    /// The peer retired our id of this number. Where it used that it goes on with another; which one it has
    /// not shown.
    pub(crate) fn on_retired(&mut self, sequence: u64) {
        let others = self.others.iter_mut().map(|candidate| &mut candidate.peer_uses);
        for peer_uses in others.chain([&mut self.peer_uses]) {
            *peer_uses = peer_uses.filter(|uses| *uses != sequence);
        }
    }

    /// Works out when to look again; `in_use` is when the path in use wants it, which is not `settled` as
    /// long as it may have to be left again.
    pub(crate) fn rest(&mut self, in_use: Option<Time>, settled: bool) {
        let of = |candidate: &Candidate| {
            let until = (candidate.role != CandidateRole::Fallback || settled).then_some(candidate.until);
            until.into_iter().chain(candidate.probe.due(candidate.proof.budget() >= LEAST)).min()
        };
        self.due = self.others.iter().filter_map(of).chain(in_use).min().unwrap_or(Time::MAX);
    }

    pub(crate) fn check(&self) {
        // One that we come from and one that we go to are never evicted.
        debug_assert!(self.others.len() <= MAX_CANDIDATES + 2);
        for candidate in &self.others {
            candidate.probe.check();
            candidate.proof.check();
        }
    }
}

/// Whether a datagram from `from` belongs to `path`: an end that is not named is any.
#[inline]
pub(super) fn takes(path: &Address, from: &Address) -> bool {
    path.remote == from.remote && (path.local.is_none() || from.local.is_none() || path.local == from.local)
}

/// Bytes that hold a header, a tag, and a challenge or a short ACK frame.
pub(crate) const LEAST: usize = 64;

/// Paths that the peer can make us remember.
const MAX_CANDIDATES: usize = 4;

/// Loss detection has one more, for packets that are on no path in use.
const LAST_NUMBER: u8 = 250;
