use quickset_quic::{DatagramOutcome, DatagramTicket};

use crate::tickets::OutcomeTickets;
use crate::wakers::Crowd;

/// Who waits for datagrams of a connection.
#[derive(Debug, Default)]
pub(crate) struct WaitingTasks {
    pub(crate) readers: Crowd,
    pub(crate) writers: Crowd,
    /// Until few enough bytes are unsent, and the most that one of them waits for.
    pub(crate) drainers: Crowd,
    pub(crate) low: usize,
    pub(crate) tickets: OutcomeTickets<DatagramTicket, DatagramOutcome>,
}
