use quickset_base::{Duration, Time};

use super::lane::ReviewPatience;
use crate::protect::policy::{self, CodingView, Demand, LaneView};

/// What a channel's policy is told, but for what the lanes know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlook<'a> {
    pub(crate) now: Time,
    pub(crate) loss: policy::PathLoss,
    pub(crate) belief: &'a policy::Belief,
    pub(crate) demand: Demand,
    pub(crate) deadlines: &'a dyn policy::OpenDeadlines,
    pub(crate) rtt: Duration,
    pub(crate) min_rtt: Duration,
    pub(crate) rtt_var: Duration,
    pub(crate) pto: Duration,
    pub(crate) ack_delay: Duration,
    pub(crate) cwnd: u64,
    pub(crate) in_flight: u64,
    pub(crate) others_wait: bool,
    pub(crate) crowded_out: f64,
    pub(crate) surely_crowded_out: f64,
    pub(crate) hit: f64,
    pub(crate) feedback: bool,
    pub(crate) confirmed: bool,
}

impl<'a> Outlook<'a> {
    pub(super) fn view(&self, lanes: &[LaneView; policy::MAX_LANES]) -> CodingView<'a> {
        let Self { now, loss, belief, demand, deadlines, .. } = *self;
        CodingView {
            now,
            loss,
            belief,
            lanes: *lanes,
            demand,
            deadlines,
            rtt: self.rtt,
            min_rtt: self.min_rtt,
            rtt_var: self.rtt_var,
            pto: self.pto,
            ack_delay: self.ack_delay,
            cwnd: self.cwnd,
            in_flight: self.in_flight,
            others_wait: self.others_wait,
            crowded_out: self.crowded_out,
            surely_crowded_out: self.surely_crowded_out,
            hit: self.hit,
            feedback: self.feedback,
            confirmed: self.confirmed,
        }
    }

    pub(super) fn patience(&self, sensitivity: f64) -> ReviewPatience {
        let wait = self.rtt + self.rtt / 8 + self.ack_delay;
        ReviewPatience { now: self.now, wait, ahead: self.rtt / 2, rate: self.loss.rate, sensitivity }
    }
}
