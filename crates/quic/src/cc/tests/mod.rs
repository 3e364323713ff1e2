mod cubic;
mod hand;
mod hystart;
pub(crate) mod link;
mod newreno;
mod pacer;
