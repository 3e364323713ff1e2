//! `cargo xtask dist`: what is handed out: the command in packages for Debian, for RPM and without any library
//! of the system, an image for containers, packages for Python and for pages, recipes of other systems, what
//! all of it is made of, and sums.

mod alone;
mod check;
mod deb;
mod image;
mod languages;
mod npm;
mod recipes;
mod rpm;
mod source;
mod sums;
mod tree;
mod twice;
mod wheels;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::needs::{Needed, Sign};
use crate::places::{PlaceNames, target_folder};
use crate::run::{StepOutcome, cargo, output, root, run};

pub(crate) fn command(args: &[String]) -> Result<()> {
    let (build, rest) = DistBuild::read(args)?;
    match rest.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["program"] => handed(&build, None).map(drop),
        ["check", ref names @ ..] => check::command(&build, names),
        ["twice", ref names @ ..] => twice::command(&build, names),
        [] => make(&build, &["deb"]),
        ["all"] => {
            sums::cleared(&release())?;
            make(&build, &PARTS.iter().map(|part| part.name).collect::<Vec<_>>())
        }
        ref names => make(&build, names),
    }
}

/// Of which program packages are made.
#[derive(Debug, PartialEq, Eq)]
struct DistBuild {
    /// The one that is built with this profile.
    profile: String,
    /// This one in its place, of which nothing is known: to try how packages are made of it.
    program: Option<PathBuf>,
}

impl DistBuild {
    /// By the options that begin the arguments, and what is left of these.
    fn read(mut args: &[String]) -> Result<(Self, &[String])> {
        let mut build = Self { profile: "dist".into(), program: None };
        while let [option, rest @ ..] = args {
            if !option.starts_with("--") {
                break;
            }
            let [value, rest @ ..] = rest else { bail!("{option} needs a value behind it") };
            match option.as_str() {
                "--profile" => build.profile.clone_from(value),
                "--binary" => build.program = Some(value.into()),
                _ => bail!("{option} is not understood; there are --profile NAME and --binary FILE"),
            }
            args = rest;
        }
        Ok((build, args))
    }

    /// A build to try things keeps what tests have built; any other has no paths of this machine.
    fn is_for_others(&self) -> bool {
        self.profile != "dev"
    }
}

/// One thing that is handed out.
struct DistPart {
    name: &'static str,
    /// Makes it in [`release`], and tries it.
    make: fn(&DistBuild) -> Result<StepOutcome>,
}

/// In the order in which they are made: the sums are of all others.
const PARTS: &[DistPart] = &[
    DistPart { name: "deb", make: deb::part },
    DistPart { name: "static", make: alone::part },
    DistPart { name: "rpm", make: rpm::part },
    DistPart { name: "image", make: image::part },
    DistPart { name: "wheels", make: wheels::part },
    DistPart { name: "npm", make: npm::part },
    DistPart { name: "source", make: source::part },
    DistPart { name: "crates", make: source::crates },
    DistPart { name: "brew", make: recipes::brew },
    DistPart { name: "winget", make: recipes::winget },
    DistPart { name: "sbom", make: sums::bill },
    DistPart { name: "sums", make: sums::sums },
];

/// Makes these parts. One that fails leaves the others be; at the end each has a line.
fn make(build: &DistBuild, names: &[&str]) -> Result<()> {
    let known = || PARTS.iter().map(|part| part.name).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = names.iter().find(|name| PARTS.iter().all(|part| part.name != **name)) {
        bail!(
            "{unknown:?} is not understood; usage: cargo xtask dist [--profile NAME | --binary FILE] [PART… | all | program | check [deb | c | wheel]… | twice [PART…]], \
             with the parts {}",
            known()
        );
    }
    std::fs::create_dir_all(release())?;
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for part in PARTS.iter().filter(|part| names.contains(&part.name)) {
        println!("\n=== {}", part.name);
        let row = match (part.make)(build) {
            Ok(StepOutcome::Done | StepOutcome::Again(_)) => "made".to_owned(),
            Ok(StepOutcome::Skipped(reason)) => format!("SKIPPED, {reason}"),
            Err(error) => {
                failed.push(part.name);
                format!("FAILED, {error:#}")
            }
        };
        rows.push(format!("{:<10} {row}", part.name));
    }
    println!("\n{}\nin {}", rows.join("\n"), release().display());
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

/// The folder of what others get.
fn release() -> PathBuf {
    work().join("release")
}

/// Where packages are put together.
fn work() -> PathBuf {
    root().join("target/dist")
}

/// A folder that is there, and empty.
fn emptied(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)
            .with_context(|| format!("{} of before cannot be removed", folder.display()))?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))
}

/// The time of the commit, in seconds since 1970: what is made of a commit is of its time, so that it is the
/// same each time. The environment may name another, as everywhere (reproducible-builds.org).
fn epoch() -> Result<String> {
    if let Ok(time) = std::env::var("SOURCE_DATE_EPOCH") {
        anyhow::ensure!(
            time.parse::<u32>().is_ok(),
            "SOURCE_DATE_EPOCH is a number of seconds, and not {time:?}"
        );
        return Ok(time);
    }
    Ok(output(Command::new("git").args(["log", "-1", "--format=%ct"]))?.trim().to_owned())
}

