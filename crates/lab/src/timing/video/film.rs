//! A film without pictures, as files of a site: each bitrate has one file, which all of its segments are.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use quickset_base::Rng;
use quickset_base::number::{Float as _, Unsigned as _};

/// What is to be played.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Film {
    /// In bit/s.
    pub(super) bitrates: Vec<u64>,
    /// How long a segment plays.
    pub(super) segment: Duration,
    /// How long all of it does.
    pub(super) length: Duration,
}

impl Film {
    /// Writes manifests and segments below a folder: [`MANIFEST`], and [`BULK`].
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn write(&self, site: &Path) -> io::Result<()> {
        fs::write(site.join(MANIFEST), self.manifest(&self.bitrates, self.length, "$Number$.m4s"))?;
        // The same segment again and again, for as long as anybody asks.
        let some = &self.bitrates[self.bitrates.len() / 3..][..1];
        fs::write(site.join(BULK), self.manifest(some, ENDLESS, "1.m4s?$Number$"))?;
        for bitrate in &self.bitrates {
            let folder = site.join(bitrate.to_string());
            fs::create_dir(&folder)?;
            let first = folder.join("1.m4s");
            let mut content = vec![0; self.segment_bytes(*bitrate)];
            Rng::new(*bitrate).fill(&mut content);
            fs::write(&first, content)?;
            for number in 2..=self.segments() {
                fs::hard_link(&first, folder.join(format!("{number}.m4s")))?;
            }
        }
        Ok(())
    }

    /// The last one is as long as the others, whatever is left to be played.
    fn segments(&self) -> u64 {
        self.length.as_micros().div_ceil(self.segment.as_micros().max(1)).saturated::<u64>()
    }

    fn segment_bytes(&self, bitrate: u64) -> usize {
        (bitrate.approx() * self.segment.as_secs_f64() / 8.0).round().whole::<usize>()
    }

    fn manifest(&self, bitrates: &[u64], length: Duration, name: &str) -> String {
        let mut representations = String::new();
        for bitrate in bitrates {
            let _ = write!(representations, r#"<Representation id="{bitrate}" bandwidth="{bitrate}"/>"#);
        }
        format!(
            r#"<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT{}S"><Period>
<AdaptationSet contentType="video"><SegmentTemplate media="$RepresentationID$/{name}" timescale="1000000" duration="{}"/>
{representations}</AdaptationSet></Period></MPD>
"#,
            length.as_secs_f64(),
            self.segment.as_micros()
        )
    }
}

/// The manifest of the film.
pub(super) const MANIFEST: &str = "film.mpd";
/// That of a film in one of the lower bitrates, so that segments are many, which is over when nobody plays it
/// any more.
pub(super) const BULK: &str = "bulk.mpd";
/// A day.
const ENDLESS: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use quickset_play::{Elsewhere, Presentation, Url};

    use super::*;
    use crate::scratch::ScratchFile;

    fn film() -> Film {
        Film {
            bitrates: vec![1_000_000, 2_000_000, 8_000_000],
            segment: Duration::from_millis(1500),
            length: Duration::from_secs(4),
        }
    }

    /// 4 s are three segments of 1.5 s, of which a Mbit/s is 187,500 bytes.
    #[test]
    fn each_segment_has_the_bytes_of_its_bitrate() {
        let site = ScratchFile::folder().unwrap();
        film().write(site.path()).unwrap();
        for (bitrate, bytes) in [(1_000_000, 187_500), (2_000_000, 375_000), (8_000_000, 1_500_000)] {
            let folder = site.path().join(bitrate.to_string());
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
            for number in 1..=3 {
                let file = fs::metadata(folder.join(format!("{number}.m4s"))).unwrap();
                assert_eq!(file.len(), bytes, "{bitrate} {number}");
            }
        }
    }

    #[test]
    fn players_read_the_manifests() {
        let site = ScratchFile::folder().unwrap();
        film().write(site.path()).unwrap();
        let read = |name: &str| {
            let text = fs::read_to_string(site.path().join(name)).unwrap();
            let url = Url::parse(&format!("https://a/{name}")).unwrap();
            Presentation::parse(&text, &url, Elsewhere::Refused).unwrap()
        };
        let bitrates = |presentation: &Presentation| -> Vec<u64> {
            let representations = &presentation.periods[0].tracks[0].representations;
            representations.iter().map(|representation| representation.bandwidth()).collect()
        };
        let (all, bulk) = (read(MANIFEST), read(BULK));
        assert_eq!((bitrates(&all), all.periods[0].duration), (film().bitrates, film().length));
        assert_eq!((bitrates(&bulk), bulk.periods[0].duration), (vec![2_000_000], ENDLESS));
    }
}
