use quickset_quic::{DatagramOutcome, DatagramTicket};

use crate::tickets::Tickets;
use crate::wakers::Crowd;

/// Who waits for datagrams of a connection.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) readers: Crowd,
    pub(crate) writers: Crowd,
    pub(crate) tickets: Tickets<DatagramTicket, DatagramOutcome>,
}
