//! Tells which vector kernels there are: on x86-64 and 64-bit ARM, where the standard library says what the
//! machine has, and on WebAssembly, where the compiler was told. And whether the compiler has the intrinsics
//! of AVX-512 and GFNI, stable since Rust 1.89; the crate's oldest is 1.85.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=RUSTC");
    println!("cargo::rustc-check-cfg=cfg(vectors, wide, x86, neon, simd128)");
    // Under a sanitizer the wide kernels take minutes to compile: of the targets one has them, which is about
    // them, and is built by this script as well (fuzz/fuzz_targets/fec_kernels.rs). The others look for what
    // decoders do with what kernels give.
    let is_fuzzed = std::env::var_os("CARGO_CFG_FUZZING").is_some();
    let is_ours = std::env::var_os("CARGO_PKG_NAME").is_some_and(|name| name == "quickset-fec");
    // The target of fuzzing that is built of these sources has no features.
    let has_std = !is_ours || std::env::var_os("CARGO_FEATURE_STD").is_some();
    let told = |name: &str| std::env::var(name).unwrap_or_default();
    let kernels = match &*told("CARGO_CFG_TARGET_ARCH") {
        "x86_64" if has_std => "x86",
        // The other order of bytes is nothing that these instructions were tried with.
        "aarch64" if has_std && told("CARGO_CFG_TARGET_ENDIAN") == "little" => "neon",
        "wasm32" if told("CARGO_CFG_TARGET_FEATURE").split(',').any(|feature| feature == "simd128") => {
            "simd128"
        }
        _ => return,
    };
    println!("cargo::rustc-cfg=vectors\ncargo::rustc-cfg={kernels}");
    let is_wide = kernels == "x86" && minor_version().is_some_and(|minor| minor >= 89);
    if is_wide && !(is_fuzzed && is_ours) {
        println!("cargo::rustc-cfg=wide");
    }
}

/// 89 of `rustc 1.89.0 (...)`. Without an answer the older kernels are built, which every compiler can.
fn minor_version() -> Option<u32> {
    let output = Command::new(std::env::var_os("RUSTC")?).arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    version.strip_prefix("rustc 1.")?.split('.').next()?.parse().ok()
}
