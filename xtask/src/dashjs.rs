//! dash.js, the player that ours is held against: fetched from npm when it is needed, and never in the
//! repository.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::needs::{Needed, Sign};
use crate::run::{root, run};

/// What is used of it.
#[derive(Debug)]
pub(crate) struct DashJs {
    /// The player for pages.
    pub(crate) player: PathBuf,
    /// The map of its bundle, which has its sources.
    pub(crate) map: PathBuf,
}

/// Fetches it, once.
///
/// # Errors
/// When npm cannot give it, which may be the network.
pub(crate) fn fetch() -> Result<DashJs> {
    let home = root().join("target/dashjs");
    let folder = home.join(VERSION);
    let found = DashJs { player: folder.join(PLAYER), map: folder.join(MAP) };
    if folder.is_dir() {
        return Ok(found);
    }
    // Under its name only when all of it is there.
    let partial = home.join("partial");
    if partial.exists() {
        std::fs::remove_dir_all(&partial)?;
    }
    std::fs::create_dir_all(&partial)?;
    run(Command::new("npm")
        .args(["pack", "--silent", "--pack-destination"])
        .arg(&partial)
        .arg(format!("dashjs@{VERSION}")))?;
    let package = partial.join(format!("dashjs-{VERSION}.tgz"));
    run(Command::new("tar").arg("-xzf").arg(&package).arg("-C").arg(&partial).args([PLAYER, MAP]))?;
    std::fs::remove_file(package)?;
    std::fs::rename(&partial, &folder)?;
    Ok(found)
}

/// Fixed: tables are of one version, and rules change.
pub(crate) const VERSION: &str = "5.2.1";

const PLAYER: &str = "package/dist/modern/umd/dash.all.min.js";
const MAP: &str = "package/dist/modern/esm/dash.all.debug.js.map";

pub(crate) const NEEDS: &[Needed] = &[
    Needed { sign: Sign::Program("npm"), package: "npm", why: "abr, players: npm has dash.js" },
    Needed { sign: Sign::Program("tar"), package: "tar", why: "abr, players: npm's packages are archives" },
];
