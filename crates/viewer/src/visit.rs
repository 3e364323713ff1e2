use std::time::Duration;

use quickset_base::Time;
use quickset_screen::message::{PersonInput, VisitId, stream_bytes};
use quickset_screen::visit::InputLog;

use crate::{PageNews, PageViewer, ViewerFault};

/// What a person does on a page, from session to session: it goes to the desktop once (WB-21). The contract:
///
/// 1. Begin each session with [`hello`](Self::hello).
/// 2. Give each of the session's news to [`hear`](Self::hear).
/// 3. Then, and behind [`does`](Self::does), send what [`next_input`](Self::next_input) returns on the input
///    stream, until it says `None`.
/// 4. Where there are datagrams, send what [`next_copy`](Self::next_copy) returns, at its
///    [deadline](Self::next_deadline).
/// 5. Say when a session has [`ended`](Self::ended).
#[derive(Debug)]
pub struct PageInputs {
    id: VisitId,
    log: InputLog,
    /// When the next copy is due, and how many still are.
    due: Time,
    copies: u32,
}

impl PageInputs {
    /// One that is called so; the bits are random.
    pub fn new(id: [u8; 16]) -> Self {
        Self { id: VisitId(id), log: InputLog::new(), due: Time::ZERO, copies: 0 }
    }

    /// The first bytes for the control stream, as in [`PageViewer::hello`].
    pub fn hello(&self, token: &str, desktop: &str, device: &str) -> Vec<u8> {
        PageViewer::hello_of(Some(self.id), token, desktop, device)
    }

    /// The person does something, whether there is a session or not.
    pub fn does(&mut self, now: Time, input: PersonInput) {
        self.log.push(now, input);
    }

