use proptest::prelude::*;

use super::*;
use crate::segments::MediaSegment;
use crate::url::UrlError;

fn parse(text: &str) -> Result<Presentation, ManifestError> {
    let url = Url::parse("https://example.org/video/a.mpd?x=1").expect("an address");
    Presentation::parse(text, &url, Elsewhere::Refused)
}

/// A presentation of a minute with one set of this content.
fn with(set: &str) -> Result<Presentation, ManifestError> {
    parse(&format!(
        r#"<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT1M">
        <Period><AdaptationSet contentType="video">{set}</AdaptationSet></Period></MPD>"#
    ))
}

fn only(set: &str) -> Representation {
    let mut presentation = with(set).expect("it can be played");
    Arc::unwrap_or_clone(presentation.periods.remove(0).tracks.remove(0).representations.remove(0))
}

/// Address, first byte, start and duration in ms.
fn segment(representation: &Representation, n: u64) -> (String, Option<u64>, u64, u64) {
    let segment = representation.segment(n).expect("an address").expect("there is one");
    let MediaSegment { resource, start, duration } = segment;
    let ms = |d: Duration| d.as_millis() as u64;
    (resource.url.target(), resource.range.map(|r| *r.start()), ms(start), ms(duration))
}

/// What ffmpeg's muxer writes, shortened.
#[test]
fn a_manifest_of_ffmpeg() {
    let text = r#"<?xml version="1.0" encoding="utf-8"?>
<MPD xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns="urn:mpeg:dash:schema:mpd:2011"
    xmlns:xlink="http://www.w3.org/1999/xlink" profiles="urn:mpeg:dash:profile:isoff-live:2011" type="static"
    mediaPresentationDuration="PT9.0S" maxSegmentDuration="PT4.0S" minBufferTime="PT8.0S">
    <ProgramInformation></ProgramInformation>
    <Period id="0" start="PT0.0S">
        <AdaptationSet id="0" contentType="video" startWithSAP="1" segmentAlignment="true" frameRate="25/1">
            <Representation id="1" mimeType="video/mp4" codecs="avc1.64001f" bandwidth="2000000" width="1280" height="720">
                <SegmentTemplate timescale="12800" initialization="init-stream$RepresentationID$.m4s"
                    media="chunk-stream$RepresentationID$-$Number%05d$.m4s" startNumber="1">
                    <SegmentTimeline><S t="0" d="51200" r="1" /><S d="12800" /></SegmentTimeline>
                </SegmentTemplate>
            </Representation>
            <Representation id="0" mimeType="video/mp4" codecs="avc1.64001e" bandwidth="500000" width="640" height="360">
                <SegmentTemplate timescale="12800" initialization="init-stream$RepresentationID$.m4s"
                    media="chunk-stream$RepresentationID$-$Number%05d$.m4s" startNumber="1">
                    <SegmentTimeline><S t="0" d="51200" r="1" /><S d="12800" /></SegmentTimeline>
                </SegmentTemplate>
            </Representation>
        </AdaptationSet>
        <AdaptationSet id="1" contentType="audio">
            <Representation id="2" mimeType="audio/mp4" codecs="mp4a.40.2" bandwidth="128000">
                <SegmentTemplate duration="4" initialization="a.mp4" media="a$Number$.m4s"/>
            </Representation>
        </AdaptationSet>
        <AdaptationSet mimeType="text/vtt"><Representation id="t" bandwidth="100"><BaseURL>t.vtt</BaseURL></Representation></AdaptationSet>
    </Period>
</MPD>"#;
    let presentation = parse(text).expect("it can be played");
    let [period] = &presentation.periods[..] else { panic!("one period") };
    assert_eq!(period.duration, Duration::from_secs(9));
    let [video, audio] = &period.tracks[..] else { panic!("two tracks") };
    assert_eq!((video.kind, audio.kind), (MediaKind::Video, MediaKind::Audio));
    let rates: Vec<u64> = video.representations.iter().map(|r| r.bandwidth()).collect();
    assert_eq!(rates, [500_000, 2_000_000]);
    let high = &video.representations[1];
    assert_eq!((high.id(), high.len()), ("1", 3));
    assert_eq!(high.init().expect("one").url.to_string(), "https://example.org/video/init-stream1.m4s");
    assert_eq!(segment(high, 0), ("/video/chunk-stream1-00001.m4s".into(), None, 0, 4000));
    assert_eq!(segment(high, 1), ("/video/chunk-stream1-00002.m4s".into(), None, 4000, 4000));
    assert_eq!(segment(high, 2), ("/video/chunk-stream1-00003.m4s".into(), None, 8000, 1000));
    assert_eq!(high.segment(3), Ok(None));
    // The last one plays to the end of the period.
    let audio = &audio.representations[0];
    assert_eq!(audio.len(), 3);
    assert_eq!(segment(audio, 2), ("/video/a3.m4s".into(), None, 8000, 1000));
}

