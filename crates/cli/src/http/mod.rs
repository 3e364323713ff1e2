mod get;
mod pulse;
pub(crate) mod reach;
mod serve;
mod site;
pub(crate) mod url;

use clap::Subcommand;
use quickset::{AckPolicy, Algorithm, MtuDiscovery, TransportConfig};

use crate::qlog::QlogArgs;
use crate::values;

/// Serve files by HTTP/3, HTTP/2 and HTTP/1.1, or fetch them by HTTP/3.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, arg_required_else_help = true)]
pub(crate) struct HttpArgs {
    #[command(subcommand)]
    side: HttpSide,
}

#[derive(Debug, Subcommand)]
enum HttpSide {
    Serve(serve::HttpServeArgs),
    Get(get::GetArgs),
}

/// How connections behave.
#[derive(Debug, clap::Args)]
struct TransportArgs {
    #[arg(long, help = values::http_controllers(), value_parser = values::congestion)]
    cc: Option<Algorithm>,
    /// Send datagrams of 1200 bytes, and do not look for what the path takes
    #[arg(long)]
    no_mtu_search: bool,
    /// Acknowledgements of HTTP/3, as `quickset perf` has them: after how many packets the other side
    /// acknowledges at the start, whether that adapts to what this one can handle (adaptive or fixed), and
    /// whether a batch that came is answered and acted on as one, or datagram by datagram (merged or single).
    /// 10:fixed is every tenth packet
    #[arg(long, value_name = "WORDS", default_value_t, value_parser = values::acks)]
    ack: AckPolicy,
    #[command(flatten)]
    qlog: QlogArgs,
}

impl TransportArgs {
    fn config(&self) -> anyhow::Result<TransportConfig> {
        Ok(TransportConfig::default()
            .with_congestion(self.cc.clone().unwrap_or_default())
            .with_acks(self.ack)
            .with_mtu_discovery((!self.no_mtu_search).then(MtuDiscovery::default))
            .with_qlog(self.qlog.sinks()?))
    }
}

pub(crate) fn run(args: HttpArgs) -> anyhow::Result<()> {
    match args.side {
        HttpSide::Serve(args) => crate::block_on(serve::run(args)),
        HttpSide::Get(args) => crate::block_on(get::run(args)),
    }
}

const EXAMPLE: &str = "\
Example: a folder, and from another terminal a file of it, with the fingerprint that the first one prints
  quickset http serve ./site --listen 127.0.0.1:4433
  quickset http get https://127.0.0.1:4433/index.html --pin sha256:…";
