//! TLS that the application configured itself: whether QUIC can use it, and what is made of it.

use std::sync::Arc;

use quickset_tls::TlsConfigError as Unfit;
use rustls::crypto::CryptoProvider;

use crate::ConfigError;

/// Why `tls` is not for a server of QUIC, if it is not.
pub(crate) fn check_server(tls: &rustls::ServerConfig) -> Result<(), ConfigError> {
    check(&tls.alpn_protocols, tls.crypto_provider())?;
    // RFC 9001 §4.6.1: in QUIC this is no number of bytes but a no or a yes.
    if !matches!(tls.max_early_data_size, 0 | u32::MAX) {
        return Err(ConfigError::EarlySize(tls.max_early_data_size));
    }
    quickset_tls::Server::new(Arc::new(server(tls))).map(drop).map_err(refusal)
}

/// Why `tls` is not for a client of QUIC, if it is not.
pub(crate) fn check_client(tls: &rustls::ClientConfig) -> Result<(), ConfigError> {
    check(&tls.alpn_protocols, tls.crypto_provider())?;
    quickset_tls::Client::new(Arc::new(client(tls))).map(drop).map_err(refusal)
}

/// A copy that takes no early data unless it is told to by us, who keep the register of tickets then.
pub(crate) fn server(tls: &rustls::ServerConfig) -> rustls::ServerConfig {
    let mut tls = tls.clone();
    tls.max_early_data_size = 0;
    tls
}

/// A copy that sends no early data unless it is told to by us.
pub(crate) fn client(tls: &rustls::ClientConfig) -> rustls::ClientConfig {
    let mut tls = tls.clone();
    tls.enable_early_data = false;
    tls
}

/// RFC 7301 §3.1.
pub(crate) fn check_protocols(names: &[Vec<u8>]) -> Result<(), ConfigError> {
    if names.is_empty() {
        return Err(ConfigError::NoProtocol);
    }
    if names.iter().any(|name| name.is_empty() || name.len() > 255) {
        return Err(ConfigError::BadProtocol);
    }
    Ok(())
}

fn check(protocols: &[Vec<u8>], provider: &CryptoProvider) -> Result<(), ConfigError> {
    check_protocols(protocols)?;
    let mut suites = provider.cipher_suites.iter().filter_map(rustls::SupportedCipherSuite::tls13).peekable();
    if suites.peek().is_some() && !suites.any(|suite| suite.quic.is_some()) {
        return Err(ConfigError::NoQuicSuite);
    }
    Ok(())
}

fn refusal(error: Unfit) -> ConfigError {
    match error {
        // RFC 9001 §4.2: of what the library says in words alone, this is what is left.
        Unfit::Tls(rustls::Error::General(_)) => ConfigError::NoTls13,
        Unfit::Tls(error) => ConfigError::Unfit(error),
        Unfit::NoApplicationProtocol => ConfigError::NoProtocol,
        // Early data is off.
        Unfit::EarlyProtocols | Unfit::EarlyTickets => ConfigError::EarlyProtocols,
    }
}
