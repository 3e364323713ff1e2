//! `cargo xtask picture`: docs/lab.png, a part of a page of `quickset lab report`, from runs made for it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::needs::{Needed, Sign, ensure, is_root};
use crate::run::{cargo, root, run};

/// Runs the experiment with the command as it is shipped, or another one, and has Chromium draw its page.
pub(crate) fn command(args: &[String]) -> Result<()> {
    let quickset = match args {
        [] => {
            run(cargo().args(["build", "--release", "--quiet", "--locked", "--package", "quickset-cli"]))?;
            let target =
                std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
            target.join("release/quickset")
        }
        [flag, binary] if flag == "--binary" => PathBuf::from(binary),
        _ => bail!("write picture [--binary FILE], and not {}", args.join(" ")),
    };
    ensure(NEEDS)?;
    let dir = root().join("target/picture");
    if dir.exists() {
        // Rows of other commits are no company for new ones.
        std::fs::remove_dir_all(&dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    run(Command::new(&quickset).args(["lab", "run"]).args(RUNS).arg("-o").arg(&dir))?;
    let page = dir.join("report.html");
    run(Command::new(&quickset).args(["lab", "report"]).arg(&dir).arg("-o").arg(&page))?;
    let whole = std::fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
    let part = dir.join("part.html");
    std::fs::write(&part, shortened(&whole)?).with_context(|| format!("cannot write {}", part.display()))?;
    draw(&part)
}

fn draw(page: &Path) -> Result<()> {
    let mut chromium = Command::new("chromium");
    chromium.args(["--headless", "--disable-gpu", "--hide-scrollbars", SIZE]);
    if is_root() {
        // It refuses to be root inside its sandbox; the page is our own.
        chromium.arg("--no-sandbox");
    }
    run(chromium.arg(format!("--screenshot={PICTURE}")).arg(page))?;
    println!("wrote {PICTURE}");
    Ok(())
}

/// The page as it fits a picture: some findings, and a row of figures.
fn shortened(page: &str) -> Result<String> {
    let (before, after) = page.split_once("</style>").context("the page has no styles")?;
    Ok(format!("{before}{HIDDEN} {{ display: none }}</style>{after}"))
}

const PICTURE: &str = "docs/lab.png";
/// What docs/results.md begins with, by fewer seeds.
const RUNS: &[&str] = &[
    "screen-streaming",
    "--set",
    "profile=ours",
    "--set",
    "loss=0,0.5%",
    "--set",
    "fec=none,rs:105/100,adaptive:screen",
    "--seeds",
    "5",
];
/// What stands above the findings, those behind the fourth, and what stands between them and the figures.
const HIDDEN: &str =
    "header, section > p, section > details, .modes, .claims, h3:has(+ .claims), .findings li:nth-child(n+5)";
const SIZE: &str = "--window-size=1200,1150";
const NEEDS: &[Needed] =
    &[Needed { sign: Sign::Program("chromium"), package: "chromium", why: "the page as a browser draws it" }];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_keeps_all_but_what_it_hides() {
        let page = "<head><style>p { color: red }</style></head><body><header>x</header></body>";
        let part = shortened(page).unwrap();
        assert!(
            part.contains("p { color: red }header, ") && part.contains("{ display: none }</style></head>"),
            "{part}"
        );
        assert!(part.ends_with("<body><header>x</header></body>"), "{part}");
        assert!(shortened("<body>").is_err());
    }

    #[test]
    fn words_that_say_nothing_are_refused() {
        let words = |words: &str| words.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for wrong in ["--binary", "--binary a b", "x"] {
            assert!(command(&words(wrong)).unwrap_err().to_string().contains("--binary FILE"), "{wrong}");
        }
    }
}