/// Packs the folder `name` of `place` into `to`, the same each time: in the order of names, of the time of the
/// commit, and root's.
fn archive(place: &Path, name: &str, to: &Path) -> Result<()> {
    let time = format!("--mtime=@{}", epoch()?);
    let same =
        ["--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=go=rX,u+rw"];
    run(Command::new("tar")
        // On one thread: on several, blocks would be cut by their number.
        .env("XZ_OPT", "-9 --threads=1")
        .args(same)
        .args([time.as_str(), "--auto-compress", "--create", "--file"])
        .arg(to)
        .arg("--directory")
        .args([place.as_os_str(), name.as_ref()]))?;
    tell_size(to)
}

/// Builds the program and returns the folder of what is handed out.
fn handed(build: &DistBuild, triple: Option<&str>) -> Result<PathBuf> {
    if let Some(program) = &build.program {
        let handed = work().join("given");
        emptied(&handed)?;
        run(Command::new("install").args(["-m", "755"]).arg(program).arg(handed.join("quickset")))?;
        return Ok(handed);
    }
    let folder = compiled(build, "quickset-cli", triple)?;
    let (built, handed) = (folder.join("quickset"), folder.join("handed"));
    std::fs::create_dir_all(&handed)?;
    let [program, debug] = ["quickset", "quickset.debug"].map(|name| handed.join(name));
    // In this order: the last one notes the sum of the other file in the program, by which debuggers find it
    // beside it.
    let copy = |options: &[&str], from: &Path, to: &Path| {
        run(Command::new("objcopy").args(options).arg(from).arg(to))
            .context("objcopy is of the package binutils")
    };
    copy(&["--only-keep-debug", "--compress-debug-sections"], &built, &debug)?;
    copy(&["--strip-debug", "--strip-unneeded", "--remove-section=.comment"], &built, &program)?;
    run(Command::new("objcopy")
        .current_dir(&handed)
        .args(["--add-gnu-debuglink=quickset.debug", "quickset"]))?;
    for file in [&built, &program, &debug] {
        tell_size(file)?;
    }
    Ok(handed)
}

/// Builds a package of the workspace with the profile and returns the folder of what cargo made.
fn compiled(build: &DistBuild, package: &str, triple: Option<&str>) -> Result<PathBuf> {
    let profile = build.profile.as_str();
    let mut command = cargo();
    command.args(["build", "--locked", "--package", package, "--profile", profile]);
    let mut folder = target_folder();
    if build.is_for_others() {
        let places = PlaceNames::of_this_machine()?.with_target(&folder);
        // No time of the commit: nothing that is compiled asks for one, and libraries in C would be compiled anew
        // for each commit.
        command.env("RUSTFLAGS", places.of_rust());
        command.env("CFLAGS", places.of_c()).env("CXXFLAGS", places.of_c());
    }
    if let Some(triple) = triple {
        command.args(["--target", triple]);
        folder.push(triple);
    }
    run(&mut command)?;
    folder.push(if profile == "dev" { "debug" } else { profile });
    Ok(folder)
}

fn tell_size(file: &Path) -> Result<()> {
    let size = file.metadata().with_context(|| format!("{} is not there", file.display()))?.len();
    println!("{:>12} bytes  {}", size, file.display());
    Ok(())
}

/// What a package takes to be made.
const NEEDS: &[Needed] = &[
    Needed { sign: Sign::Program("dpkg-deb"), package: "dpkg", why: "dist: packages" },
    Needed { sign: Sign::Program("dpkg-shlibdeps"), package: "dpkg-dev", why: "dist: on what it depends" },
    Needed { sign: Sign::Program("objcopy"), package: "binutils", why: "dist: what debuggers read" },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_stand_before_the_parts() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let args = words("--profile dev --binary /bin/true deb rpm");
        let (build, rest) = DistBuild::read(&args).expect("both are known");
        assert_eq!(build, DistBuild { profile: "dev".into(), program: Some("/bin/true".into()) });
        assert_eq!(rest, ["deb", "rpm"]);
        assert!(!build.is_for_others());
        assert!(DistBuild::read(&[]).expect("all have a value").0.is_for_others());
        for wrong in ["--profile", "--fast deb", "deb --binary"] {
            let args = words(wrong);
            let read = DistBuild::read(&args);
            // What stands behind a part is a part, which is not known.
            let refused = read.is_err() || command(&args).is_err();
            assert!(refused, "{wrong}");
        }
    }

    #[test]
    fn an_unknown_part_is_named_with_those_that_there_are() {
        let error = command(&["dbe".into()]).expect_err("no such part").to_string();
        assert!(error.contains("\"dbe\"") && error.contains("deb") && error.contains("rpm"), "{error}");
    }
}
