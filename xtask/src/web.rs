//! `cargo xtask web`: the page of `desktop serve --web`, built into `crates/cli/page`, where the command takes
//! it from; or whether what is there is what the sources give.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::run::{cargo, on_path, output, root, run};

/// The files of the page, and where the bundler gets each from; the others are copied.
const BUNDLED: &[(&str, &str)] = &[("page.js", "src/main.ts"), ("worker.js", "src/worker.ts")];
const COPIED: &[(&str, &str)] = &[
    ("index.html", "src/index.html"),
    ("page.css", "src/page.css"),
    ("viewer.wasm", "src/viewer/viewer_bg.wasm"),
];

pub(crate) fn command(args: &[String]) -> Result<()> {
    let check = match args {
        [] => false,
        [option] if option == "--check" => true,
        _ => bail!("{args:?} is not understood; usage: cargo xtask web [--check]"),
    };
    if let Some(missing) = missing()? {
        if check {
            println!("skipped: {missing}");
            return Ok(());
        }
        bail!("the page cannot be built: {missing}");
    }
    let kept = root().join("crates/cli/page");
    let built = if check { root().join("target/page") } else { kept.clone() };
    fs::create_dir_all(&built).with_context(|| format!("cannot make {}", built.display()))?;
    build(&built)?;
    if !check {
        println!("the page is in {}", built.display());
        return Ok(());
    }
    let names = BUNDLED.iter().chain(COPIED).map(|(name, _)| *name);
    let other: Vec<&str> = names.filter(|name| !same(&built.join(name), &kept.join(name))).collect();
    if other.is_empty() {
        println!("the page in {} is what its sources give", kept.display());
        return Ok(());
    }
    bail!(
        "{} in {} would be built otherwise now; run `cargo xtask web` and commit them",
        other.join(", "),
        kept.display()
    )
}

/// What this machine lacks.
fn missing() -> Result<Option<String>> {
    for program in ["node", "npm"] {
        if !on_path(program) {
            return Ok(Some(format!("{program} is not here")));
        }
    }
    if output(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]))
        .is_ok_and(|folder| Path::new(folder.trim()).is_dir())
    {
        return Ok(None);
    }
    let added = on_path("rustup")
        && Command::new("rustup")
            .args(["target", "add", TARGET])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?
            .success();
    Ok((!added).then(|| format!("Rust's target {TARGET} cannot be had")))
}

fn build(to: &Path) -> Result<()> {
    let page = root().join("page");
    let package = ["--package", "quickset-viewer", "--features", "wasm", "--locked"];
    let kind = ["--target", TARGET, "--profile", "page", "--crate-type", "cdylib"];
    // The places of sources are no part of what is built, or each machine would build something else.
    let home = std::env::var("CARGO_HOME")
        .unwrap_or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")).unwrap_or_default());
    let rust = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let places =
        [(root().display().to_string(), "/src"), (home, "/cargo"), (rust.trim().to_owned(), "/rust")]
            .map(|(place, name)| format!("--remap-path-prefix={place}={name}"))
            .join(" ");
    run(cargo().arg("rustc").args(package).args(kind).env("RUSTFLAGS", places))?;
    let module = root().join("target").join(TARGET).join("page/quickset_viewer.wasm");
    run(Command::new(bindgen()?)
        .args([
            "--target",
            "web",
            "--out-name",
            "viewer",
            "--remove-name-section",
            "--remove-producers-section",
        ])
        .arg("--out-dir")
        .arg(page.join("src/viewer"))
        .arg(module))?;
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

const TARGET: &str = "wasm32-unknown-unknown";
