/// Shared estimates (temporary seam).
#[derive(Debug, Default)] pub struct Estimates {}
