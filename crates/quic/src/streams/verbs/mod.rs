//! What the application does with streams.

mod facts;
mod messages;
mod recv;
mod send;

use quickset_sched::Priority;
use quickset_wire::{Dir, StreamId};

use super::event::StreamEvent;
use super::{ClassError, Streams, news, told};
use crate::packet::StreamKey;

impl Streams {
    /// Opens a stream, or `None` when the peer allows no more; [`StreamEvent::Available`] tells when.
    pub(crate) fn open(&mut self, dir: Dir) -> Option<StreamId> {
        let id = self.limits.open(dir)?;
        self.create(id);
        Some(id)
    }

    /// The next stream that the peer opened, in the order of ids.
    pub(crate) fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        let id = self.limits.accept(dir)?;
        let (key, stream) = self.slab.by_id_mut(id).expect("a stream keeps its slot until it is accepted");
        stream.accepted = true;
        if stream.events == 0 {
            // It may have been read, or given up, to its end before.
            self.settle(key);
        } else {
            stream.tell(0, &mut self.events);
        }
        Some(id)
    }

    /// The peer takes RESET_STREAM_AT.
    pub(crate) fn has_reset_at(&self) -> bool {
        self.initial.reset_at
    }

    /// Changes what a class is among its siblings.
    pub(crate) fn set_class_priority(&mut self, path: &[&str], priority: Priority) -> Result<(), ClassError> {
        self.turns.set_class_priority(path, priority)
    }

    /// The next thing to tell the application. A stream that is over is let go with its last event, so
    /// events are to be collected even by those who do not care.
    pub(crate) fn next_event(&mut self) -> Option<StreamEvent> {
        if self.news != 0 {
            return Some(self.next_news());
        }
        while let Some(&key) = self.events.front() {
            let event = self.slab.get_mut(key).and_then(|stream| {
                let bit = stream.events & stream.events.wrapping_neg();
                stream.events &= !bit;
                stream.listed = stream.events != 0;
                stream.event(bit)
            });
            if self.slab.get(key).is_none_or(|stream| !stream.listed) {
                self.events.pop_front();
                self.settle(key);
            }
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// Whether there is one.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.news != 0 || !self.events.is_empty()
    }

    fn next_news(&mut self) -> StreamEvent {
        let bit = self.news & self.news.wrapping_neg();
        self.news &= !bit;
        match bit {
            news::OPENED => StreamEvent::Opened(Dir::Bi),
            news::AVAILABLE => StreamEvent::Available(Dir::Bi),
            bit if bit == news::OPENED << 1 => StreamEvent::Opened(Dir::Uni),
            _ => StreamEvent::Available(Dir::Uni),
        }
    }

    /// The application knows the end of the receiving half.
    pub(super) fn was_read(&mut self, key: StreamKey) {
        if let Some(stream) = self.slab.get_mut(key) {
            stream.events &= !(told::READABLE | told::MESSAGE);
        }
        self.settle(key);
    }
}

impl super::Stream {
    fn event(&self, bit: u8) -> Option<StreamEvent> {
        Some(match bit {
            told::READABLE => StreamEvent::Readable(self.id),
            told::WRITABLE => StreamEvent::Writable(self.id),
            told::STOPPED => StreamEvent::Stopped { id: self.id, code: self.send.as_ref()?.stopped? },
            told::MESSAGE => StreamEvent::Message(self.id),
            told::OUTCOME => StreamEvent::Outcome(self.id),
            told::FINISHED => StreamEvent::Finished(self.id),
            told::RESET => StreamEvent::ResetArrived(self.id),
            _ => return None,
        })
    }
}
