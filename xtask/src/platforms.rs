//! `cargo xtask platforms`: what of the workspace builds and works on systems that this machine is not.
//!
//! Programs of other processors run in qemu, those of WebAssembly in node. A target that cannot be had here is
//! told as skipped, never as passed.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::needs::{Needed, Sign, ensure};
use crate::run::{cargo, output, root, run};

struct Platform {
    target: &'static str,
    needs: &'static [Needed],
    /// Settings of cargo for this target, by their last words, and their values.
    settings: &'static [(&'static str, &'static str)],
    work: &'static [PlatformWork],
}

/// What is done, with which packages.
enum PlatformWork {
    /// Compiled, with all that it needs.
    Check(&'static [&'static str]),
    /// The same, with the lints of the workspace.
    Lint(&'static [&'static str]),
    /// Unit tests.
    Test(&'static [&'static str]),
    /// How many instructions a kernel takes beside the one without vectors, for each byte of the sources.
    Count { kernel: &'static str, emulator: &'static [&'static str] },
}

/// All, or those whose names are given.
pub(crate) fn command(args: &[String]) -> Result<()> {
    if let Some(unknown) = args.iter().find(|arg| PLATFORMS.iter().all(|one| one.target != **arg)) {
        let known: Vec<&str> = PLATFORMS.iter().map(|one| one.target).collect();
        bail!("{unknown} is no platform that is looked at; there are {}", known.join(", "));
    }
    let wanted = |one: &&Platform| args.is_empty() || args.iter().any(|arg| arg == one.target);
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for platform in PLATFORMS.iter().filter(wanted) {
        println!("=== {}", platform.target);
        if let Err(error) = platform.can_be_had() {
            rows.push(format!("{:<28} skipped: {error:#}", platform.target));
            continue;
        }
        for work in platform.work {
            let row = match platform.does(work) {
                Ok(found) => format!("{found:<8} {}", work.names()),
                Err(error) => {
                    failed.push(platform.target);
                    format!("FAILED   {}: {error:#}", work.names())
                }
            };
            rows.push(format!("{:<28} {row}", platform.target));
        }
    }
    println!("\n{}", rows.join("\n"));
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

impl Platform {
    /// Rust's standard library for it, and the programs.
    fn can_be_had(&self) -> Result<()> {
        output(Command::new("rustup").args(["target", "add", self.target]))
            .with_context(|| format!("Rust's library for {} cannot be had", self.target))?;
        ensure(self.needs)
    }

    /// What was done.
    fn does(&self, work: &PlatformWork) -> Result<String> {
        let packages = |names: &[&str]| -> Vec<String> {
            names.iter().flat_map(|name| ["--package".to_owned(), (*name).to_owned()]).collect()
        };
        match work {
            PlatformWork::Check(names) => {
                run(self.cargo("check")?.args(packages(names)))?;
                Ok("checked".to_owned())
            }
            PlatformWork::Lint(names) => {
                run(self.cargo("clippy")?.args(packages(names)).args(["--", "-D", "warnings"]))?;
                Ok("linted".to_owned())
            }
            PlatformWork::Test(names) => {
                run(self.cargo("test")?.arg("--lib").args(packages(names)))?;
                Ok("tested".to_owned())
            }
            PlatformWork::Count { kernel, emulator } => self.count(kernel, emulator),
        }
    }

    fn count(&self, kernel: &str, emulator: &[&str]) -> Result<String> {
        let example = ["--release", "--package", "quickset-fec", "--example", "instructions"];
        run(self.cargo("build")?.args(example))?;
        let program = target().join(self.target).join("release/examples/instructions");
        let log = target().join("platforms/instructions.log");
        let counted = |kernel: &str, times: &str| -> Result<f64> {
            let mut line = Command::new(emulator[0]);
            // Each block of one instruction, and a line each time that one is run.
            line.args(&emulator[1..]).args(["-singlestep", "-d", "exec,nochain", "-D"]).arg(&log);
            run(line.arg(&program).args([kernel, times]))?;
            let lines = BufReader::new(fs::File::open(&log)?).split(b'\n').count();
            fs::remove_file(&log)?;
            Ok(f64::from(u32::try_from(lines)?))
        };
        // What comes before the blocks and behind them is in both.
        let of = |kernel| Ok::<_, anyhow::Error>((counted(kernel, "2")? - counted(kernel, "1")?) / BLOCK);
        let (vectors, scalar) = (of(kernel)?, of("scalar")?);
        if scalar < LEAST_GAIN * vectors {
            bail!("{kernel} takes {vectors:.2} instructions a byte, the kernel without vectors {scalar:.2}");
        }
        Ok(format!("counted: {vectors:.2} instructions a byte by {kernel}, {scalar:.2} without vectors;"))
    }

    fn cargo(&self, verb: &str) -> Result<Command> {
        let mut cargo = cargo();
        cargo.args([verb, "--locked", "--target", self.target]);
        let of_target = self.target.to_uppercase().replace('-', "_");
        for (name, value) in self.settings {
            let value = value.replace("NODE_RUNNER", &node_runner()?.display().to_string());
            cargo.env(format!("CARGO_TARGET_{of_target}_{name}"), value);
        }
        Ok(cargo)
    }
}

impl PlatformWork {
    fn names(&self) -> String {
        match self {
            Self::Check(names) | Self::Lint(names) | Self::Test(names) => {
                names.iter().map(|name| name.trim_start_matches("quickset-")).collect::<Vec<_>>().join(", ")
            }
            Self::Count { .. } => "Reed-Solomon, 105/100".to_owned(),
        }
    }
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A program for node that runs those of WASI.
fn node_runner() -> Result<PathBuf> {
    let folder = target().join("platforms");
    fs::create_dir_all(&folder)?;
    let file = folder.join("wasi.mjs");
    fs::write(&file, NODE_RUNNER)?;
    Ok(file)
}

const PLATFORMS: &[Platform] = &[
    Platform {
        target: "aarch64-unknown-linux-gnu",
        needs: &[
            Needed {
                sign: Sign::Program("aarch64-linux-gnu-gcc"),
                package: "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
                why: "platforms: a compiler and linker for 64-bit ARM",
            },
            QEMU,
        ],
        settings: &[
            ("LINKER", "aarch64-linux-gnu-gcc"),
            ("RUNNER", "qemu-aarch64 -L /usr/aarch64-linux-gnu"),
        ],
        work: &[
            PlatformWork::Lint(&["quickset-cli", "quickset-lab", "quickset-desktop"]),
            PlatformWork::Test(CORE),
            PlatformWork::Count {
                kernel: "neon",
                emulator: &["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
            },
        ],
    },
    // The other order of bytes.
    Platform {
        target: "s390x-unknown-linux-gnu",
        needs: &[
            Needed {
                sign: Sign::Program("s390x-linux-gnu-gcc"),
                package: "gcc-s390x-linux-gnu libc6-dev-s390x-cross",
                why: "platforms: a linker for a machine whose most significant byte comes first",
            },
            QEMU,
        ],
        settings: &[("LINKER", "s390x-linux-gnu-gcc"), ("RUNNER", "qemu-s390x -L /usr/s390x-linux-gnu")],
        work: &[PlatformWork::Test(&["quickset-wire", "quickset-fec", "quickset-rfb", "quickset-screen"])],
    },
    Platform {
        target: "x86_64-pc-windows-gnu",
        needs: &[Needed {
            sign: Sign::Program("x86_64-w64-mingw32-gcc"),
            package: "gcc-mingw-w64-x86-64",
            why: "platforms: a compiler for Windows",
        }],
        settings: &[("LINKER", "x86_64-w64-mingw32-gcc")],
        // Programs of Rust need a library of Windows 10 that Debian 12's wine has not.
        work: &[PlatformWork::Lint(&["quickset"])],
    },
    Platform {
        target: "aarch64-apple-darwin",
        needs: &[],
        settings: &[],
        // What is above has ciphers in C, for which it takes Apple's headers.
        work: &[PlatformWork::Check(&[
            "quickset-base",
            "quickset-wire",
            "quickset-fec",
            "quickset-sched",
            "quickset-policies",
            "quickset-quic",
            "quickset-net",
        ])],
    },
    Platform {
        target: "wasm32-unknown-unknown",
        needs: &[],
        settings: &[],
        work: &[PlatformWork::Check(&[
            "quickset-wire",
            "quickset-fec",
            "quickset-sched",
            "quickset-quic",
            "quickset-web",
            "quickset-viewer",
        ])],
    },
    Platform {
        target: "wasm32-wasip1",
        needs: &[Needed {
            sign: Sign::Program("node"),
            package: "nodejs",
            why: "platforms: runs programs of WebAssembly",
        }],
        settings: &[("RUNNER", "node --no-warnings NODE_RUNNER"), ("RUSTFLAGS", "-Ctarget-feature=+simd128")],
        work: &[PlatformWork::Test(&["quickset-wire", "quickset-fec", "quickset-web"])],
    },
];

const CORE: &[&str] = &[
    "quickset-base",
    "quickset-wire",
    "quickset-fec",
    "quickset-sched",
    "quickset-policies",
    "quickset-sim",
    "quickset-quic",
    "quickset-web",
    "quickset-screen",
    "quickset-rfb",
];

const QEMU: Needed = Needed {
    sign: Sign::Program("qemu-aarch64"),
    package: "qemu-user",
    why: "platforms: runs programs of other processors",
};

/// Bytes of the sources of a block of the example.
const BLOCK: f64 = 100.0 * 1200.0;
/// How many times fewer instructions vectors have to take.
const LEAST_GAIN: f64 = 8.0;

const NODE_RUNNER: &str = r#"import { WASI } from "node:wasi";
import { readFile } from "node:fs/promises";

const [file, ...args] = process.argv.slice(2);
const wasi = new WASI({ version: "preview1", args: [file, ...args], env: {}, returnOnExit: true });
const { instance } = await WebAssembly.instantiate(await readFile(file), wasi.getImportObject());
process.exit(wasi.start(instance));
"#;
