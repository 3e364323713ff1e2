use std::fmt::Write as _;
use std::net::SocketAddr;

use quickset_base::{Duration, Time};
use quickset_h3::{BodyRead, Request, VerbRefusal};
use quickset_play::{Action, Elsewhere, Player, PlayerConfig as Playing, Presentation, Url};
use quickset_quic::{Closed, Event, Node, StreamEvent, StreamId};

use super::asking::{AskingConnection, AskingNews};
use super::{Application, FlowCredentials};
use crate::play::{FlowSeen, PlayFlow, VideoWatch};

/// The end that watches a video, by a player that fetches it by HTTP/3.
pub(crate) struct ViewerActor {
    asking: AskingConnection,
    start: Time,
    watch: VideoWatch,
    player: Player,
    fetch: Option<SegmentFetch>,
    /// When the player is to be asked again.
    wake: Option<Time>,
    done: bool,
    seen: FlowSeen,
}

/// A segment under way.
struct SegmentFetch {
    path: String,
    /// Once it was asked for.
    stream: Option<StreamId>,
    bytes: u64,
}

impl ViewerActor {
    pub(crate) fn new(
        flow: &PlayFlow,
        watch: &VideoWatch,
        credentials: &FlowCredentials,
        seed: u64,
        server: SocketAddr,
    ) -> Self {
        let address = Url::parse("https://localhost/").expect("it is an address");
        let presentation = Presentation::parse(&manifest(watch), &address, Elsewhere::Refused);
        let presentation = presentation.expect("the manifest is made to be read");
        let playing = Playing { algorithm: watch.rule, seed, ..Playing::default() };
        Self {
            asking: AskingConnection::new(flow, credentials, seed, server),
            start: Time::ZERO + flow.start,
            watch: watch.clone(),
            player: Player::new(&presentation, playing).expect("the ladder ascends"),
            fetch: None,
            wake: None,
            done: false,
            seen: FlowSeen { started: flow.start, ..FlowSeen::default() },
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    pub(crate) fn tell(&mut self, seen: &mut FlowSeen) {
        if let Some(connection) = self.asking.connection() {
            self.seen.client = connection.stats();
        }
        self.seen.watched = Some(self.player.report());
        let server = std::mem::take(&mut seen.server);
        *seen = self.seen.clone();
        seen.server = server;
    }

    fn on_connected(&mut self, now: Time) {
        self.seen.connected = Some(now.since(Time::ZERO));
        self.asking.begin(now);
        self.ask(now);
    }

    /// Does what the player wants done.
    fn play(&mut self, now: Time) {
        self.wake = None;
        match self.player.poll(since_start(now)) {
            Action::Fetch { resource, .. } => {
                self.fetch = Some(SegmentFetch { path: resource.url.target(), stream: None, bytes: 0 });
                self.ask(now);
            }
            Action::Sleep(until) => self.wake = until.map(|until| Time::ZERO + until),
            Action::Done => {
                self.seen.finished = Some(now.since(Time::ZERO));
                self.done = true;
            }
            Action::Failed(error) => self.fail(error.to_string()),
        }
    }

    /// Asks for what the player wants, if the server takes a request.
    fn ask(&mut self, now: Time) {
        let Some(SegmentFetch { path, stream: None, .. }) = &self.fetch else { return };
        let request = Request::new("GET", "localhost", path.clone());
        match self.asking.verb(now, |http, t| http.request(t, &request, true)) {
            Some(Ok(id)) => {
                if let Some(fetch) = &mut self.fetch {
                    fetch.stream = Some(id);
                }
            }
            Some(Err(VerbRefusal::Blocked)) | None => {}
            Some(Err(refusal)) => self.fail(format!("a request could not be made: {refusal}")),
        }
    }

    fn on_stream(&mut self, now: Time, event: StreamEvent) {
        self.asking.handle(now, event);
        while let Some(news) = self.asking.news() {
            match news {
                AskingNews::Readable(id) => self.read(now, id),
                AskingNews::MayAsk => self.ask(now),
                AskingNews::Failed(why) => self.fail(why),
            }
        }
    }

    fn read(&mut self, now: Time, id: StreamId) {
        while self.fetch.as_ref().is_some_and(|fetch| fetch.stream == Some(id)) {
            match self.asking.verb(now, |http, t| http.read(t, id, usize::MAX)) {
                Some(Ok(BodyRead::Data(data))) => {
                    self.player.first_byte(since_start(now));
                    self.seen.delivered += data.len() as u64;
                    if let Some(fetch) = &mut self.fetch {
                        fetch.bytes += data.len() as u64;
                    }
                }
                Some(Ok(BodyRead::Finished)) => self.complete(now),
                Some(Ok(BodyRead::Trailers(_))) => {}
                Some(Ok(BodyRead::Blocked)) | None => return,
                Some(Err(refusal)) => return self.fail(refusal.to_string()),
            }
        }
    }

    fn complete(&mut self, now: Time) {
        let Some(fetch) = self.fetch.take() else { return };
        self.player.arrived(since_start(now), fetch.bytes * self.watch.scale, &[]);
        self.play(now);
    }

    fn fail(&mut self, why: String) {
        self.seen.broken.get_or_insert(why);
        self.done = true;
    }
}

impl Application for ViewerActor {
    fn node(&mut self) -> &mut Node {
        &mut self.asking.node
    }

    fn on_event(&mut self, now: Time) -> bool {
        let Some((_, event)) = self.asking.node.poll_event() else { return false };
        match event {
            Event::Connected => self.on_connected(now),
            Event::Stream(event) => self.on_stream(now, event),
            Event::Closed(why) if why != Closed::Locally && self.seen.finished.is_none() => {
                self.fail(why.to_string());
            }
            _ => {}
        }
        true
    }

    fn on_time(&mut self, now: Time) {
        if let Err(error) = self.asking.connect(now) {
            self.fail(error);
        }
        self.play(now);
    }

    fn deadline(&self) -> Option<Time> {
        if self.done {
            return None;
        }
        if self.asking.is_unconnected() { Some(self.start) } else { self.wake }
    }
}

/// The clock of the player.
fn since_start(now: Time) -> Duration {
    now.since(Time::ZERO)
}

/// What the player reads of the video.
fn manifest(watch: &VideoWatch) -> String {
    let mut text = format!(
        "<MPD mediaPresentationDuration=\"PT{}S\"><Period><AdaptationSet contentType=\"video\">\
         <SegmentTemplate media=\"$Bandwidth$/$Number$\" timescale=\"1000\" duration=\"{}\"/>",
        watch.length.as_secs_f64(),
        watch.segment.as_millis()
    );
    for (place, bitrate) in watch.ladder.iter().enumerate() {
        let _ = write!(text, "<Representation id=\"{place}\" bandwidth=\"{bitrate}\"/>");
    }
    text + "</AdaptationSet></Period></MPD>"
}
