//! Recorded traffic: what real applications sent when. `data/README.md` says where the recordings come from.

use quickset_base::Duration;
use quickset_base::number::Unsigned as _;

/// The recorded screens.
pub const SCENES: &[&str] = &["typing", "scroll", "fastscroll", "page", "video_soft"];

/// A frame of a conference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoFrame {
    /// When, counted from the first one.
    pub at: Duration,
    /// Its size.
    pub bytes: u32,
}

/// An update of a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedUpdate {
    /// When, counted from the first one.
    pub at: Duration,
    /// Its messages.
    pub messages: Vec<Drawn>,
}

/// A message of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// What it draws: x, y, width, height.
    pub area: [u16; 4],
    /// Its size.
    pub bytes: u32,
}

/// A recording that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, `{text}`: {why}")]
pub struct TraceError {
    /// The line, from 1.
    pub line: usize,
    /// What it says.
    pub text: String,
    /// What is wrong with it, and what would be right.
    pub why: &'static str,
}

/// All frames of the recorded conference.
pub fn conference() -> Vec<VideoFrame> {
    frames(include_str!("../data/tixeo_trace.repr")).expect("a test reads it")
}

/// Reads frames: lines of a time in microseconds and a size in bytes with a comma between, and perhaps a
/// question mark before.
///
/// # Errors
/// Names the first line that is not one, or that goes back in time.
pub fn frames(text: &str) -> Result<Vec<VideoFrame>, TraceError> {
    let mut all: Vec<(u64, u32)> = Vec::new();
    for (n, line) in lines(text) {
        let wrong = |why| TraceError { line: n, text: line.to_owned(), why };
        let (at, bytes) = line.strip_prefix('?').unwrap_or(line).split_once(',').ok_or_else(|| {
            wrong("it has no comma; write a time in microseconds and a size, like ?63721,1591")
        })?;
        let at = time(at).ok_or_else(|| wrong(TIME))?;
        let bytes = size(bytes).ok_or_else(|| wrong(SIZE))?;
        if all.last().is_some_and(|(before, _)| at < *before) {
            return Err(wrong("it is earlier than the line before"));
        }
        all.push((at, bytes));
    }
    let first = all.first().map_or(0, |(at, _)| *at);
    let frame = |(at, bytes)| VideoFrame { at: Duration::from_micros(at - first), bytes };
    Ok(all.into_iter().map(frame).collect())
}

/// One of [`SCENES`].
pub fn scene(name: &str) -> Option<Vec<TracedUpdate>> {
    let text = match name {
        "typing" => include_str!("../data/screen/msgs_typing.csv"),
        "scroll" => include_str!("../data/screen/msgs_scroll.csv"),
        "fastscroll" => include_str!("../data/screen/msgs_fastscroll.csv"),
        "page" => include_str!("../data/screen/msgs_page.csv"),
        "video_soft" => include_str!("../data/screen/msgs_video_soft.csv"),
        _ => return None,
    };
    Some(updates(text).expect("a test reads it"))
}

/// Reads updates of a screen: lines of `time_us,update_id,x,y,w,h,bytes` below a line that says so; lines of
/// one update stand together.
///
/// # Errors
/// Names the first line that is not one, that goes back in time, or that draws nothing.
pub fn updates(text: &str) -> Result<Vec<TracedUpdate>, TraceError> {
    let mut all: Vec<(u64, u64, Vec<Drawn>)> = Vec::new();
    for (n, line) in lines(text).filter(|(_, line)| *line != HEADER) {
        let wrong = |why| TraceError { line: n, text: line.to_owned(), why };
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let [at, id, x, y, w, h, bytes] = cells[..] else {
            return Err(wrong("it is not time_us,update_id,x,y,w,h,bytes"));
        };
        let at = time(at).ok_or_else(|| wrong(TIME))?;
        let id = id.parse::<u64>().map_err(|_| wrong("the update is not a whole number"))?;
        let mut area = [0; 4];
        for (number, cell) in area.iter_mut().zip([x, y, w, h]) {
            *number = cell
                .parse::<u16>()
                .map_err(|_| wrong("the rectangle is not of whole numbers up to 65535"))?;
        }
        if area[2] == 0 || area[3] == 0 {
            return Err(wrong("it draws nothing: width and height are above 0"));
        }
        let drawn = Drawn { area, bytes: size(bytes).ok_or_else(|| wrong(SIZE))? };
        match all.last_mut() {
            Some((before, ..)) if at < *before => return Err(wrong("it is earlier than the line before")),
            Some((_, last, messages)) if *last == id => messages.push(drawn),
            _ => all.push((at, id, vec![drawn])),
        }
    }
    let first = all.first().map_or(0, |(at, ..)| *at);
    let update = |(at, _, messages)| TracedUpdate { at: Duration::from_micros(at - first), messages };
    Ok(all.into_iter().map(update).collect())
}

