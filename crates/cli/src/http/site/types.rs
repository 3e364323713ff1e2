//! What a file is, by its name, and in which codings a client takes it.

use std::path::Path;

use quickset_base::number::Float as _;

/// The media type for a file's name.
pub(super) fn media_type(name: &Path) -> String {
    let extension = name.extension().unwrap_or_default();
    let ours = OURS.iter().find(|(known, _)| extension.eq_ignore_ascii_case(known)).map(|(_, media)| *media);
    let media =
        ours.or_else(|| mime_guess::from_path(name).first_raw()).unwrap_or("application/octet-stream");
    // Whoever writes files today writes UTF-8, and a browser that is told nothing guesses.
    if media.starts_with("text/") { format!("{media}; charset=utf-8") } else { media.to_owned() }
}

/// A content coding, of which a file may lie beside the plain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coding {
    /// Its name (RFC 9110 §8.4.1, RFC 7932, RFC 8878).
    pub(super) name: &'static str,
    /// What is appended to the name of the file.
    pub(super) suffix: &'static str,
}

/// All there may be, the smallest results first.
pub(super) const CODINGS: [Coding; 3] = [
    Coding { name: "br", suffix: ".br" },
    Coding { name: "zstd", suffix: ".zst" },
    Coding { name: "gzip", suffix: ".gz" },
];

/// The codings that an Accept-Encoding field takes, the best for the client first, and of those the best of
/// ours. None when it likes the plain file better.
pub(super) fn accepted(field: &str) -> Vec<Coding> {
    let weights: Vec<(String, u32)> = field.split(',').filter_map(weight).collect();
    let of = |name: &str| {
        let exact = weights.iter().find(|(listed, _)| listed == name);
        exact.or_else(|| weights.iter().find(|(listed, _)| listed == "*")).map_or(0, |(_, q)| *q)
    };
    // RFC 9110 §12.5.3: what is not listed is not taken, but for the plain file, which is the last resort
    // then.
    let plain = weights.iter().find(|(listed, _)| listed == "identity").map_or(0, |(_, q)| *q);
    let mut liked: Vec<(u32, Coding)> = CODINGS.iter().map(|coding| (of(coding.name), *coding)).collect();
    liked.retain(|(q, _)| *q > 0 && *q >= plain);
    liked.sort_by_key(|(q, _)| std::cmp::Reverse(*q));
    liked.into_iter().map(|(_, coding)| coding).collect()
}

/// A coding and its weight in thousandths (RFC 9110 §12.4.2).
fn weight(element: &str) -> Option<(String, u32)> {
    let mut parts = element.split(';').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty())?.to_ascii_lowercase();
    let name = if name == "x-gzip" { "gzip".to_owned() } else { name };
    let q = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    let q = match q {
        None => 1.0,
        Some(text) => text.parse::<f32>().ok().filter(|q| (0.0..=1.0).contains(q))?,
    };
    Some((name, f64::from((q * 1000.0).round()).whole()))
}

/// What the list of the crate has not, or by another name: RFC 8216 §4, RFC 9239, RFC 8878 §7.1,
/// RFC 3555 §4.1.5 (MP2T), the segments of DASH, and those of CMAF (ISO/IEC 23000-19).
const OURS: &[(&str, &str)] = &[
    ("aac", "audio/aac"),
    ("cmfa", "audio/mp4"),
    ("cmfv", "video/mp4"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4s", "video/iso.segment"),
    ("map", "application/json"),
    ("mjs", "text/javascript"),
    ("ts", "video/mp2t"),
    ("ttml", "application/ttml+xml"),
    ("vtt", "text/vtt"),
    ("zst", "application/zstd"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_types() {
        let of = |name: &str| media_type(Path::new(name));
        // As they are registered (IANA), those of a page and of a film.
        for (name, media) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a.htm", "text/html; charset=utf-8"),
            ("a.css", "text/css; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.mjs", "text/javascript; charset=utf-8"),
            ("a.json", "application/json"),
            ("a.js.map", "application/json"),
            ("a.txt", "text/plain; charset=utf-8"),
            ("a.md", "text/markdown; charset=utf-8"),
            ("a.csv", "text/csv; charset=utf-8"),
            ("a.svg", "image/svg+xml"),
            ("a.png", "image/png"),
            ("A.JPEG", "image/jpeg"),
            ("a.webp", "image/webp"),
            ("a.avif", "image/avif"),
            ("a.woff2", "font/woff2"),
            ("a.ttf", "font/ttf"),
            ("a.wasm", "application/wasm"),
            ("a.pdf", "application/pdf"),
            ("a.zip", "application/zip"),
            ("a.tar.gz", "application/gzip"),
            ("a.zst", "application/zstd"),
            ("a.mp4", "video/mp4"),
            ("a.m4s", "video/iso.segment"),
            ("a.webm", "video/webm"),
            ("a.mp3", "audio/mpeg"),
            ("a.opus", "audio/ogg"),
            ("a.m3u8", "application/vnd.apple.mpegurl"),
            ("a.mpd", "application/dash+xml"),
            ("a.ts", "video/mp2t"),
            ("a.aac", "audio/aac"),
            ("a.cmfv", "video/mp4"),
            ("a.cmfa", "audio/mp4"),
            ("a.ttml", "application/ttml+xml"),
            ("a.vtt", "text/vtt; charset=utf-8"),
            ("a.webmanifest", "application/manifest+json"),
        ] {
            assert_eq!(of(name), media, "{name}");
        }
        for unknown in ["README", "html", "x.", "x.html.none"] {
            assert_eq!(of(unknown), "application/octet-stream", "{unknown}");
        }
    }

    #[test]
    fn codings_are_those_that_the_client_takes() {
        let table: [(&str, &[&str]); 13] = [
            ("", &[]),
            ("gzip", &["gzip"]),
            ("gzip, deflate, br, zstd", &["br", "zstd", "gzip"]),
            ("GZIP;Q=0.5, br;q=0.4", &["gzip", "br"]),
            ("x-gzip", &["gzip"]),
            ("*", &["br", "zstd", "gzip"]),
            ("*;q=0.5, br;q=0", &["zstd", "gzip"]),
            ("gzip;q=0", &[]),
            ("gzip;q=0.001", &["gzip"]),
            ("gzip;q=0.5, identity;q=0.8", &[]),
            ("gzip;q=nan, br;q=2", &[]),
            ("deflate", &[]),
            (" , gzip ; q=1.0 ,", &["gzip"]),
        ];
        for (field, names) in table {
            let accepted: Vec<&str> = accepted(field).iter().map(|coding| coding.name).collect();
            assert_eq!(accepted, names, "{field}");
        }
    }
}
