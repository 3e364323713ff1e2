//! `cargo xtask dist image`: an image for containers (OCI), of the program that needs no library: it, a user
//! that is not root, and that user's folder. buildah makes it without a daemon; skopeo and umoci, which others
//! wrote, read it, and it is tried as it is unpacked.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::alone::{DistTrial, built};
use super::tree::{PackageTree, files_below};
use super::{DistBuild, archive, emptied, epoch, release, work};
use crate::needs::{self, Needed, is_root};
use crate::run::{StepOutcome, output, run};
use crate::viewers::program;

pub(super) fn part(build: &DistBuild) -> Result<StepOutcome> {
    if !is_root() {
        return Ok(StepOutcome::Skipped("only root makes an image here: try it with sudo".into()));
    }
    let handed = match built(build)? {
        Ok(handed) => handed,
        Err(missing) => return Ok(StepOutcome::Skipped(missing)),
    };
    needs::ensure(NEEDS)?;
    let work = work().join("image");
    let tree = PackageTree::new(&work, "tree")?;
    tree.file(&handed.join("quickset"), "usr/bin/quickset", "755")?;
    tree.documents()?;
    for (name, text) in [
        ("passwd", format!("quickset:x:{USER}:{USER}:quickset:{HOME}:/usr/sbin/nologin\n")),
        ("group", format!("quickset:x:{USER}:\n")),
    ] {
        fs::write(work.join(name), text)?;
        tree.file(&work.join(name), &format!("etc/{name}"), "644")?;
    }
    let files = tree.files()?;
    // The blobs in it have the time of the commit, and so has its archive.
    let name = format!("quickset-{}-image", env!("CARGO_PKG_VERSION"));
    let layout = work.join(&name);
    emptied(&layout)?;
    packed(&work, &tree.root, &format!("oci:{}:{TAG}", layout.display()))?;
    let image = release().join(format!("{name}.oci.tar"));
    // Without a folder around it: `podman load` and `skopeo` look for its files at the top.
    archive(&layout, ".", &image)?;
    described(&image)?;
    tried(&work, &layout, &files)?;
    Ok(StepOutcome::Done)
}

/// Makes the image `to` of the files below `tree`.
fn packed(work: &Path, tree: &Path, to: &str) -> Result<()> {
    // A storage of its own: nothing is left in that of the machine, and nothing in there is ours.
    let (store, state) = (work.join("store"), work.join("state"));
    for folder in [&store, &state] {
        emptied(folder)?;
    }
    let buildah = || {
        let mut buildah = Command::new("buildah");
        buildah.arg("--root").arg(&store).arg("--runroot").arg(&state).args(["--storage-driver", "vfs"]);
        buildah
    };
    let container = output(buildah().args(["from", "scratch"]))?;
    let container = container.trim();
    let user = format!("{USER}:{USER}");
    let nothing = work.join("nothing");
    emptied(&nothing)?;
    run(buildah().args(["copy", "--quiet", "--chown", "0:0", container]).arg(tree).arg("/"))?;
    run(buildah().args(["copy", "--quiet", "--chown", &user, container]).arg(&nothing).arg(HOME))?;
    run(buildah()
        .args(["config", "--user", &user, "--workingdir", HOME, "--env"])
        .arg(format!("HOME={HOME}"))
        .args(["--entrypoint", "[\"/usr/bin/quickset\"]", "--cmd", "--help"])
        .args(PORTS.iter().flat_map(|port| ["--port", port]))
        .args(["--label", concat!("org.opencontainers.image.version=", env!("CARGO_PKG_VERSION"))])
        .args(["--label", concat!("org.opencontainers.image.licenses=", env!("CARGO_PKG_LICENSE"))])
        .args(["--label", concat!("org.opencontainers.image.source=", env!("CARGO_PKG_REPOSITORY"))])
        .arg(container))?;
    run(buildah().args([
        "commit",
        "--quiet",
        "--disable-compression=false",
        "--rm",
        "--format",
        "oci",
        "--timestamp",
        &epoch()?,
        container,
        to,
    ]))
}

/// What another program reads of the image.
fn described(image: &Path) -> Result<()> {
    let image = format!("oci-archive:{}:{TAG}", image.display());
    let config: Value =
        serde_json::from_str(&output(Command::new("skopeo").args(["inspect", "--config", &image]))?)
            .context("skopeo writes JSON")?;
    let found = &config["config"];
    ensure!(
        config["os"] == "linux" && config["architecture"] == "amd64",
        "an image for another system: {config}"
    );
    ensure!(found["User"] == format!("{USER}:{USER}"), "the user is {}", found["User"]);
    ensure!(
        found["Entrypoint"] == serde_json::json!(["/usr/bin/quickset"]),
        "it runs {}",
        found["Entrypoint"]
    );
    ensure!(found["WorkingDir"] == HOME, "it runs in {}", found["WorkingDir"]);
    let ports = found["ExposedPorts"].as_object().context("it names its ports")?;
    ensure!(
        ports.len() == PORTS.len() && PORTS.iter().all(|port| ports.contains_key(*port)),
        "the ports are {ports:?}"
    );
    Ok(())
}

/// The files of the image, unpacked, and the program among them run by the image's user.
fn tried(work: &Path, layout: &Path, files: &[String]) -> Result<()> {
    let bundle = work.join("bundle");
    if bundle.exists() {
        fs::remove_dir_all(&bundle)?;
    }
    let image = format!("{}:{TAG}", layout.display());
    run(Command::new("umoci").args(["unpack", "--image", &image]).arg(&bundle))?;
    let root = bundle.join("rootfs");
    ensure!(files_below(&root)? == files, "what is unpacked is not what was packed");
    DistTrial { root: &root, program: "/usr/bin/quickset", user: USER, home: HOME }.run()
}

/// By number: who runs containers forbids root by it. The one that images without a distribution have.
const USER: u32 = 65_532;
/// Keys and who may come in are kept there.
const HOME: &str = "/var/lib/quickset";
/// HTTP/3 and desktops by the first one, both without UDP by the other.
const PORTS: &[&str] = &["4433/udp", "4433/tcp"];
/// What engines call the image when they have loaded it: a version alone would be taken for a name.
const TAG: &str = concat!("quickset:", env!("CARGO_PKG_VERSION"));

const NEEDS: &[Needed] = &[
    program("buildah", "buildah", "dist: images without a daemon"),
    program("skopeo", "skopeo", "dist: what an image says of itself"),
    program("umoci", "umoci", "dist: the files of an image"),
];
