//! Forward erasure correction around the application's data: what joins symbols, what packets are for, what
//! comes of symbols that were lost.
//!
//! *In:* the traffic, which is written through here while anything is protected, and what is known of the
//! path. *Out:* frames. [`Protect`] knows neither; here they meet.

mod data;
mod plan;
mod slots;

use quickset_base::Time;

use crate::common::Common;
use crate::link::PacketLink;
use crate::protect::Protect;
use crate::traffic::Traffic;
pub(crate) use plan::BatchPlan;

/// What is protected, and what there is to know of the path that it takes.
pub(crate) struct Around<'a> {
    pub(crate) cx: &'a Common,
    pub(crate) link: &'a PacketLink,
    pub(crate) traffic: &'a mut Traffic,
}

impl Protect {
    /// Tokens that are not held any more are lost.
    pub(crate) fn drain(&mut self, traffic: &mut Traffic, now: Time) {
        while let Some(token) = self.send.orphan() {
            traffic.lost(token, now);
        }
    }

    /// Datagrams are smaller than they were.
    #[cold]
    pub(crate) fn recode(&mut self, traffic: &mut Traffic, now: Time) {
        // FEC-52, rule 7.
        self.send.release_all();
        self.send.shrink();
        self.send.stir();
        self.drain(traffic, now);
    }
}
