use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use quickset_base::Time;
use quickset_base::number::Unsigned as _;

use super::round::RoundTrip;
use crate::format::{FencedPlace, memory_of};

/// Messages that are not known to have arrived, by number, and the repairs over them.
#[derive(Debug, Default)]
pub(super) struct FencedFlights {
    base: u64,
    flights: VecDeque<FencedFlight>,
    /// Those of them that have not arrived, and the memory of those that were not given up either.
    open: u64,
    memory: usize,
    /// The number behind the highest that was sent.
    sent: u64,
    /// Datagrams sent.
    order: u64,
    /// When the last one was.
    last: Option<Time>,
    /// The newest datagram that is known to have arrived.
    newest: Option<SentDatagramAt>,
    repairs: VecDeque<RepairFlight>,
}

#[derive(Debug)]
struct FencedFlight {
    behind: u64,
    bytes: usize,
    /// `None` once it has arrived, or is given up.
    payload: Option<Bytes>,
    keep: bool,
    /// It is of no use any more, and may have arrived.
    expired: bool,
    gone: bool,
    state: FlightState,
    /// When it was sent last, and how often.
    sent: Option<SentDatagramAt>,
    times: u32,
    /// It was counted as lost.
    counted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlightState {
    Queued,
    Flying,
    /// Lost. A repair under way may replace it.
    Covered,
    /// Lost. Somebody sends it again.
    Again,
    Arrived,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SentDatagramAt {
    order: u64,
    at: Time,
}

#[derive(Debug)]
struct RepairFlight {
    covers: Range<u64>,
    sent: SentDatagramAt,
}

/// What a report says that is news.
#[derive(Debug, Default)]
pub(super) struct Landed {
    /// Messages that have arrived, but for those that were given up.
    pub(super) numbers: Vec<u64>,
    /// How many of them were sent once, and not taken for lost.
    pub(super) first_time: u64,
    /// How many of them were sent once, and taken for lost: repair has replaced them.
    pub(super) covered: u64,
    /// Something has arrived, though it may have been given up.
    pub(super) any: bool,
    newest: Option<SentDatagramAt>,
}

/// A message that is to be sent again, or given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LostFlight {
    pub(super) number: u64,
    pub(super) keep: bool,
}

/// What is lost by now.
#[derive(Debug, Default)]
pub(super) struct LostFlights {
    /// To be sent again, or given up: no repair under way is likely to replace them.
    pub(super) flights: Vec<LostFlight>,
    /// How many messages were not known to be lost before. Those of a probe timeout are not among them.
    pub(super) news: u64,
    /// A probe timeout has passed.
    pub(super) timed_out: bool,
}

impl FencedFlights {
    /// The lowest number that is not known to have arrived.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// The number behind the highest that was sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    pub(super) fn outstanding(&self) -> u64 {
        self.open
    }

    /// What a receiver needs at most to hold what it has, and may still get.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Whether a number is not known to have arrived.
    pub(super) fn is_open(&self, number: u64) -> bool {
        self.get(number).is_some_and(|flight| flight.state != FlightState::Arrived)
    }

    /// The next number is a message that waits.
    pub(super) fn queue(&mut self, behind: u64, payload: Bytes, keep: bool) {
        self.open += 1;
        self.memory += memory_of(payload.len());
        self.flights.push_back(FencedFlight {
            behind,
            bytes: payload.len(),
            payload: Some(payload),
            keep,
            expired: false,
            gone: false,
            state: FlightState::Queued,
            sent: None,
            times: 0,
            counted: false,
        });
    }

    /// The next number is given up from the beginning: it is only to be told of.
    pub(super) fn queue_gone(&mut self, behind: u64) {
        self.queue(behind, Bytes::new(), true);
        self.abandon(self.base + self.flights.len() as u64 - 1);
    }

    /// How long a message is, or was when it was queued.
    pub(super) fn bytes(&self, number: u64) -> usize {
        self.get(number).map_or(0, |flight| flight.bytes)
    }

