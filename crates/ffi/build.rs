//! Programs find the shared library by the number of its interface, and not by the name of the file that they
//! were linked with.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libquickset.so.{major}");
    }
}
