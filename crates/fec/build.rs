//! Tells whether there are vector kernels: on x86-64, where the standard library says what the machine has.
//! And whether the compiler has the intrinsics of AVX-512 and GFNI, stable since Rust 1.89; the crate's
//! oldest is 1.85.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=RUSTC");
    println!("cargo::rustc-check-cfg=cfg(vectors, wide)");
    // Under a sanitizer the wide kernels take minutes to compile: of the targets one has them, which is about
    // them, and is built by this script as well (fuzz/fuzz_targets/fec_kernels.rs). The others look for what
    // decoders do with what kernels give.
    let is_fuzzed = std::env::var_os("CARGO_CFG_FUZZING").is_some();
    let is_ours = std::env::var_os("CARGO_PKG_NAME").is_some_and(|name| name == "quickset-fec");
    // The target of fuzzing that is built of these sources has no features.
    let has_std = !is_ours || std::env::var_os("CARGO_FEATURE_STD").is_some();
    if has_std && std::env::var_os("CARGO_CFG_TARGET_ARCH").is_some_and(|arch| arch == "x86_64") {
        println!("cargo::rustc-cfg=vectors");
    }
    if !(is_fuzzed && is_ours) && minor_version().is_some_and(|minor| minor >= 89) {
        println!("cargo::rustc-cfg=wide");
    }
}

/// 89 of `rustc 1.89.0 (...)`. Without an answer the older kernels are built, which every compiler can.
fn minor_version() -> Option<u32> {
    let output = Command::new(std::env::var_os("RUSTC")?).arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    version.strip_prefix("rustc 1.")?.split('.').next()?.parse().ok()
}
