//! The matrix: on the terminal, as a page and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::cases::MatrixCase;
use super::{CellOutcome, MatrixRow};

/// A case with quinn in this process, which the page shows beside.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finer {
    pub(crate) case: String,
    pub(crate) ours: &'static str,
    pub(crate) seconds: f64,
    pub(crate) failure: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct MatrixReport {
    pub(crate) seed: u64,
    pub(crate) quick: bool,
    pub(crate) cells: Vec<MatrixRow>,
    pub(crate) finer: Vec<Finer>,
}

/// One cell in words.
pub(crate) fn words(outcome: &CellOutcome) -> String {
    match outcome {
        CellOutcome::Pass { figure: Some(figure), .. } => format!("pass, {figure}"),
        CellOutcome::Pass { surprise: true, .. } => "pass; adapters/quickset.rs says that we lack it".into(),
        CellOutcome::Pass { .. } => "pass".into(),
        CellOutcome::Fail { why, logs, .. } => {
            let logs =
                logs.as_ref().map(|logs| format!("\n    logs: {}", logs.display())).unwrap_or_default();
            format!("FAIL: {why}{logs}")
        }
        CellOutcome::PeerLacks { why } => format!("the peer lacks it: {why}"),
        CellOutcome::WeLack { why } => format!("we lack it: {why}"),
        CellOutcome::Absent { why } => format!("no such peer here: {why}"),
        CellOutcome::NoNetwork { why } => why.clone(),
    }
}

impl MatrixReport {
    pub(crate) fn failures(&self) -> usize {
        self.cells.iter().filter(|row| matches!(row.outcome, CellOutcome::Fail { .. })).count()
            + self.finer.iter().filter(|finer| finer.failure.is_some()).count()
    }

    /// Of these peers, those that are not here.
    pub(crate) fn absent<'a>(&self, peers: &'a [String]) -> Vec<&'a str> {
        let is_absent = |peer: &&String| {
            self.cells
                .iter()
                .any(|row| row.peer == **peer && matches!(row.outcome, CellOutcome::Absent { .. }))
        };
        peers.iter().filter(is_absent).map(String::as_str).collect()
    }

    /// How many cells are of each kind, in words.
    pub(crate) fn counts(&self) -> String {
        let count = |is: fn(&CellOutcome) -> bool| self.cells.iter().filter(|row| is(&row.outcome)).count();
        let finer = self.finer.iter().filter(|finer| finer.failure.is_none()).count();
        let mut counts = format!(
            "{} passed, {} failed",
            finer + count(|o| matches!(o, CellOutcome::Pass { .. })),
            self.failures()
        );
        let rest = [
            (count(|o| matches!(o, CellOutcome::PeerLacks { .. })), "lacked by the peer"),
            (count(|o| matches!(o, CellOutcome::WeLack { .. })), "lacked by us"),
            (count(|o| matches!(o, CellOutcome::Absent { .. })), "of peers that are not here"),
            (count(|o| matches!(o, CellOutcome::NoNetwork { .. })), "without a network"),
        ];
        for (number, what) in rest.into_iter().filter(|(number, _)| *number > 0) {
            let _ = write!(counts, ", {number} {what}");
        }
        counts
    }

    /// Case by peer, for the terminal: `our server / our client`.
    pub(crate) fn table(&self, cases: &[&MatrixCase]) -> String {
        let peers = self.peers();
        let mut text = format!("{:<24}", "our server/client");
        for peer in &peers {
            let _ = write!(text, " {peer:<13}");
        }
        text.push('\n');
        let cells = self.by_place();
        for case in cases {
            let _ = write!(text, "{:<24}", case.name);
            for peer in &peers {
                let sign = |ours| cells.get(&(case.name, *peer, ours)).map_or("", |outcome| sign(outcome));
                let _ = write!(text, " {:<13}", format!("{}/{}", sign("server"), sign("client")));
            }
            while text.ends_with(' ') {
                text.pop();
            }
            text.push('\n');
        }
        text.push_str(
            "pass, FAIL, they: the peer lacks it, we: we lack it, -: no such peer or network here\n",
        );
        text
    }

    /// Leaves `interop.json` and `interop.html` in a folder.
    pub(crate) fn write(&self, cases: &[&MatrixCase], folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("interop.json"), serde_json::to_string_pretty(self)?)?;
        Ok(std::fs::write(folder.join("interop.html"), self.page(cases))?)
    }

    fn peers(&self) -> Vec<&str> {
        let mut peers = Vec::new();
        for row in &self.cells {
            if !peers.contains(&row.peer.as_str()) {
                peers.push(row.peer.as_str());
            }
        }
        peers
    }

    fn by_place(&self) -> BTreeMap<(&str, &str, &str), &CellOutcome> {
        self.cells
            .iter()
            .map(|row| ((row.case.as_str(), row.peer.as_str(), row.ours), &row.outcome))
            .collect()
    }

    fn page(&self, cases: &[&MatrixCase]) -> String {
        let (peers, cells) = (self.peers(), self.by_place());
        let mut page =
            format!("{HEAD}<p>{} Seed {}.</p>\n<table><tr><th>case", escaped(&self.counts()), self.seed);
        for peer in &peers {
            let _ = write!(page, "<th colspan=2>{}", escaped(peer));
        }
        page.push_str("\n<tr><th>");
        page.push_str(&"<th>our server<th>our client".repeat(peers.len()));
        for case in cases {
            let _ = write!(page, "\n<tr><th title=\"{}\">{}", escaped(case.about), case.name);
            for place in
                peers.iter().flat_map(|peer| ["server", "client"].map(|ours| (case.name, *peer, ours)))
            {
                match cells.get(&place) {
                    Some(outcome) => {
                        let (class, long) = (class(outcome), escaped(&words(outcome)));
                        let short = match outcome {
                            CellOutcome::Pass { figure: Some(figure), .. } => escaped(figure),
                            other => sign(other).to_owned(),
                        };
                        let _ = write!(page, "<td class={class} title=\"{long}\">{short}");
                    }
                    None => page.push_str("<td>"),
                }
            }
        }
        page.push_str("\n</table>\n");
        self.failed(&mut page);
        self.closer(&mut page);
        page
    }

    fn failed(&self, page: &mut String) {
        let failed = self.cells.iter().filter(|row| matches!(row.outcome, CellOutcome::Fail { .. }));
        let lines: Vec<String> = failed
            .map(|row| {
                let words = escaped(&words(&row.outcome));
                format!("<li><b>{}, {}, our {}</b><pre>{words}</pre>", escaped(&row.peer), row.case, row.ours)
            })
            .collect();
        if !lines.is_empty() {
            let _ = writeln!(page, "<h2>Failures</h2>\n<ul>{}</ul>", lines.join("\n"));
        }
    }

    fn closer(&self, page: &mut String) {
        if self.finer.is_empty() {
            return;
        }
        page.push_str("<h2>Finer cases, with quinn in one process</h2>\n<table>");
        for finer in &self.finer {
            let (class, text) = match &finer.failure {
                None => ("pass", format!("{:.2} s", finer.seconds)),
                Some(why) => ("fail", escaped(why)),
            };
            let _ = write!(page, "\n<tr><th>{}<td>our {}<td class={class}>{text}", finer.case, finer.ours);
        }
        page.push_str("\n</table>\n");
    }
}

