//! `cargo xtask picture`: docs/lab.png, a part of a page of `quickset lab report`, from runs made for it; and
//! docs/demo.png, the report of `quickset demo`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::needs::{Needed, Sign, ensure, is_root};
use crate::run::{cargo, root, run};

/// Makes both pictures, or the one that is named, with the command as it is shipped, or another one, and has
/// Chromium draw its pages.
pub(crate) fn command(args: &[String]) -> Result<()> {
    let (name, args) = match args.split_first() {
        Some((name, args)) if !name.starts_with('-') => (Some(name.as_str()), args),
        _ => (None, args),
    };
    let quickset = match args {
        _ if name.is_some_and(|name| PICTURES.iter().all(|(known, _)| name != *known)) => bail!(USAGE),
        [] => {
            run(cargo().args(["build", "--release", "--quiet", "--locked", "--package", "quickset-cli"]))?;
            let target =
                std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
            target.join("release/quickset")
        }
        [flag, binary] if flag == "--binary" => PathBuf::from(binary),
        _ => bail!(USAGE),
    };
    ensure(NEEDS)?;
    let dir = root().join("target/picture");
    if dir.exists() {
        // Rows of other commits are no company for new ones.
        std::fs::remove_dir_all(&dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    std::fs::create_dir_all(&dir)?;
    let wanted = PICTURES.iter().filter(|(known, _)| name.is_none_or(|name| name == *known));
    wanted.map(|(_, make)| make).try_for_each(|make| make(&quickset, &dir))
}

type MakePicture = fn(&Path, &Path) -> Result<()>;

const PICTURES: &[(&str, MakePicture)] = &[("lab", lab), ("demo", demo)];

fn lab(quickset: &Path, dir: &Path) -> Result<()> {
    run(Command::new(quickset).args(["lab", "run"]).args(RUNS).arg("-o").arg(dir))?;
    let page = dir.join("report.html");
    run(Command::new(quickset).args(["lab", "report"]).arg(dir).arg("-o").arg(&page))?;
    let whole = std::fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
    let part = dir.join("part.html");
    std::fs::write(&part, shortened(&whole)?).with_context(|| format!("cannot write {}", part.display()))?;
    draw(&part, "docs/lab.png", "--window-size=1200,1150")
}

fn demo(quickset: &Path, dir: &Path) -> Result<()> {
    let page = dir.join("demo.html");
    run(Command::new(quickset).args(["demo", "--pace", "10", "-o"]).arg(&page))?;
    draw(&page, "docs/demo.png", "--window-size=900,2090")
}

fn draw(page: &Path, picture: &str, size: &str) -> Result<()> {
    let mut chromium = Command::new("chromium");
    chromium.args(["--headless", "--disable-gpu", "--hide-scrollbars", size]);
    if is_root() {
        // It refuses to be root inside its sandbox; the page is our own.
        chromium.arg("--no-sandbox");
    }
    run(chromium.arg(format!("--screenshot={picture}")).arg(page))?;
    println!("wrote {picture}");
    Ok(())
}

/// The page as it fits a picture: some findings, and a row of figures.
fn shortened(page: &str) -> Result<String> {
    let (before, after) = page.split_once("</style>").context("the page has no styles")?;
    Ok(format!("{before}{HIDDEN} {{ display: none }}</style>{after}"))
}

const USAGE: &str = "write picture [lab|demo] [--binary FILE]";
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
        for wrong in ["--binary", "--binary a b", "x", "lab x"] {
            assert!(command(&words(wrong)).unwrap_err().to_string().contains("--binary FILE"), "{wrong}");
        }
    }
}
