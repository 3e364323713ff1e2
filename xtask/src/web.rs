//! `cargo xtask web`: the page of `desktop serve --web`, built into `crates/cli/page`, where the command takes
//! it from; or whether what is there is what the sources give.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::places::PlaceNames;
use crate::run::{StepOutcome, cargo, on_path, output, root, run};

/// The files of the page, and where the bundler gets each from; the others are copied.
const BUNDLED: &[(&str, &str)] =
    &[("page.js", "src/main.ts"), ("worker.js", "src/worker.ts"), ("sound.js", "src/sound.ts")];
const COPIED: &[(&str, &str)] = &[
    ("index.html", "src/index.html"),
    ("page.css", "src/page.css"),
    ("viewer.wasm", "src/viewer/viewer_bg.wasm"),
];

pub(crate) fn command(args: &[String]) -> Result<()> {
    match args {
        [] => {
            if let Some(missing) = missing()? {
                bail!("the page cannot be built: {missing}");
            }
            let kept = root().join(KEPT);
            build(&kept)?;
            fs::write(kept.join(COMPILER), compiler()?).context("what it was built by cannot be written")?;
            println!("the page is in {}", kept.display());
        }
        [option] if option == "--check" => match step()? {
            StepOutcome::Done | StepOutcome::Again(_) => {
                println!("the page in {KEPT} is what its sources give");
            }
            StepOutcome::Skipped(why) => println!("skipped: {why}"),
        },
        _ => bail!("{args:?} is not understood; usage: cargo xtask web [--check]"),
    }
    Ok(())
}

/// The step of `cargo xtask test`: the page's tests, and whether what is kept is what its sources give.
pub(crate) fn step() -> Result<StepOutcome> {
    if let Some(missing) = missing()? {
        return Ok(StepOutcome::Skipped(missing));
    }
    let (built, kept) = (root().join("target/page"), root().join(KEPT));
    build(&built)?;
    run(Command::new("npm").args(["test", "--silent"]).current_dir(root().join("page")))?;
    let names = BUNDLED.iter().chain(COPIED).map(|(name, _)| *name);
    let other: Vec<&str> = names.filter(|name| !same(&built.join(name), &kept.join(name))).collect();
    if other.is_empty() {
        return Ok(StepOutcome::Done);
    }
    let (other, here) = (other.join(", "), compiler()?);
    let by = fs::read_to_string(kept.join(COMPILER)).unwrap_or_default();
    if by != here {
        // Another compiler gives another module, and names of functions in its bindings.
        let (by, here) = (by.trim(), here.trim());
        return Ok(StepOutcome::Skipped(format!(
            "its tests alone: {other} cannot be compared, built by {by}, and here is {here}"
        )));
    }
    bail!("{other} in {KEPT} would be built otherwise now; run `cargo xtask web` and commit them")
}

/// What the module is compiled by.
fn compiler() -> Result<String> {
    output(Command::new("rustc").arg("--version"))
}

/// What this machine lacks, and cannot be brought.
pub(crate) fn missing() -> Result<Option<String>> {
    for program in ["node", "npm"] {
        if !on_path(program) {
            return Ok(Some(format!("{program} is not here")));
        }
    }
    let is_there = output(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]))
        .is_ok_and(|folder| Path::new(folder.trim()).is_dir());
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", TARGET]).stdout(Stdio::null()).stderr(Stdio::null());
    if !(is_there || on_path("rustup") && rustup.status()?.success()) {
        return Ok(Some(format!("Rust's target {TARGET} cannot be had")));
    }
    Ok(bindgen().err().map(|error| format!("wasm-bindgen cannot be had: {error:#}")))
}

