use quickset_base::{Batch, Input, Machine, Poll, Time};

/// A machine of one of two kinds, for worlds whose nodes differ; a third kind is an `Either` of an `Either`.
///
/// ```
/// use quickset_sim::{Either, LinkSpec, TrafficPace, TrafficSink, TrafficSource, PacketTraffic, World, address};
/// # use quickset_base::{Duration, Time};
/// let mut world = World::new(1);
/// let pace = TrafficPace::constant(1_000_000);
/// let traffic = PacketTraffic { stop: Some(Time::from_millis(100)), ..PacketTraffic::new(address(2), 1250, pace) };
/// world.add("source", address(1), Either::Left(TrafficSource::new(traffic, 1)));
/// let sink = world.add("sink", address(2), Either::Right(TrafficSink::new(Duration::from_millis(10))));
/// world.join(address(1), address(2), LinkSpec::default(), LinkSpec::default());
/// world.run(Time::MAX)?;
/// // A packet of 10,000 bits every 10 ms, from 0 to 90 ms.
/// assert_eq!(world.node(sink).right().unwrap().packets(), 10);
/// # Ok::<(), quickset_sim::Livelock>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first kind.
    Left(A),
    /// The second kind.
    Right(B),
}

impl<A, B> Either<A, B> {
    /// The machine, if it is of the first kind.
    pub fn left(&self) -> Option<&A> {
        match self {
            Self::Left(a) => Some(a),
            Self::Right(_) => None,
        }
    }

    /// The machine, if it is of the second kind.
    pub fn right(&self) -> Option<&B> {
        match self {
            Self::Left(_) => None,
            Self::Right(b) => Some(b),
        }
    }

    /// The machine, to call its verbs, if it is of the first kind.
    pub fn left_mut(&mut self) -> Option<&mut A> {
        match self {
            Self::Left(a) => Some(a),
            Self::Right(_) => None,
        }
    }

    /// The machine, to call its verbs, if it is of the second kind.
    pub fn right_mut(&mut self) -> Option<&mut B> {
        match self {
            Self::Left(_) => None,
            Self::Right(b) => Some(b),
        }
    }
}

impl<A: Machine, B: Machine> Machine for Either<A, B> {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        match self {
            Self::Left(a) => a.handle(now, input),
            Self::Right(b) => b.handle(now, input),
        }
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        match self {
            Self::Left(a) => a.poll(now, out),
            Self::Right(b) => b.poll(now, out),
        }
    }
}
