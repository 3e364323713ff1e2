use core::fmt;

/// A transport error code as CONNECTION_CLOSE carries it (RFC 9000 §20.1), at most 2^62 - 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransportErrorCode(pub u64);

impl TransportErrorCode {
    /// The connection ends without an error.
    pub const NO_ERROR: Self = Self(0x00);
    /// Something broke on the side that closes.
    pub const INTERNAL_ERROR: Self = Self(0x01);
    /// The server does not take new connections.
    pub const CONNECTION_REFUSED: Self = Self(0x02);
    /// More data than was allowed.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x03);
    /// A stream beyond the number that was allowed.
    pub const STREAM_LIMIT_ERROR: Self = Self(0x04);
    /// A frame for a stream in whose state it cannot come.
    pub const STREAM_STATE_ERROR: Self = Self(0x05);
    /// The end of a stream moved, or data lies beyond it.
    pub const FINAL_SIZE_ERROR: Self = Self(0x06);
    /// A frame that cannot be read.
    pub const FRAME_ENCODING_ERROR: Self = Self(0x07);
    /// Transport parameters that are malformed, out of range, missing or not the sender's to give.
    pub const TRANSPORT_PARAMETER_ERROR: Self = Self(0x08);
    /// More connection ids than were allowed.
    pub const CONNECTION_ID_LIMIT_ERROR: Self = Self(0x09);
    /// Any other breach of the protocol.
    pub const PROTOCOL_VIOLATION: Self = Self(0x0a);
    /// A client's Initial with a token that is not good.
    pub const INVALID_TOKEN: Self = Self(0x0b);
    /// The application refused; what a close by it becomes before the handshake is done.
    pub const APPLICATION_ERROR: Self = Self(0x0c);
    /// More CRYPTO data than fits the buffer.
    pub const CRYPTO_BUFFER_EXCEEDED: Self = Self(0x0d);
    /// A key update that the rules forbid (RFC 9001 §6).
    pub const KEY_UPDATE_ERROR: Self = Self(0x0e);
    /// The limit of the AEAD is used up (RFC 9001 §6.6).
    pub const AEAD_LIMIT_REACHED: Self = Self(0x0f);
    /// No network path can carry QUIC.
    pub const NO_VIABLE_PATH: Self = Self(0x10);
    /// Version negotiation went wrong (RFC 9368 §4).
    pub const VERSION_NEGOTIATION_ERROR: Self = Self(0x11);
    /// A breach of the rules of fenced streams (`spec/fenced-streams.md`).
    pub const FENCE_ERROR: Self = Self(0x0071_53f1);
    /// A breach of the rules of forward erasure correction (`spec/fec.md`).
    pub const FEC_ERROR: Self = Self(0x0715_3fec);

    /// CRYPTO_ERROR: the TLS alert that ended the handshake (RFC 9001 §4.8).
    pub const fn crypto(alert: u8) -> Self {
        Self(0x0100 | alert as u64)
    }

    /// The TLS alert, when this is a CRYPTO_ERROR.
    pub const fn alert(self) -> Option<u8> {
        match self.0 {
            0x0100..=0x01ff => Some((self.0 & 0xff) as u8),
            _ => None,
        }
    }

    /// True for a CRYPTO_ERROR, 0x0100 to 0x01ff.
    pub const fn is_crypto(self) -> bool {
        self.alert().is_some()
    }

