<!-- built by cargo xtask web -->
