//! Room on the disk: what is built takes gigabytes, and a build that finds none says so in the middle of other
//! things.

use std::process::Command;

use anyhow::{Context as _, Result};

use crate::places::target_folder;
use crate::run::output;

/// Free bytes below the target folder.
fn free() -> Result<u64> {
    let folder = target_folder();
    std::fs::create_dir_all(&folder)?;
    let said = output(Command::new("df").args(["--output=avail", "--block-size=1"]).arg(folder))?;
    available(&said)
}

/// By what `df` prints.
fn available(said: &str) -> Result<u64> {
    let line = said.lines().nth(1).with_context(|| format!("df printed {said:?}"))?;
    line.trim().parse().with_context(|| format!("df printed {line:?}"))
}

/// What to do about a disk on which less than this is free. Nothing where that cannot be found out.
pub(crate) fn short_of(bytes: u64) -> Option<String> {
    let free = free().ok().filter(|free| *free < bytes)?;
    Some(format!(
        "{} GB are free below {}, of {} GB that are needed. `cargo clean` removes what was built before; \
         CARGO_TARGET_DIR names a folder elsewhere.",
        free / GB,
        target_folder().display(),
        bytes / GB
    ))
}

/// A billion bytes.
pub(crate) const GB: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_df_prints_is_read() {
        assert_eq!(available("      Avail\n48318382080\n").unwrap(), 48_318_382_080);
        assert!(available("Avail\n").is_err());
        assert!(available("Avail\n-\n").is_err());
    }

    #[test]
    fn there_is_always_less_than_everything() {
        assert_eq!(short_of(0), None);
        let advice = short_of(u64::MAX).unwrap();
        assert!(advice.contains("`cargo clean`"), "{advice}");
    }
}
