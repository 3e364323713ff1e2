//! Links ISA-L if its header is here (Debian: libisal-dev); without it the table says that it is missing.

use std::path::Path;

fn main() {
    let headers = ["/usr/include/isa-l.h", "/usr/local/include/isa-l.h"];
    for header in headers {
        println!("cargo::rerun-if-changed={header}");
    }
    if headers.iter().any(|header| Path::new(header).is_file()) {
        println!("cargo::rustc-cfg=isal");
        println!("cargo::rustc-link-lib=isal");
    }
}