/// The updates over and over, as many as begin within `length`. Between the last of one round and the first
/// of the next lies the mean time between two.
pub fn looped(updates: &[TracedUpdate], length: Duration) -> Vec<TracedUpdate> {
    let (Some(last), n) = (updates.last(), updates.len().saturated::<u32>()) else { return Vec::new() };
    // One alone comes once a second.
    let round = if last.at.is_zero() { Duration::from_secs(1) } else { last.at + last.at / (n - 1).max(1) };
    let rounds = (0..).map(|k| round * k).take_while(|begin| *begin < length);
    let later =
        |begin: Duration, update: &TracedUpdate| TracedUpdate { at: update.at + begin, ..update.clone() };
    rounds
        .flat_map(|begin| updates.iter().map(move |update| later(begin, update)))
        .take_while(|update| update.at < length)
        .collect()
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(n, line)| (n + 1, line.trim())).filter(|(_, line)| !line.is_empty())
}

fn time(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok().filter(|us| *us <= MAX_US)
}

fn size(text: &str) -> Option<u32> {
    text.trim().parse::<u32>().ok().filter(|bytes| (1..=MAX_BYTES).contains(bytes))
}

const HEADER: &str = "time_us,update_id,x,y,w,h,bytes";
const TIME: &str = "the time is not a whole number of microseconds of at most a day";
const SIZE: &str = "the size is not a whole number of bytes from 1 to 16,777,216";
const MAX_US: u64 = 86_400_000_000;
const MAX_BYTES: u32 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recordings_are_what_is_said_of_them() {
        let frames = conference();
        assert_eq!(frames.len(), 7377);
        let published = &frames[..2416];
        assert_eq!(published[2415].at, Duration::from_micros(86_595_212));
        let mut sizes: Vec<u32> = published.iter().map(|frame| frame.bytes).collect();
        sizes.sort_unstable();
        assert_eq!(sizes[1207], 1915, "the median of the paper");
        // `wc -l` less the header, and distinct update ids.
        let expected = [
            ("typing", 40, 30),
            ("scroll", 486, 30),
            ("fastscroll", 2121, 30),
            ("page", 2851, 26),
            ("video_soft", 1824, 16),
        ];
        for (name, messages, updates) in expected {
            let scene = scene(name).unwrap();
            assert_eq!(scene.len(), updates, "{name}");
            assert_eq!(scene.iter().map(|update| update.messages.len()).sum::<usize>(), messages, "{name}");
            let bytes = scene.iter().flat_map(|update| &update.messages).map(|drawn| drawn.bytes);
            assert!(bytes.max() <= Some(1150), "{name}: split to at most 1150 bytes");
        }
        assert!(scene("desert").is_none());
        assert!(SCENES.iter().all(|name| scene(name).is_some()));
    }

    #[test]
    fn slips_are_told_with_their_line() {
        let says = |text: &str| frames(text).unwrap_err().to_string();
        assert_eq!(
            says("?0,100\n\n?5;100"),
            "line 3, `?5;100`: it has no comma; write a time in microseconds and a size, like ?63721,1591"
        );
        assert!(says("x,100").contains("the time"));
        assert!(says("1,0").contains("the size"));
        assert!(says("1,99999999").contains("16,777,216"));
        assert!(says("7,100\n6,100").starts_with("line 2, `6,100`: it is earlier"));
        assert!(says("99999999999999,100").contains("a day"));
        let says = |line: &str| updates(&format!("{HEADER}\n{line}")).unwrap_err().to_string();
        assert!(says("1,2,3").starts_with("line 2, `1,2,3`: it is not time_us"));
        assert!(says("1,2,3,4,0,6,7").contains("draws nothing"));
        assert!(says("1,2,3,4,70000,6,7").contains("65535"));
        assert!(says("1,-2,3,4,5,6,7").contains("the update"));
        assert!(says("9,1,3,4,5,6,7\n8,1,3,4,5,6,7").starts_with("line 3"));
        assert_eq!(frames(""), Ok(Vec::new()));
    }

    #[test]
    fn a_loop_keeps_the_mean_rate() {
        let update = |ms| TracedUpdate { at: Duration::from_millis(ms), messages: Vec::new() };
        let three = [update(0), update(10), update(40)];
        let times: Vec<u64> = looped(&three, Duration::from_millis(121))
            .iter()
            .map(|update| update.at.as_millis() as u64)
            .collect();
        // Two gaps make 40 ms, so the third is of 20.
        assert_eq!(times, [0, 10, 40, 60, 70, 100, 120]);
        assert_eq!(looped(&[update(0)], Duration::from_millis(2500)).len(), 3);
        assert!(looped(&[], Duration::from_secs(1)).is_empty());
    }
}