fn build(to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    let page = root().join("page");
    bindings("quickset-viewer", "viewer", &page.join("src/viewer"))?;
    bindings("quickset-web", "fences", &page.join("fences/src"))?;
    if !page.join("node_modules/.package-lock.json").is_file() {
        run(Command::new("npm")
            .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"])
            .current_dir(&page))?;
    }
    run(Command::new("npm").args(["run", "--silent", "check"]).current_dir(&page))?;
    for (name, source) in BUNDLED {
        let options =
            ["--bundle", "--format=esm", "--target=es2022", "--minify-whitespace", "--minify-syntax"];
        run(Command::new("node_modules/.bin/esbuild")
            .arg(source)
            .args(options)
            .args(["--log-level=warning", "--legal-comments=none"])
            .arg(format!("--outfile={}", to.join(name).display()))
            .current_dir(&page))?;
    }
    for (name, source) in COPIED {
        let (source, to) = (page.join(source), to.join(name));
        fs::copy(&source, &to).with_context(|| format!("cannot copy {}", source.display()))?;
    }
    Ok(())
}

/// Compiles a package of ours to WebAssembly, and writes it with what JavaScript calls it by into the folder `to`.
fn bindings(package: &str, name: &str, to: &Path) -> Result<()> {
    let package_words = ["--package", package, "--features", "wasm", "--locked"];
    let kind = ["--target", TARGET, "--profile", "page", "--crate-type", "cdylib"];
    // The places of sources are no part of what is built, or each machine would build something else.
    let places = PlaceNames::of_this_machine()?.of_rust();
    // Every browser that has WebTransport has them.
    let flags = format!("{places} -Ctarget-feature=+simd128,+bulk-memory");
    run(cargo().arg("rustc").args(package_words).args(kind).env("RUSTFLAGS", flags))?;
    let module = format!("target/{TARGET}/page/{}.wasm", package.replace('-', "_"));
    run(Command::new(bindgen()?)
        .args(["--target", "web", "--out-name", name, "--remove-name-section", "--remove-producers-section"])
        .arg("--out-dir")
        .arg(to)
        .arg(root().join(module)))
}

/// Builds the library of fenced messages for pages into the folder `to`: modules, types and WebAssembly.
pub(crate) fn fences(to: &Path) -> Result<()> {
    let page = root().join("page");
    build(&root().join("target/page"))?;
    run(Command::new("npm").args(["test", "--silent"]).current_dir(&page))?;
    run(Command::new("node_modules/.bin/tsc")
        .args(["--project", "fences", "--outDir"])
        .arg(to)
        .current_dir(&page))?;
    // What tsc does not copy: it did not write them.
    for name in ["fences.js", "fences.d.ts", "fences_bg.wasm"] {
        let source = page.join("fences/src").join(name);
        fs::copy(&source, to.join(name)).with_context(|| format!("cannot copy {}", source.display()))?;
    }
    Ok(())
}

/// The program that makes bindings, of the version that the crate has; built once.
fn bindgen() -> Result<PathBuf> {
    let lock = fs::read_to_string(root().join("Cargo.lock"))?;
    let after =
        lock.split_once("name = \"wasm-bindgen\"\nversion = \"").context("Cargo.lock has no wasm-bindgen")?;
    let version = after.1.split('"').next().unwrap_or_default();
    let tools = root().join("target/tools");
    let program = tools.join("bin/wasm-bindgen");
    let is_it = |program: &Path| {
        output(Command::new(program).arg("--version")).is_ok_and(|said| said.trim().ends_with(version))
    };
    if !is_it(&program) {
        // Not by its own lock file, which names versions that registries have taken back.
        let install = ["install", "wasm-bindgen-cli", "--debug", "--force", "--version", version, "--root"];
        run(cargo().args(install).arg(&tools))?;
    }
    Ok(program)
}

fn same(one: &Path, other: &Path) -> bool {
    matches!((fs::read(one), fs::read(other)), (Ok(one), Ok(other)) if one == other)
}

/// Where the page is kept, and the file there that says what compiled the module.
pub(crate) const KEPT: &str = "crates/cli/page";
pub(crate) const COMPILER: &str = "built-by";
const TARGET: &str = "wasm32-unknown-unknown";
