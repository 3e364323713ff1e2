use quickset_quic::{DatagramOutcome, DatagramTicket};

use crate::tickets::OutcomeTickets;
use crate::wakers::Crowd;

/// Who waits for datagrams of a connection.
#[derive(Debug, Default)]
pub(crate) struct WaitingTasks {
    pub(crate) readers: Crowd,
    pub(crate) writers: Crowd,
    pub(crate) tickets: OutcomeTickets<DatagramTicket, DatagramOutcome>,
}
