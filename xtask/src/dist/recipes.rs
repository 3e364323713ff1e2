//! `cargo xtask dist brew` and `dist winget`: recipes by which package managers of other systems fetch and
//! install a release. They are made of the version and of checksums; nobody has run them yet, and their first
//! lines say so.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::sums::sha256;
use super::{DistBuild, release, source};
use crate::run::{StepOutcome, on_path, output, run};

/// The formula of Homebrew, which builds from the sources.
pub(super) fn brew(_build: &DistBuild) -> Result<StepOutcome> {
    let archive = source::archive_of_commit()?;
    let commit = output(Command::new("git").args(["rev-parse", "--short=12", "HEAD"]))?;
    let formula = release().join("quickset.rb");
    fs::write(&formula, brew_formula(VERSION, &sha256(&archive)?, commit.trim(), &file_name(&archive)?))?;
    if on_path("ruby") {
        run(Command::new("ruby").arg("-c").arg(&formula))?;
    } else {
        println!("not parsed, since there is no ruby here: {}", formula.display());
    }
    Ok(StepOutcome::Done)
}

/// The manifests of winget, where somebody has put a program for Windows beside the other parts.
pub(super) fn winget(_build: &DistBuild) -> Result<StepOutcome> {
    let program = release().join(windows_archive(VERSION));
    if !program.is_file() {
        return Ok(StepOutcome::Skipped(format!(
            "there is no program for Windows; build one there, pack quickset.exe as {} and come again",
            program.display()
        )));
    }
    let folder = release().join("winget");
    fs::create_dir_all(&folder)?;
    for (name, text) in winget_manifests(VERSION, &sha256(&program)?) {
        fs::write(folder.join(name), text)?;
    }
    Ok(StepOutcome::Done)
}

/// What stands at a release under this name.
fn address(version: &str, file: &str) -> String {
    format!("{}/releases/download/v{version}/{file}", env!("CARGO_PKG_REPOSITORY"))
}

fn file_name(path: &Path) -> Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).with_context(|| format!("{} has no name", path.display()))
}

/// The program for Windows of a version, as whoever has built it there puts it beside the other parts.
pub(super) fn windows_archive(version: &str) -> String {
    format!("quickset-{version}-x86_64-pc-windows-msvc.zip")
}

fn brew_formula(version: &str, sum: &str, commit: &str, archive: &str) -> String {
    let (address, home) = (address(version, archive), env!("CARGO_PKG_REPOSITORY"));
    format!(
        r##"# Untested: `cargo xtask dist brew` made this of a version and a checksum; nobody has run it with Homebrew yet.
class Quickset < Formula
  desc "{SUMMARY}"
  homepage "{home}"
  url "{address}"
  sha256 "{sum}"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "cmake" => :build
  depends_on "rust" => :build

  def install
    # The sources are no repository here; rows of results name the commit.
    ENV["QUICKSET_COMMIT"] = "{commit}"
    system "cargo", "install", *std_cargo_args(path: "crates/cli")
    system bin/"quickset", "manual", "man"
    man1.install Dir["man/*.1"]
    generate_completions_from_executable(bin/"quickset", "completions")
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/quickset --version")
    system bin/"quickset", "cert", "new", "localhost"
    assert_path_exists testpath/"cert.pem"
  end
end
"##
    )
}

/// The three files that winget wants of a version, with their names.
fn winget_manifests(version: &str, sum: &str) -> [(String, String); 3] {
    let (address, home) = (address(version, &windows_archive(version)), env!("CARGO_PKG_REPOSITORY"));
    let sum = sum.to_uppercase();
    let file = |kind: &str, name: &str, body: &str| {
        let text = format!(
            "# Untested: `cargo xtask dist winget` made this of a version and a checksum; nobody has run it with winget \
             yet.\nPackageIdentifier: {IDENTIFIER}\nPackageVersion: {version}\n{body}ManifestType: {kind}\n\
             ManifestVersion: 1.6.0\n"
        );
        (format!("{IDENTIFIER}{name}.yaml"), text)
    };
    [
        file("version", "", "DefaultLocale: en-US\n"),
        file(
            "installer",
            ".installer",
            &format!(
                "InstallerType: zip\nNestedInstallerType: portable\nNestedInstallerFiles:\n\
                 - RelativeFilePath: quickset.exe\n  PortableCommandAlias: quickset\nInstallers:\n\
                 - Architecture: x64\n  InstallerUrl: {address}\n  InstallerSha256: {sum}\n"
            ),
        ),
        file(
            "defaultLocale",
            ".locale.en-US",
            &format!(
                "PackageLocale: en-US\nPublisher: The Quickset authors\nPackageName: Quickset\nPackageUrl: {home}\n\
                 License: MIT OR Apache-2.0\nShortDescription: {SUMMARY}\n"
            ),
        ),
    ]
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
const IDENTIFIER: &str = "Quickset.Quickset";
const SUMMARY: &str = "QUIC and HTTP/3 for data that is late when it is lost";

#[cfg(test)]
mod tests {
    use super::*;

    /// Of nothing (FIPS 180-4).
    const SUM: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn recipes_say_first_that_nobody_has_tried_them() {
        let mut texts: Vec<String> =
            winget_manifests("1.2.3", SUM).into_iter().map(|(_, text)| text).collect();
        texts.push(brew_formula("1.2.3", SUM, "0123456789ab", "quickset-1.2.3.tar.xz"));
        for text in texts {
            assert!(text.starts_with("# Untested: "), "{text}");
        }
    }

    #[test]
    fn a_formula_has_the_address_and_the_sum_of_the_sources() {
        let text = brew_formula("1.2.3", SUM, "0123456789ab", "quickset-1.2.3.tar.xz");
        let address =
            format!("{}/releases/download/v1.2.3/quickset-1.2.3.tar.xz", env!("CARGO_PKG_REPOSITORY"));
        assert!(text.contains(&format!("  url \"{address}\"\n  sha256 \"{SUM}\"\n")), "{text}");
        // Braces of Ruby, and none of ours.
        assert!(text.contains("\"#{bin}/quickset --version\"") && !text.contains("{{"), "{text}");
    }

    #[test]
    fn manifests_agree_on_the_package_and_end_with_their_kinds() {
        let manifests = winget_manifests("1.2.3", SUM);
        for ((name, text), kind) in manifests.iter().zip(["version", "installer", "defaultLocale"]) {
            let rest = name.strip_prefix("Quickset.Quickset").expect("it is named after the package");
            assert!(matches!(rest, ".yaml" | ".installer.yaml" | ".locale.en-US.yaml"), "{name}");
            assert!(
                text.contains("\nPackageIdentifier: Quickset.Quickset\nPackageVersion: 1.2.3\n"),
                "{text}"
            );
            assert!(text.ends_with(&format!("\nManifestType: {kind}\nManifestVersion: 1.6.0\n")), "{text}");
            // A tab is no blank in YAML.
            assert!(!text.contains('\t'));
        }
        assert!(manifests[1].1.contains(&format!("\n  InstallerSha256: {}\n", SUM.to_uppercase())));
    }
}