    /// The name of the TLS alert (RFC 8446 §B.2, and §6 of what came before it), when this is a CRYPTO_ERROR
    /// with one that has a name.
    pub const fn alert_name(self) -> Option<&'static str> {
        let Some(alert) = self.alert() else { return None };
        Some(match alert {
            0 => "close_notify",
            10 => "unexpected_message",
            20 => "bad_record_mac",
            21 => "decryption_failed",
            22 => "record_overflow",
            30 => "decompression_failure",
            40 => "handshake_failure",
            41 => "no_certificate",
            42 => "bad_certificate",
            43 => "unsupported_certificate",
            44 => "certificate_revoked",
            45 => "certificate_expired",
            46 => "certificate_unknown",
            47 => "illegal_parameter",
            48 => "unknown_ca",
            49 => "access_denied",
            50 => "decode_error",
            51 => "decrypt_error",
            52 => "too_many_cids_requested",
            60 => "export_restriction",
            70 => "protocol_version",
            71 => "insufficient_security",
            80 => "internal_error",
            86 => "inappropriate_fallback",
            90 => "user_canceled",
            100 => "no_renegotiation",
            109 => "missing_extension",
            110 => "unsupported_extension",
            111 => "certificate_unobtainable",
            112 => "unrecognized_name",
            113 => "bad_certificate_status_response",
            114 => "bad_certificate_hash_value",
            115 => "unknown_psk_identity",
            116 => "certificate_required",
            117 => "general_error",
            120 => "no_application_protocol",
            121 => "ech_required",
            _ => return None,
        })
    }

    const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NO_ERROR => "NO_ERROR",
            Self::INTERNAL_ERROR => "INTERNAL_ERROR",
            Self::CONNECTION_REFUSED => "CONNECTION_REFUSED",
            Self::FLOW_CONTROL_ERROR => "FLOW_CONTROL_ERROR",
            Self::STREAM_LIMIT_ERROR => "STREAM_LIMIT_ERROR",
            Self::STREAM_STATE_ERROR => "STREAM_STATE_ERROR",
            Self::FINAL_SIZE_ERROR => "FINAL_SIZE_ERROR",
            Self::FRAME_ENCODING_ERROR => "FRAME_ENCODING_ERROR",
            Self::TRANSPORT_PARAMETER_ERROR => "TRANSPORT_PARAMETER_ERROR",
            Self::CONNECTION_ID_LIMIT_ERROR => "CONNECTION_ID_LIMIT_ERROR",
            Self::PROTOCOL_VIOLATION => "PROTOCOL_VIOLATION",
            Self::INVALID_TOKEN => "INVALID_TOKEN",
            Self::APPLICATION_ERROR => "APPLICATION_ERROR",
            Self::CRYPTO_BUFFER_EXCEEDED => "CRYPTO_BUFFER_EXCEEDED",
            Self::KEY_UPDATE_ERROR => "KEY_UPDATE_ERROR",
            Self::AEAD_LIMIT_REACHED => "AEAD_LIMIT_REACHED",
            Self::NO_VIABLE_PATH => "NO_VIABLE_PATH",
            Self::VERSION_NEGOTIATION_ERROR => "VERSION_NEGOTIATION_ERROR",
            Self::FENCE_ERROR => "FENCE_ERROR",
            Self::FEC_ERROR => "FEC_ERROR",
            _ => return None,
        })
    }
}

/// The name of the RFC, with that of a TLS alert and its number (`CRYPTO_ERROR handshake_failure (40)`), or
/// the number.
impl fmt::Display for TransportErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.alert(), self.alert_name()) {
            (Some(name), ..) => f.write_str(name),
            (None, Some(alert), Some(name)) => write!(f, "CRYPTO_ERROR {name} ({alert})"),
            (None, Some(alert), None) => write!(f, "CRYPTO_ERROR alert {alert}"),
            (None, None, _) => write!(f, "{:#x}", self.0),
        }
    }
}

impl fmt::Debug for TransportErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::TransportErrorCode as Code;

    #[test]
    fn codes_are_printed_by_name() {
        assert_eq!(Code(0x0a).to_string(), "PROTOCOL_VIOLATION");
        assert_eq!(Code(0x0171_53f1).to_string(), "0x17153f1");
        assert_eq!(Code(0x0071_53f1).to_string(), "FENCE_ERROR");
        assert_eq!(Code(0x0715_3fec).to_string(), "FEC_ERROR");
    }

    /// RFC 8446 §B.2, RFC 7301 §3.2.
    #[test]
    fn alerts_are_printed_by_name_and_number() {
        assert_eq!(Code(0x010a).to_string(), "CRYPTO_ERROR unexpected_message (10)");
        assert_eq!(Code(0x0128).to_string(), "CRYPTO_ERROR handshake_failure (40)");
        assert_eq!(Code(0x0178).to_string(), "CRYPTO_ERROR no_application_protocol (120)");
        assert_eq!(Code(0x0100).to_string(), "CRYPTO_ERROR close_notify (0)");
        assert_eq!(Code(0x01ff).to_string(), "CRYPTO_ERROR alert 255");
        assert_eq!((Code(0x00ff).alert_name(), Code(0x0228).alert_name()), (None, None));
    }

    #[test]
    fn crypto_errors_fill_their_range() {
        for alert in 0..=255 {
            assert_eq!(Code::crypto(alert).alert(), Some(alert));
        }
        assert_eq!(Code::crypto(120).0, 0x0178);
        assert!(!Code(0x00ff).is_crypto() && !Code(0x0200).is_crypto());
    }
}
