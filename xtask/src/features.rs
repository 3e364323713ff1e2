//! What `quickset` is with fewer of its features, and with the other provider of cryptography.

use anyhow::{Result, bail};

use crate::run::{StepOutcome, cargo, output, run};

/// The least there is with either provider, and the most with the one that is no default. What all features
/// are together is linted with everything else.
const COMBINATIONS: [&str; 3] = ["aws-lc-rs", "ring", "ring,h3,self-signed,http,qlog"];

/// The step of `cargo xtask test`. Crates below are linted by another step.
pub(crate) fn step() -> Result<StepOutcome> {
    for features in COMBINATIONS {
        lint(&["--no-default-features", "--features", features])?;
    }
    without_provider()?;
    without_aws_lc("ring,h3,self-signed,http,qlog")?;
    // Handshakes of both sides, in virtual time and over sockets.
    run(cargo().args([
        "test",
        "--locked",
        "--package",
        "quickset-tls",
        "--no-default-features",
        "--features",
        "ring",
    ]))?;
    let ends = ["--lib", "--test", "provider", "--test", "groups", "--test", "trust", "--test", "early"];
    run(cargo()
        .args(["test", "--locked", "--package", "quickset", "--no-default-features"])
        .args(["--features", "ring,self-signed"])
        .args(ends))?;
    Ok(StepOutcome::Done)
}

fn lint(features: &[&str]) -> Result<()> {
    run(cargo()
        .args([
            "clippy",
            "--locked",
            "--no-deps",
            "--all-targets",
            "--package",
            "quickset",
            "--package",
            "quickset-tls",
        ])
        .args(features)
        .args(["--", "-D", "warnings"]))
}

/// Without a provider nothing is compiled, and whoever tried is told what to write.
fn without_provider() -> Result<()> {
    let mut command = cargo();
    command.args(["check", "--locked", "--quiet", "--package", "quickset", "--no-default-features"]);
    let out = command.output()?;
    let said = String::from_utf8_lossy(&out.stderr);
    if out.status.success() || !said.contains("switch on the feature `aws-lc-rs`") {
        bail!("without a provider of cryptography `quickset` does not say which feature it needs:\n{said}");
    }
    Ok(())
}

/// Who chooses ring needs no C of another provider, in tests neither.
fn without_aws_lc(features: &str) -> Result<()> {
    for package in ["quickset", "quickset-tls"] {
        let chosen = if package == "quickset" { features } else { "ring" };
        let tree =
            output(cargo().args(["tree", "--locked", "--prefix", "none", "--package", package]).args([
                "--no-default-features",
                "--features",
                chosen,
            ]))?;
        if let Some(line) = tree.lines().find(|line| line.starts_with("aws-lc")) {
            bail!(
                "{package} with {chosen} depends on {line}: see it with `cargo tree -e features -i aws-lc-sys`"
            );
        }
        if !tree.lines().any(|line| line.starts_with("ring ")) {
            bail!("{package} with {chosen} has no provider of cryptography at all");
        }
    }
    Ok(())
}
