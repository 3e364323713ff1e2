//! What a player of DASH presentations (ISO/IEC 23009-1) does, without I/O, without a clock and without
//! pictures.
//!
//! A [`Presentation`] is read from a manifest (MPD) on demand. Its representations know where each of their
//! segments is: by template (`$Number$`, `$Time$`, `SegmentTimeline`), by list, or by the index of a file.
//!
//! ```
//! use quickset_play::{Elsewhere, Presentation, Url};
//!
//! let manifest = r#"<MPD mediaPresentationDuration="PT10S"><Period><AdaptationSet contentType="video">
//! <SegmentTemplate media="$RepresentationID$/$Number%03d$.m4s" initialization="$RepresentationID$.mp4"
//! duration="4"/> <Representation id="low" bandwidth="1000000"/><Representation id="high"
//! bandwidth="5000000"/> </AdaptationSet></Period></MPD>"#; let url =
//! Url::parse("https://example.org/video/a.mpd")?; let presentation = Presentation::parse(manifest, &url,
//! Elsewhere::Refused)?;
//!
//! let high = &presentation.periods[0].tracks[0].representations[1];
//! assert_eq!((high.bandwidth(), high.len()), (5_000_000, 3));
//! let last = high.segment(2)?.expect("it is the last one");
//! assert_eq!(last.resource.url.to_string(), "https://example.org/video/high/003.m4s");
//! assert_eq!(last.duration.as_secs(), 2);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Player`] plays it: it says what to fetch next and in which quality, by a rule of `quickset-abr`, and
//! is told what came. From that it knows what is in the buffer, when a viewer would have waited, and for how
//! long.
//!
//! ```
//! # use quickset_play::{Elsewhere, Presentation, Url};
//! use quickset_play::{Action, PlayerConfig, Player};
//! use std::time::Duration;
//! # let manifest = r#"<MPD mediaPresentationDuration="PT10S"><Period><AdaptationSet contentType="video">
//! #     <SegmentTemplate media="$RepresentationID$/$Number%03d$.m4s" duration="4"/>
//! #     <Representation id="low" bandwidth="1000000"/><Representation id="high" bandwidth="5000000"/>
//! #     </AdaptationSet></Period></MPD>"#;
//! # let url = Url::parse("https://example.org/video/a.mpd")?;
//! # let presentation = Presentation::parse(manifest, &url, Elsewhere::Refused)?;
//!
//! let mut player = Player::new(&presentation, PlayerConfig::default())?;
//! let mut now = Duration::ZERO;
//! loop {
//!     match player.poll(now) {
//!         // Here every segment comes within half a second.
//!         Action::Fetch { .. } => {
//!             player.first_byte(now);
//!             now += Duration::from_millis(500);
//!             player.arrived(now, 500_000, &[]);
//!         }
//!         Action::Sleep(until) => now = until.expect("nothing is fetched"),
//!         Action::Done => break,
//!         Action::Failed(error) => return Err(error.into()),
//!     }
//! }
//! let report = player.report();
//! assert_eq!((report.startup, report.stalls), (Some(Duration::from_millis(500)), 0));
//! // Half a megabyte in half a second is 8 Mbit/s: the second and third segment are in the high quality.
//! assert_eq!(report.average_bitrate(), (4.0 * 1e6 + 6.0 * 5e6) / 10.0);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Not read are live presentations, periods in other documents, and indices of indices: each is an error that
//! says so. What a manifest makes a player keep is bounded, and so is each address; other servers than the
//! manifest's own are refused unless [`Elsewhere`] allows them.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "numbers in tests are small, or cut on purpose"
    )
)]

mod element;
mod error;
mod index;
mod manifest;
mod player;
mod segments;
mod template;
mod time;
mod url;

pub use error::ManifestError;
pub use index::IndexError;
pub use manifest::{Elsewhere, MediaKind, MediaTrack, Period, Presentation};
pub use player::{Action, PlayError, Player, PlayerConfig, ViewReport};
pub use segments::{MediaSegment, Representation, Resource};
pub use template::TemplateError;
pub use url::{Url, UrlError, without_credentials};
