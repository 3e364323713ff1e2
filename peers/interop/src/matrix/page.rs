//! The page that a browser loads for its priorities: something of each kind that a browser finds more or less
//! urgent.

use anyhow::{Context as _, Result, ensure};

use super::cases::Evidence;
use super::signals;

/// What is served: names and contents.
pub(super) fn site() -> Vec<(String, Vec<u8>)> {
    let mut all = vec![("site.html".to_owned(), html().into_bytes())];
    let mut put = |name: &str, content: String| all.push((name.to_owned(), content.into_bytes()));
    put("style.css", format!("{FONT}\n/*{}*/", filling(80)));
    for name in ["first.js", "async.js", "defer.js", "last.js"] {
        put(name, format!("0;/*{}*/", filling(100)));
    }
    for name in ["fetch-high.bin", "fetch.bin", "fetch-low.bin"] {
        put(name, filling(120));
    }
    // No font, but nobody knows before it has come.
    put("font.woff2", filling(60));
    for n in 0..SEEN {
        put(&format!("seen{n}.svg"), image(70));
    }
    for n in 0..UNSEEN {
        put(&format!("unseen{n}.svg"), image(70));
    }
    all
}

/// What the browser's own log says that it wanted is what ours did.
pub(super) fn judge(e: &Evidence<'_>) -> Result<()> {
    let asked = signals::of_browser(&e.folder.join("seen/net.json")).context("the browser's log")?;
    ensure!(asked.requests.len() > SEEN + UNSEEN, "the browser asked for {} things", asked.requests.len());
    let (mut contests, mut updated) = (0, 0);
    for trace in std::fs::read_dir(e.folder.join("seen"))? {
        let trace = trace?.path();
        if trace.extension().is_some_and(|extension| extension == "sqlog") {
            let shown = signals::compare(&asked, &trace).with_context(|| trace.display().to_string())?;
            contests += shown.contests;
            updated += shown.updated;
        }
    }
    ensure!(contests > 100, "only {contests} times something more urgent was before something less urgent");
    asked.check_variety()?;
    // Chromium sends one ahead of nearly each request.
    ensure!(updated > SEEN + UNSEEN, "ours used the updates for {updated} requests");
    Ok(())
}

fn html() -> String {
    let image = |kind: &str, n| format!("<img src={kind}{n}.svg width=180 height=120>\n");
    let seen: String = (0..SEEN).map(|n| image("seen", n)).collect();
    let unseen: String = (0..UNSEEN).map(|n| image("unseen", n)).collect();
    format!(
        r#"<!doctype html><html><head>
<script>
fetch("fetch.bin"); fetch("fetch-low.bin", {{priority: "low"}}); fetch("fetch-high.bin", {{priority: "high"}});
</script>
<link rel=stylesheet href=style.css>
<script src=first.js></script>
<script src=async.js async></script>
<script src=defer.js defer></script>
</head><body><p>Some words.</p>
<div style="position: absolute; top: 30000px">{unseen}</div>
{seen}<script src=last.js></script>
<p id=p>not loaded<script>
onload = () => {{
  const all = performance.getEntriesByType("resource");
  p.textContent = "loaded " + all.filter(entry => entry.nextHopProtocol == "h3").length + " by h3";
}};
</script></body></html>
"#
    )
}

/// A picture of so many thousands of bytes.
fn image(thousands: usize) -> String {
    let comment = filling(thousands);
    format!("<svg xmlns='http://www.w3.org/2000/svg' width='180' height='120'><!--{comment}--></svg>")
}

/// So many thousands of bytes.
fn filling(thousands: usize) -> String {
    "ten bytes ".repeat(100 * thousands)
}

const FONT: &str = "@font-face { font-family: f; src: url(font.woff2) } body { font-family: f }";
const SEEN: usize = 4;
const UNSEEN: usize = 6;