    /// Takes note that a message is sent now; its payload, unless it is gone.
    pub(super) fn send(&mut self, now: Time, number: u64) -> (FencedPlace, Option<Bytes>) {
        let sent = self.count(now);
        self.sent = self.sent.max(number + 1);
        let flight = self.get_mut(number).expect("what is queued has not arrived");
        flight.state = FlightState::Flying;
        flight.sent = Some(sent);
        flight.times += 1;
        (FencedPlace { number, behind: flight.behind }, flight.payload.clone())
    }

    /// Takes note that a repair is sent now.
    pub(super) fn covered(&mut self, now: Time, covers: Range<u64>) {
        let sent = self.count(now);
        self.repairs.push_back(RepairFlight { covers, sent });
    }

    /// Repairs that may still replace something.
    pub(super) fn repairs_under_way(&self) -> u32 {
        self.repairs.len().saturated()
    }

    /// Gives a message up. False when it is over already.
    pub(super) fn abandon(&mut self, number: u64) -> bool {
        let Some(flight) = self.get_mut(number) else { return false };
        if flight.gone || flight.state == FlightState::Arrived {
            return false;
        }
        (flight.gone, flight.payload) = (true, None);
        if flight.state != FlightState::Queued {
            flight.state = FlightState::Again;
        }
        let bytes = flight.bytes;
        self.memory -= memory_of(bytes);
        true
    }

    /// Takes note that a message is of no use when it is sent from now on. True when it waits to be sent, and
    /// is to be given up.
    pub(super) fn expire(&mut self, number: u64) -> bool {
        let Some(flight) = self.get_mut(number) else { return false };
        (flight.keep, flight.expired) = (false, true);
        matches!(flight.state, FlightState::Queued | FlightState::Again)
    }

    /// These have arrived.
    pub(super) fn land(&mut self, numbers: Range<u64>, landed: &mut Landed) {
        for number in numbers.start.max(self.base)..numbers.end.min(self.sent) {
            let place = self.place(number);
            let Some(flight) = place.and_then(|place| self.flights.get_mut(place)) else { continue };
            if flight.state == FlightState::Arrived {
                continue;
            }
            flight.state = FlightState::Arrived;
            flight.payload = None;
            self.open -= 1;
            landed.any = true;
            // Of one that was sent again nobody knows which has arrived; repair may have replaced a lost one.
            let once = flight.times == 1;
            if once && !flight.counted && flight.sent.map(|at| at.order) > landed.newest.map(|at| at.order) {
                landed.newest = flight.sent;
            }
            if flight.gone {
                continue;
            }
            self.memory -= memory_of(flight.bytes);
            landed.numbers.push(number);
            if once {
                *(if flight.counted { &mut landed.covered } else { &mut landed.first_time }) += 1;
            }
        }
    }

    /// All of a report has [`land`](Self::land)ed.
    pub(super) fn settle(&mut self, landed: &Landed) {
        if landed.newest.map(|sent| sent.order) > self.newest.map(|sent| sent.order) {
            self.newest = landed.newest;
        }
        while self.flights.front().is_some_and(|flight| flight.state == FlightState::Arrived) {
            self.flights.pop_front();
            self.base += 1;
        }
        let base = self.base;
        self.repairs.retain(|repair| repair.covers.end > base);
    }

    /// When a message was sent, if that was once.
    pub(super) fn only_sent(&self, number: u64) -> Option<Time> {
        self.get(number).filter(|flight| flight.times == 1).and_then(|flight| flight.sent).map(|sent| sent.at)
    }

