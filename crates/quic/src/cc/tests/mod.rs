mod cubic;
pub(crate) mod link;
mod pacer;
