//! Servers that say what no server should, to `http get`, `play` and `desktop view`: it ends in time with a
//! sentence, or goes on as long as somebody gets something of it; it holds little; and nothing that is not
//! whole is taken for a file.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![expect(clippy::cast_possible_truncation, reason = "numbers in tests are small, or cut on purpose")]

mod get;
mod play;
mod run;
mod server;
mod two;
mod view;
mod wire;
