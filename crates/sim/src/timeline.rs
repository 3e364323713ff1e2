use core::time::Duration;
use std::net::SocketAddr;

use quickset_base::Time;

use crate::network::LinkId;
use crate::spec::LinkSpec;
use crate::world::NodeId;

/// What happens in a world and when, as data; [`World::play`](crate::World::play) has it happen.
///
/// What happens at one time happens in the order in which it was written, and before the packets and
/// timers of that time.
///
/// ```
/// # use quickset_base::{Duration, Time};
/// use quickset_sim::{Happening, Timeline, address};
/// let rebinding = |old, new| Happening::Rebind { old: address(old), new: address(new) };
/// let timeline = Timeline::new()
///     .at(Time::from_millis(200), rebinding(1, 101))
///     .at(Time::from_millis(400), rebinding(101, 102));
/// assert_eq!(timeline.happenings().len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline(Vec<(Time, Happening)>);

impl Timeline {
    /// Nothing happens.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Lets something happen; times need not rise. What lies in the past happens at once.
    #[must_use]
    pub fn at(mut self, time: Time, event: Happening) -> Self {
        self.0.push((time, event));
        self
    }

    /// All that happens, as written.
    pub fn happenings(&self) -> &[(Time, Happening)] {
        &self.0
    }

    pub(crate) fn into_happenings(self) -> Vec<(Time, Happening)> {
        self.0
    }
}

/// A thing that happens to a world from outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// A NAT takes another binding: [`World::rebind`](crate::World::rebind).
    Rebind {
        /// What the others call the address.
        old: SocketAddr,
        /// What they call it from then on.
        new: SocketAddr,
    },
    /// A node changes to another interface: [`World::change_interface`](crate::World::change_interface).
    Interface {
        /// The address that it gives up.
        old: SocketAddr,
        /// The one that it has from then on.
        new: SocketAddr,
        /// The ways from and to the new address.
        ways: Vec<LinkWay>,
    },
    /// Packets take another way from then on: [`World::route_through`](crate::World::route_through).
    Route(LinkWay),
    /// A node is not there for a while: [`World::suspend`](crate::World::suspend).
    Suspend {
        /// Which.
        node: NodeId,
        /// For how long.
        pause: Duration,
    },
    /// A link changes: [`Link::change`](crate::Link::change).
    Link {
        /// Which.
        link: LinkId,
        /// What it is from then on.
        spec: LinkSpec,
    },
}

/// The links between two addresses, one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkWay {
    /// From where.
    pub from: SocketAddr,
    /// To where.
    pub to: SocketAddr,
    /// Over which links, in order.
    pub links: Vec<LinkId>,
}
