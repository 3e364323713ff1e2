pub(crate) mod link;
