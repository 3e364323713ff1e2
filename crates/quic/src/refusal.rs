use std::fmt;

/// What the system said to datagrams that it did not take, or that the network sent back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemRefusal {
    /// What stands in the way.
    pub obstacle: Obstacle,
    /// The system's own words.
    pub words: String,
}

/// What stands in the way of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Obstacle {
    /// They are larger than what the interface takes.
    Size,
    /// No route leads to the address, the interface is down, or nobody there is known by it.
    Route,
    /// A rule of this system, or of one on the way, forbids it.
    Rule,
    /// There is no room now.
    Room,
    /// The address that they were to leave from is not one of this system's, or not any more.
    Source,
    /// The host is there, and nothing listens on the port.
    Port,
    /// Something else.
    Other,
}

impl Obstacle {
    /// What to do about it, for people.
    fn step(self) -> &'static str {
        match self {
            Self::Size => "datagrams of 1200 bytes have to pass: raise the MTU of the interface",
            Self::Route => "check the address, and whether this machine is connected to its network",
            Self::Rule => "check the firewall and the routes of this machine",
            Self::Room => "the queue of the interface does not empty: check the network",
            Self::Source => "the address that the socket is bound to is gone: bind it to another, or to all",
            Self::Port => "check the port, and whether the server runs",
            Self::Other => "check the network of this machine",
        }
    }
}

impl fmt::Display for SystemRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.obstacle == Obstacle::Port {
            "the peer's host refuses"
        } else {
            "the system refuses to send"
        };
        write!(f, "{whose}: {}; {}", self.words, self.obstacle.step())
    }
}