#[test]
fn times_are_in_addresses() {
    let representation = only(
        r#"<SegmentTemplate timescale="1000" media="$RepresentationID$/$Time%07d$-$Number$" startNumber="10" presentationTimeOffset="5000">
        <SegmentTimeline><S t="5000" d="2000" r="-1"/><S t="11000" d="4000" r="1"/><S d="6000" r="-1"/></SegmentTimeline>
        </SegmentTemplate><Representation id="v" bandwidth="1000"/>"#,
    );
    // 3 of 2 s up to 11000, 2 of 4 s, and to the end at 65000 in steps of 6 s: 46 s are 8 of them, the last
    // of 4 s.
    assert_eq!(representation.len(), 3 + 2 + 8);
    assert_eq!(segment(&representation, 0), ("/video/v/0005000-10".into(), None, 0, 2000));
    assert_eq!(segment(&representation, 2), ("/video/v/0009000-12".into(), None, 4000, 2000));
    assert_eq!(segment(&representation, 4), ("/video/v/0015000-14".into(), None, 10_000, 4000));
    assert_eq!(segment(&representation, 12), ("/video/v/0061000-22".into(), None, 56_000, 4000));
}

#[test]
fn what_is_outside_of_the_period_is_not_played() {
    let representation = only(
        r#"<SegmentTemplate media="$Number$-$Time$" presentationTimeOffset="100"><SegmentTimeline>
        <S t="0" d="30" r="4"/><S d="20" r="99"/></SegmentTimeline></SegmentTemplate><Representation bandwidth="1"/>"#,
    );
    // 90 to 120 is cut by the beginning, 120 to 150 follows, and 150 to 170 is cut by the end.
    assert_eq!(representation.len(), 3);
    assert_eq!(segment(&representation, 0), ("/video/4-90".into(), None, 0, 20_000));
    assert_eq!(segment(&representation, 1), ("/video/5-120".into(), None, 20_000, 30_000));
    assert_eq!(segment(&representation, 2), ("/video/6-150".into(), None, 50_000, 10_000));
}

#[test]
fn numbers_without_a_timeline() {
    let representation = only(
        r#"<SegmentTemplate media="s$Number$.m4s" duration="90000" timescale="44100" startNumber="0"/>
        <Representation id="v" bandwidth="1000"><SegmentTemplate endNumber="9"/></Representation>"#,
    );
    assert_eq!(representation.len(), 10);
    let (url, _, start, duration) = segment(&representation, 9);
    // 9 · 90000 / 44100 = 18.367 s.
    assert_eq!((url.as_str(), start, duration), ("/video/s9.m4s", 18_367, 2040));
}

#[test]
fn addresses_are_nested() {
    let text = r#"<MPD mediaPresentationDuration="PT10S"><BaseURL>../a/</BaseURL>
        <Period><BaseURL>b/</BaseURL><AdaptationSet mimeType="video/webm"><BaseURL> c/ </BaseURL>
        <Representation bandwidth="1"><BaseURL>https://cdn.example.com/x/</BaseURL><BaseURL>d.webm</BaseURL></Representation>
        <Representation bandwidth="2"><BaseURL>/e.webm</BaseURL></Representation></AdaptationSet></Period></MPD>"#;
    let presentation = parse(text).expect("it can be played");
    let representations = &presentation.periods[0].tracks[0].representations;
    assert_eq!(segment(&representations[0], 0), ("/a/b/c/d.webm".into(), None, 0, 10_000));
    assert_eq!(segment(&representations[1], 0), ("/e.webm".into(), None, 0, 10_000));
}