    /// The server says something. True when something that the person did will not be sent, for them to be
    /// told.
    ///
    /// # Errors
    /// See [`ViewerFault`].
    pub fn hear(&mut self, now: Time, news: &PageNews) -> Result<bool, ViewerFault> {
        match news {
            PageNews::Welcome(welcome) => Ok(self.log.begin(now, welcome)?),
            PageNews::Taken(count) => {
                self.log.taken(*count)?;
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// The next bytes for the input stream.
    pub fn next_input(&mut self, now: Time) -> Option<Vec<u8>> {
        let input = self.log.next_input()?;
        let soon = now + COPY_AFTER;
        self.due = if self.copies > 0 { self.due.min(soon) } else { soon };
        self.copies = COPIES;
        Some(stream_bytes(&input))
    }

    /// A datagram with what was sent on the input stream lately, once more, if that is due (WB-27).
    pub fn next_copy(&mut self, now: Time) -> Option<Vec<u8>> {
        if self.next_deadline()? > now {
            return None;
        }
        self.copies -= 1;
        self.due = now + COPY_AGAIN;
        self.log.copy()
    }

    /// When to ask for the [next copy](Self::next_copy).
    pub fn next_deadline(&self) -> Option<Time> {
        (self.copies > 0).then_some(self.due)
    }

    /// The session is over.
    pub fn ended(&mut self) {
        self.log.end();
        self.copies = 0;
    }
}

/// From a message on the stream to its first copy: a datagram that is written at once would share the packet
/// of the stream, and its fate. A person does not notice so little.
const COPY_AFTER: Duration = Duration::from_millis(10);
/// From that to the next one, which a burst of losses does not reach.
const COPY_AGAIN: Duration = Duration::from_millis(20);
/// Copies behind the newest message.
const COPIES: u32 = 2;

#[cfg(test)]
mod tests {
    use quickset_screen::message::{
        FromClient, FromServer, InputCopy, Permissions, RecordInbox, RecordSplitter, ScreenOrder, VisitCount,
        Welcome,
    };

    use super::*;

    const NOW: Time = Time::from_millis(5);

    fn key(down: bool, keysym: u32) -> PersonInput {
        PersonInput::Key { down, keysym, keycode: None }
    }

    fn input(visit: &mut PageInputs) -> Vec<PersonInput> {
        let (mut splitter, mut inbox) = (RecordSplitter::default(), RecordInbox::new());
        let mut all = Vec::new();
        while let Some(bytes) = visit.next_input(NOW) {
            splitter.feed(&bytes);
            while let Some(record) = splitter.next_record().unwrap() {
                all.extend(inbox.receive(&record).unwrap());
            }
        }
        all
    }

    /// A session, up to what the server says first.
    fn session(visit: &mut PageInputs, by_socket: bool, known: VisitCount) -> Result<bool, ViewerFault> {
        let mut viewer = if by_socket { PageViewer::by_socket(1 << 20) } else { PageViewer::new(1 << 20) };
        let (order, permissions, name) = (ScreenOrder::Fenced, Permissions::ALL, String::new());
        let welcome = Welcome { features: 0, order, permissions, name, visit: Some(known) };
        let said = [FromServer::Welcome(welcome), FromServer::Taken(known.taken)];
        let bytes: Vec<u8> = said.iter().flat_map(stream_bytes).collect();
        if by_socket {
            viewer.socket_bytes(NOW, &PageViewer::control_frames(&bytes))?;
        } else {
            viewer.control_bytes(NOW, &bytes)?;
        }
        let mut missed = false;
        while let Some(news) = viewer.next_news() {
            missed |= visit.hear(NOW, &news)?;
        }
        Ok(missed)
    }

    #[test]
    fn what_is_typed_on_a_page_goes_once_by_whichever_way() {
        // WB-21.
        let mut visit = PageInputs::new([7; 16]);
        let mut hello = RecordSplitter::default();
        hello.feed(&visit.hello("a-token", "", "phone"));
        let said = RecordInbox::new().receive(&hello.next_record().unwrap().unwrap()).unwrap();
        let Some(FromClient::Hello(hello)) = said else { panic!("{said:?}") };
        assert_eq!((hello.visit, hello.choice.device.0.as_str()), (Some(VisitId([7; 16])), "phone"));
        visit.does(NOW, key(true, 1));
        assert_eq!(session(&mut visit, false, VisitCount { resumed: false, taken: 0 }), Ok(false));
        assert_eq!(input(&mut visit), [], "before there was a desktop to be seen");
        for keysym in 2..5 {
            visit.does(NOW, key(true, keysym));
        }
        assert_eq!(input(&mut visit).len(), 3);
        visit.ended();
        visit.does(NOW, key(false, 4));
        assert_eq!(session(&mut visit, true, VisitCount { resumed: true, taken: 2 }), Ok(false));
        assert_eq!(input(&mut visit), [key(true, 4), key(false, 4)]);
        visit.ended();
        // A server that has lost count, and one that cannot count.
        assert_eq!(session(&mut visit, true, VisitCount { resumed: false, taken: 0 }), Ok(true));
        assert_eq!(input(&mut visit), []);
        visit.ended();
        let fault = session(&mut visit, true, VisitCount { resumed: true, taken: 9 }).unwrap_err();
        assert_eq!(fault.code(), quickset_screen::message::code::PROTOCOL);
    }

    #[test]
    fn what_was_sent_goes_twice_more_unless_it_is_known_to_have_come() {
        // WB-27: 10 and 30 ms behind the newest, and what comes in between puts nothing off.
        let at = |ms| NOW + Duration::from_millis(ms);
        let mut visit = PageInputs::new([7; 16]);
        assert_eq!(session(&mut visit, false, VisitCount { resumed: false, taken: 0 }), Ok(false));
        visit.does(NOW, key(true, 1));
        assert_eq!(visit.next_deadline(), None);
        assert!(visit.next_input(NOW).is_some());
        assert_eq!((visit.next_deadline(), visit.next_copy(at(9))), (Some(at(10)), None));
        visit.does(at(9), key(true, 2));
        assert!(visit.next_input(at(9)).is_some());
        let both = InputCopy { first: 0, inputs: vec![key(true, 1), key(true, 2)] };
        for due in [10, 30] {
            assert_eq!(visit.next_deadline(), Some(at(due)));
            let copy = visit.next_copy(at(due)).map(|copy| InputCopy::decode(&copy));
            assert_eq!(copy, Some(Ok(both.clone())));
        }
        assert_eq!((visit.next_deadline(), visit.next_copy(at(99))), (None, None));
        visit.does(at(100), key(false, 1));
        assert!(visit.next_input(at(100)).is_some());
        assert_eq!(visit.hear(at(105), &PageNews::Taken(3)), Ok(false));
        assert_eq!(visit.next_copy(at(110)), None);
        // What is under way when a session ends is no affair of the next.
        visit.does(at(120), key(false, 2));
        assert!(visit.next_input(at(120)).is_some());
        visit.ended();
        assert_eq!(visit.next_deadline(), None);
    }
}
