//! `cargo xtask browser`: the page of `desktop serve --web` in Chromium beside the gateways and noVNC, timed.

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::needs::{Needed, ensure};
use crate::run::{cargo, output, root, run};
use crate::viewers::{novnc, program};

/// Runs the test of crates/desktop/tests/browser with the command as it is shipped, or another one.
pub(crate) fn command(args: &[String]) -> Result<()> {
    let mut test = cargo();
    let (mut json, mut binary) = (false, None);
    let mut words = args.iter();
    while let Some(flag) = words.next() {
        if flag == "--json" {
            json = true;
            continue;
        }
        let value = words.next().with_context(|| format!("{flag} needs a value"))?;
        let name = match flag.as_str() {
            "--flips" => "FLIPS",
            "--keys" => "KEYS",
            "--link" => "LINK",
            "--loss" => "LOSS",
            "--binary" => {
                let path = Path::new(value).canonicalize();
                binary = Some(path.with_context(|| format!("{value} is not there"))?);
                continue;
            }
            _ => bail!(
                "write browser [--flips N] [--keys N] [--link OPTIONS] [--loss SHARE] [--binary FILE] [--json], \
                 and not {flag}"
            ),
        };
        if matches!(name, "FLIPS" | "KEYS") && !value.parse().is_ok_and(|n: u32| (1..=10_000).contains(&n)) {
            bail!("{flag}: write a number, 1 to 10000");
        }
        test.env(format!("QUICKSET_BROWSER_{name}"), value);
    }
    ensure(NEEDS)?;
    let rows = root().join("target/browser.json");
    // What programs print is for people, and no part of a JSON document.
    let both = |command: &mut _| if json { output(command).map(drop) } else { run(command) };
    if binary.is_none() {
        both(cargo().args(["build", "--locked", "--release", "-p", "quickset-cli"]))?;
    }
    both(
        test.args(["test", "--locked", "--release", "-p", "quickset-desktop", "--test", "browser", "--"])
            .args(["--ignored", "--nocapture", "--exact", "a_page_in_a_browser_beside_other_ways"])
            .env("QUICKSET_BROWSER_BINARY", binary.unwrap_or_else(|| root().join("target/release/quickset")))
            .env("QUICKSET_BROWSER_JSON", &rows)
            .env("QUICKSET_NOVNC", novnc()?),
    )?;
    if json {
        print!("{}", std::fs::read_to_string(&rows)?);
    }
    Ok(())
}

const NEEDS: &[Needed] = &[
    program("Xtigervnc", "tigervnc-standalone-server", "browser: an X server that is a VNC server"),
    program("websockify", "websockify", "browser: what carries noVNC over TCP"),
    program("chromium", "chromium", "browser: the browser"),
    program("npm", "npm", "browser: the newest noVNC"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_errors() {
        for slip in
            [&["--flips"][..], &["--flips", "0"], &["--keys", "many"], &["fast", "1"], &["--binary", "/none"]]
        {
            let words: Vec<String> = slip.iter().map(|&word| word.to_owned()).collect();
            assert!(command(&words).is_err(), "{slip:?}");
        }
    }
}