#[test]
fn lists_of_segments() {
    let representation = only(
        r#"<Representation bandwidth="1"><BaseURL>all.mp4</BaseURL><SegmentList duration="20">
        <Initialization range="0-99"/><SegmentURL mediaRange="100-299"/><SegmentURL media="b.mp4"/>
        <SegmentURL media="c.mp4" mediaRange="5-5"/><SegmentURL media="beyond.mp4"/></SegmentList></Representation>"#,
    );
    assert_eq!(representation.len(), 3);
    let init = representation.init().expect("one");
    assert_eq!((init.url.target().as_str(), init.range.clone()), ("/video/all.mp4", Some(0..=99)));
    assert_eq!(segment(&representation, 0), ("/video/all.mp4".into(), Some(100), 0, 20_000));
    assert_eq!(segment(&representation, 1), ("/video/b.mp4".into(), None, 20_000, 20_000));
    assert_eq!(segment(&representation, 2), ("/video/c.mp4".into(), Some(5), 40_000, 20_000));
    let alone = only(r#"<SegmentList><SegmentURL media="a"/></SegmentList><Representation bandwidth="1"/>"#);
    assert_eq!(segment(&alone, 0), ("/video/a".into(), None, 0, 60_000));
}

#[test]
fn one_file_with_an_index() {
    let mut representation = only(
        r#"<Representation bandwidth="1"><BaseURL>v.mp4</BaseURL><SegmentBase indexRange="700-743"/></Representation>"#,
    );
    assert_eq!(representation.init().expect("one").range, Some(0..=699));
    assert_eq!(representation.len(), 0);
    assert_eq!(representation.segment(0), Ok(None));
    let asked = representation.index().expect("it is to be fetched");
    assert_eq!((asked.url.target().as_str(), asked.range), ("/video/v.mp4", Some(700..=743)));
    let mut sidx = vec![0, 0, 0, 44, b's', b'i', b'd', b'x', 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 10];
    sidx.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 40, 0, 0, 0, 0]);
    assert!(representation.read_index(&sidx[..20]).is_err());
    representation.read_index(&sidx).expect("it is one");
    assert_eq!((representation.index(), representation.len()), (None, 1));
    assert_eq!(segment(&representation, 0), ("/video/v.mp4".into(), Some(744), 0, 4000));
}

