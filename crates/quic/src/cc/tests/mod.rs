mod cap;
mod classic;
mod cubic;
mod hand;
mod hystart;
pub(crate) mod link;
mod pacer;