    /// What is lost by now.
    pub(super) fn lost(&mut self, now: Time, round: &mut RoundTrip) -> LostFlights {
        let news = self.overtaken(now, round);
        let mut flights = self.uncovered(now, round);
        let timed_out = self.timeout(round).is_some_and(|at| at <= now);
        if timed_out {
            round.timed_out();
            self.last = Some(now);
            let is_open = |flight: &&mut FencedFlight| {
                matches!(flight.state, FlightState::Flying | FlightState::Covered)
            };
            let mut open = self.flights.iter_mut().zip(self.base..);
            if let Some((flight, number)) = open.find(|(flight, _)| is_open(flight)) {
                flight.state = FlightState::Again;
                // It may have arrived: it is no reason to give it up, unless it would come too late.
                flights.push(LostFlight { number, keep: !flight.expired });
            }
        }
        LostFlights { flights, news, timed_out }
    }

    /// When [`lost`](Self::lost) may say something, if nothing happens.
    pub(super) fn deadline(&self, round: &RoundTrip) -> Option<Time> {
        let newest = self.newest.map_or(0, |newest| newest.order);
        let is_late = |flight: &&FencedFlight| {
            flight.state == FlightState::Flying && flight.sent.is_some_and(|sent| sent.order < newest)
        };
        let late = self.flights.iter().filter(is_late).filter_map(|flight| flight.sent);
        let late = late.map(|sent| sent.at + round.patience()).min();
        let waits = self.flights.iter().any(|flight| flight.state == FlightState::Covered);
        let repair =
            self.repairs.iter().filter(|_| waits).map(|repair| repair.sent.at + round.patience()).min();
        [late, repair, self.timeout(round)].into_iter().flatten().min()
    }

    /// Marks what others have overtaken as lost, and counts it. RFC 9002 §6.1.
    fn overtaken(&mut self, now: Time, round: &RoundTrip) -> u64 {
        let Some(newest) = self.newest else { return 0 };
        let mut news = 0;
        for flight in self.flights.iter_mut().filter(|flight| flight.state == FlightState::Flying) {
            let Some(sent) = flight.sent.filter(|sent| sent.order < newest.order) else { continue };
            if sent.order + REORDERING <= newest.order || sent.at + round.patience() <= now {
                flight.state = FlightState::Covered;
                news += u64::from(!std::mem::replace(&mut flight.counted, true));
            }
        }
        news
    }

    /// Those among the lost for which there is no repair: each replaces one.
    fn uncovered(&mut self, now: Time, round: &RoundTrip) -> Vec<LostFlight> {
        let newest = self.newest.map_or(0, |newest| newest.order);
        self.repairs.retain(|repair| {
            repair.sent.order + REORDERING > newest && repair.sent.at + round.patience() > now
        });
        let mut used = vec![false; self.repairs.len()];
        let mut lost = Vec::new();
        for (number, flight) in (self.base..).zip(&mut self.flights) {
            if flight.state != FlightState::Covered {
                continue;
            }
            let repairs = self.repairs.iter().zip(&mut used);
            let mut free = repairs.filter(|(repair, used)| !**used && repair.covers.contains(&number));
            // Nothing replaces GONE, of which there is no symbol.
            if let Some((_, used)) = free.next().filter(|_| !flight.gone) {
                *used = true;
            } else {
                flight.state = FlightState::Again;
                lost.push(LostFlight { number, keep: flight.keep || flight.gone });
            }
        }
        lost
    }

    /// The probe timeout, while something is under way.
    fn timeout(&self, round: &RoundTrip) -> Option<Time> {
        let is_open =
            |flight: &FencedFlight| matches!(flight.state, FlightState::Flying | FlightState::Covered);
        self.last.filter(|_| self.flights.iter().any(is_open)).map(|last| round.timeout(last))
    }

    fn count(&mut self, now: Time) -> SentDatagramAt {
        self.order += 1;
        self.last = Some(now);
        SentDatagramAt { order: self.order, at: now }
    }

    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.base)?).ok()
    }

    fn get(&self, number: u64) -> Option<&FencedFlight> {
        self.flights.get(self.place(number)?)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut FencedFlight> {
        let place = self.place(number)?;
        self.flights.get_mut(place)
    }
}

/// RFC 9002 §6.1.1.
const REORDERING: u64 = 3;