fn sign(outcome: &CellOutcome) -> &'static str {
    match outcome {
        CellOutcome::Pass { surprise: false, .. } => "pass",
        CellOutcome::Pass { surprise: true, .. } => "pass!",
        CellOutcome::Fail { .. } => "FAIL",
        CellOutcome::PeerLacks { .. } => "they",
        CellOutcome::WeLack { .. } => "we",
        CellOutcome::Absent { .. } | CellOutcome::NoNetwork { .. } => "-",
    }
}

fn class(outcome: &CellOutcome) -> &'static str {
    match outcome {
        CellOutcome::Pass { .. } => "pass",
        CellOutcome::Fail { .. } => "fail",
        CellOutcome::PeerLacks { .. } => "they",
        CellOutcome::WeLack { .. } => "we",
        CellOutcome::Absent { .. } | CellOutcome::NoNetwork { .. } => "absent",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const HEAD: &str = "<!doctype html><meta charset=utf-8><meta name=viewport content=\"width=device-width\">
<title>Quickset with other stacks</title>
<style>
:root { color-scheme: light dark }
body { font: 15px system-ui, sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { border: 1px solid #8884; padding: .25em .6em; text-align: left }
.pass { background: #2a63 } .fail { background: #d336; font-weight: bold } .we { background: #ea03 }
.they, .absent { color: #888 }
pre { white-space: pre-wrap }
</style>
<h1>Quickset with other stacks</h1>
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_peers_say_is_no_markup() {
        let row = MatrixRow {
            peer: "a<b>".into(),
            case: "handshake".into(),
            ours: "server",
            outcome: CellOutcome::Fail { why: "<script>&\"".into(), stalled: false, logs: None },
        };
        let report = MatrixReport { seed: 1, quick: true, cells: vec![row], finer: Vec::new() };
        let cases: Vec<&MatrixCase> =
            super::super::cases::CASES.iter().filter(|case| case.name == "handshake").collect();
        let page = report.page(&cases);
        assert!(!page.contains("<script>") && !page.contains("a<b>"));
        assert!(page.contains("&lt;script&gt;&amp;&quot;"));
        assert_eq!(report.failures(), 1);
        assert!(report.table(&cases).contains("FAIL/"));
        assert_eq!(report.counts(), "0 passed, 1 failed");
    }

    #[test]
    fn peers_that_were_asked_for_are_missed() {
        let row = |peer: &str, outcome| MatrixRow {
            peer: peer.into(),
            case: "ipv6".into(),
            ours: "server",
            outcome,
        };
        let why = String::new;
        let cells = vec![
            row("quiche", CellOutcome::Absent { why: why() }),
            row("quinn", CellOutcome::NoNetwork { why: why() }),
            row("curl", CellOutcome::PeerLacks { why: why() }),
        ];
        let report = MatrixReport { seed: 1, quick: true, cells, finer: Vec::new() };
        let named = ["quiche", "quinn", "curl"].map(str::to_owned);
        assert_eq!(report.absent(&named), ["quiche"]);
        assert!(report.absent(&[]).is_empty());
    }
}
