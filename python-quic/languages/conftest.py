"""These tests need programs in C and Rust, which `cargo xtask languages` builds and names."""

import os

if "QUICKSET_LANGUAGES" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