#[test]
fn periods_follow_each_other() {
    let set = r#"<AdaptationSet mimeType="video/mp4"><Representation bandwidth="1"/></AdaptationSet>"#;
    let spans = |attributes: [&str; 3], total: &str| {
        let periods = attributes.map(|a| format!("<Period {a}>{set}</Period>")).concat();
        parse(&format!("<MPD {total}>{periods}</MPD>"))
            .map(|p| p.periods.iter().map(|p| p.duration.as_secs()).collect::<Vec<_>>())
    };
    let total = r#"mediaPresentationDuration="PT60S""#;
    assert_eq!(spans(["", r#"start="PT10S""#, r#"start="PT25S""#], total), Ok(vec![10, 15, 35]));
    let durations = [r#"duration="PT5S""#, r#"duration="PT7S""#, ""];
    assert_eq!(spans(durations, total), Ok(vec![5, 7, 48]));
    assert_eq!(spans(durations, ""), Err(ManifestError::Duration(2)));
    assert_eq!(spans(["", "", ""], total), Err(ManifestError::Duration(0)));
    assert_eq!(spans(["", r#"start="PT10S""#, r#"start="PT10S""#], total), Err(ManifestError::Duration(1)));
    assert_eq!(spans(["", r#"start="PT70S""#, ""], total), Err(ManifestError::Duration(1)));
}

#[test]
fn what_is_not_played_is_said() {
    assert!(matches!(parse("<MPD"), Err(ManifestError::Xml(_))));
    assert_eq!(parse("<html/>").expect_err("no MPD"), ManifestError::Root("html".into()));
    assert_eq!(parse(r#"<MPD type="dynamic"/>"#).expect_err("live"), ManifestError::Live);
    assert_eq!(parse("<MPD/>").expect_err("empty"), ManifestError::Nothing);
    let linked = |href: &str| {
        parse(&format!(
            r#"<MPD xmlns:xlink="http://www.w3.org/1999/xlink" mediaPresentationDuration="PT1S"><Period xlink:href="{href}"/></MPD>"#
        ))
        .expect_err("nothing to play")
    };
    assert_eq!(linked("more.xml"), ManifestError::Remote);
    assert_eq!(linked("urn:mpeg:dash:resolve-to-zero:2013"), ManifestError::Nothing);
    assert_eq!(with("").expect_err("empty"), ManifestError::Nothing);
    let special = r#"<EssentialProperty schemeIdUri="http://dashif.org/guidelines/trickmode" value="1"/><Representation bandwidth="1"/>"#;
    assert_eq!(with(special).expect_err("only for jumping"), ManifestError::Nothing);
}

#[test]
fn wrong_numbers_are_errors() {
    let template = |attributes: &str| {
        with(&format!(r#"<SegmentTemplate media="$Number$" {attributes}/><Representation bandwidth="1"/>"#))
    };
    for wrong in [
        "",
        r#"duration="0""#,
        r#"duration="-5""#,
        r#"duration="+5""#,
        r#"duration="1.5""#,
        r#"duration="x""#,
        r#"duration="18446744073709551616""#,
        r#"duration="5" timescale="0""#,
        r#"duration="5" startNumber="-1""#,
    ] {
        let error = template(wrong).expect_err(wrong);
        assert!(
            matches!(error, ManifestError::Value { .. } | ManifestError::Missing { .. }),
            "{wrong}: {error}"
        );
    }
    for bandwidth in ["", r#"bandwidth="0""#, r#"bandwidth="-1""#, r#"bandwidth="1e6""#] {
        assert!(with(&format!("<Representation {bandwidth}/>")).is_err(), "{bandwidth}");
    }
    for range in ["5", "5-4", "-5", "a-b", "1-99999999999999999999"] {
        let set =
            format!(r#"<Representation bandwidth="1"><SegmentBase indexRange="{range}"/></Representation>"#);
        assert!(matches!(with(&set), Err(ManifestError::Value { .. })), "{range}");
    }
    assert_eq!(
        with(r#"<Representation bandwidth="1"><SegmentBase indexRange="0-9999999999"/></Representation>"#)
            .err(),
        Some(ManifestError::TooLarge)
    );
    let line = |entries: &str| {
        with(&format!(
            r#"<SegmentTemplate media="$Time$"><SegmentTimeline>{entries}</SegmentTimeline></SegmentTemplate><Representation bandwidth="1"/>"#
        ))
    };
    for wrong in [
        r#"<S t="0" d="0"/>"#,
        r#"<S t="5" d="1"/><S t="5" d="1"/>"#,
        r#"<S t="5" d="1"/><S t="2" d="1"/>"#,
        r#"<S d="1" r="18446744073709551615"/>"#,
    ] {
        assert_eq!(line(wrong).err(), Some(ManifestError::Timeline), "{wrong}");
    }
    for wrong in [r#"<S t="0"/>"#, r#"<S d="1" r="-2"/>"#, r#"<S d="-1"/>"#, r#"<S t="-1" d="1"/>"#] {
        assert!(line(wrong).is_err(), "{wrong}");
    }
}

/// A count costs nothing, and the longest times are no overflow.
#[test]
fn huge_counts_and_times() {
    let set = r#"<SegmentTemplate media="$Time$-$Number$" startNumber="18446744073709551615" timescale="1">
        <SegmentTimeline><S d="1" r="9223372036854775807"/></SegmentTimeline></SegmentTemplate><Representation bandwidth="1"/>"#;
    assert_eq!(only(set).len(), 60);
    let text = format!(
        r#"<MPD mediaPresentationDuration="PT18446744073709551615S"><Period><AdaptationSet contentType="video">{set}</AdaptationSet></Period></MPD>"#
    );
    let presentation = parse(&text).expect("it can be played");
    let representation = &presentation.periods[0].tracks[0].representations[0];
    assert_eq!(representation.len(), 1 << 63);
    let (url, _, _, duration) = segment(representation, (1 << 63) - 1);
    assert_eq!((url.as_str(), duration), ("/video/9223372036854775807-18446744073709551615", 1000));
}

#[test]
fn other_servers_are_refused_unless_allowed() {
    let sets = [
        r#"<Representation bandwidth="1"><BaseURL>https://evil.example/</BaseURL></Representation>"#,
        r#"<Representation bandwidth="1"><BaseURL>http://example.org/a</BaseURL></Representation>"#,
        r#"<SegmentTemplate duration="1" media="//evil.example/$Number$"/><Representation bandwidth="1"/>"#,
        r#"<SegmentTemplate duration="1" media="$Number$" initialization="https://evil.example/i"/><Representation bandwidth="1"/>"#,
        r#"<SegmentList duration="60"><SegmentURL media="https://evil.example/a"/></SegmentList><Representation bandwidth="1"/>"#,
        r#"<SegmentBase><Initialization sourceURL="https://evil.example/a"/></SegmentBase><Representation bandwidth="1"/>"#,
    ];
    for set in sets {
        assert!(matches!(with(set), Err(ManifestError::Elsewhere(_))), "{set}");
        let text = format!(
            r#"<MPD mediaPresentationDuration="PT1M"><Period><AdaptationSet contentType="video">{set}</AdaptationSet></Period></MPD>"#
        );
        let url = Url::parse("https://example.org/a.mpd").expect("an address");
        assert!(Presentation::parse(&text, &url, Elsewhere::Allowed).is_ok(), "{set}");
    }
    let file = r#"<Representation bandwidth="1"><BaseURL>file:///etc/passwd</BaseURL></Representation>"#;
    assert!(matches!(with(file), Err(ManifestError::Url(UrlError::Scheme(_)))));
}

/// What is inherited often is kept often, up to a bound.
#[test]
fn a_small_manifest_does_not_become_large() {
    let many = r#"<Representation bandwidth="1"/>"#.repeat(1001);
    assert_eq!(with(&many).err(), Some(ManifestError::TooLarge));
    let line = r#"<S d="1"/>"#.repeat(100_000);
    let rows: Vec<String> = (1..100).map(|n| format!(r#"<Representation bandwidth="{n}"/>"#)).collect();
    let rows = rows.concat();
    let set = format!(
        r#"<SegmentTemplate media="$Time$" timescale="1000"><SegmentTimeline>{line}</SegmentTimeline></SegmentTemplate>{rows}"#
    );
    assert_eq!(with(&set).err(), Some(ManifestError::TooLarge));
    assert_eq!(parse(&" ".repeat(9 << 20)).err(), Some(ManifestError::TooLong(9 << 20)));
    let entities = r#"<!DOCTYPE m [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><MPD>&b;</MPD>"#;
    assert!(matches!(parse(entities), Err(ManifestError::Xml(_))));
    let broad = format!("<MPD>{}</MPD>", "<a/>".repeat(600_000));
    assert!(matches!(parse(&broad), Err(ManifestError::Xml(_))));
    let deep = format!("{}{}", "<a>".repeat(200_000), "</a>".repeat(200_000));
    assert!(parse(&deep).is_err());
}

/// The parser of XML compares attributes with each other, and hands namespaces down.
#[test]
fn attributes_and_namespaces_are_bounded() {
    let element = |count: usize| {
        let attributes: Vec<String> = (0..count).map(|n| format!(r#"a{n}="=""#)).collect();
        with(&format!("<x {}/>", attributes.join(" "))).err()
    };
    // An equals sign in a value counts, too.
    assert_eq!(element(128), Some(ManifestError::Nothing));
    assert_eq!(element(129), Some(ManifestError::Crowded));
    let nested = |depth: usize| {
        let open: Vec<String> = (0..depth).map(|n| format!(r#"<a xmlns:a{n}="b{n}">"#)).collect();
        parse(&format!("{}{}", open.concat(), "</a>".repeat(depth))).err()
    };
    assert_eq!(nested(2000), Some(ManifestError::Root("a".into())));
    assert_eq!(nested(2001), Some(ManifestError::Crowded));
}

/// What is read and not kept is work, too, for each that inherits it: a period that begins behind all of a
/// timeline.
#[test]
fn entries_that_are_not_kept_count() {
    let rows: Vec<String> = (1..=100).map(|n| format!(r#"<Representation bandwidth="{n}"/>"#)).collect();
    let rows = rows.concat();
    let (line, late) = (r#"<S d="1"/>"#.repeat(30_000), r#"presentationTimeOffset="30000""#);
    let set = format!(
        r#"<SegmentTemplate media="$Time$" {late}><SegmentTimeline>{line}<S d="9" r="9"/></SegmentTimeline></SegmentTemplate>{rows}"#
    );
    assert_eq!(with(&set).err(), Some(ManifestError::TooLarge));
}

#[test]
fn segments_of_nothing_are_errors() {
    let rows = r#"<Representation bandwidth="1"/>"#;
    for none in [
        r#"<SegmentList duration="5"/>"#,
        r#"<SegmentTemplate media="$Number$" duration="5" startNumber="9" endNumber="8"/>"#,
        r#"<SegmentTemplate media="$Time$"><SegmentTimeline/></SegmentTemplate>"#,
        r#"<SegmentTemplate media="$Time$"><SegmentTimeline><S t="60" d="1"/></SegmentTimeline></SegmentTemplate>"#,
        r#"<SegmentTemplate media="$Time$" presentationTimeOffset="9"><SegmentTimeline><S d="9"/></SegmentTimeline></SegmentTemplate>"#,
    ] {
        let missing = ManifestError::Missing { element: "Representation".into(), attribute: "segment" };
        assert_eq!(with(&format!("{none}{rows}")).err(), Some(missing), "{none}");
    }
    for (short, is_refused) in [
        (r#"<SegmentTemplate media="$Number$" timescale="1001" duration="1"/>"#, true),
        (r#"<SegmentTemplate media="$Number$" timescale="1000" duration="1"/>"#, false),
        (r#"<SegmentTemplate media="$Number$" timescale="18446744073709551615" duration="1"/>"#, true),
        (
            r#"<SegmentTemplate media="$Time$" timescale="2000"><SegmentTimeline><S d="1" r="1"/></SegmentTimeline></SegmentTemplate>"#,
            true,
        ),
        (
            r#"<SegmentTemplate media="$Time$" timescale="2000"><SegmentTimeline><S d="1"/><S d="9"/></SegmentTimeline></SegmentTemplate>"#,
            true,
        ),
        // What is left at the end.
        (
            r#"<SegmentTemplate media="$Time$" timescale="2000"><SegmentTimeline><S d="9"/><S d="1"/></SegmentTimeline></SegmentTemplate>"#,
            false,
        ),
    ] {
        let read = with(&format!("{short}{rows}"));
        assert_eq!(matches!(read, Err(ManifestError::Short(_))), is_refused, "{short}: {read:?}");
        assert_eq!(read.is_err(), is_refused, "{short}");
    }
}

proptest! {
    /// Any attributes: an error or segments that follow each other within the period.
    #[test]
    fn any_numbers_are_read_or_refused(
        numbers in proptest::collection::vec(
            proptest::option::of(prop_oneof![0..100_u64, any::<u64>(), Just(u64::MAX)]), 12),
        seconds in prop_oneof![1..1000_u64, any::<u64>()],
    ) {
        let attribute = |name: &str, i: usize| numbers[i].map_or(String::new(), |n| format!(r#"{name}="{n}""#));
        let text = format!(
            r#"<MPD mediaPresentationDuration="PT{seconds}S"><Period><AdaptationSet contentType="video">
            <SegmentTemplate media="$Number$-$Time$" {} {} {} {}><SegmentTimeline><S {} {} {}/><S {} {} r="-1"/><S {} {} {}/></SegmentTimeline>
            </SegmentTemplate><Representation bandwidth="1"/></AdaptationSet></Period></MPD>"#,
            attribute("timescale", 0), attribute("presentationTimeOffset", 1), attribute("startNumber", 2),
            attribute("endNumber", 3), attribute("t", 4), attribute("d", 5), attribute("r", 6), attribute("t", 7),
            attribute("d", 8), attribute("t", 9), attribute("d", 10), attribute("r", 11),
        );
        let Ok(presentation) = parse(&text) else { return Ok(()) };
        let representation = &presentation.periods[0].tracks[0].representations[0];
        let count = representation.len();
        let mut last = Duration::ZERO;
        for n in (0..count.min(50)).chain(count.saturating_sub(3).max(50)..count) {
            let segment = representation.segment(n).expect("an address").expect("it is below the count");
            prop_assert!(segment.start >= last, "{text}");
            prop_assert!(segment.start + segment.duration <= Duration::from_secs(seconds), "{text}");
            last = segment.start;
        }
        prop_assert_eq!(representation.segment(count), Ok(None));
    }

    #[test]
    fn any_text_is_read_or_refused(text: String) {
        let _ = parse(&text);
        let _ = with(&text);
    }
}
