use quickset_base::Time;

use super::Congestion;
use super::bbr::Bbr;
use super::cubic::Cubic;
use super::fixed::Fixed;

/// Which congestion controller a connection uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// BBR (draft-ietf-ccwg-bbr): keeps its rate under random loss.
    Bbr,
    /// A fixed sending rate in bits per second that heeds no congestion: for experiments on links of your own.
    Fixed(u64),
}

impl Algorithm {
    /// A controller at its start, for a path that takes UDP payloads of `mtu` bytes.
    pub fn build(self, mtu: u64, now: Time) -> Box<dyn Congestion> {
        match self {
            Self::Cubic => Box::new(Cubic::new(mtu, now)),
            Self::Bbr => Box::new(Bbr::new(mtu, now)),
            Self::Fixed(bits_per_second) => Box::new(Fixed::new(bits_per_second, mtu)),
        }
    }
}
