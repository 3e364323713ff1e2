//! Pins, as browsers have them.

/// The fingerprint of a key, as the browser wants it.
pub(crate) fn base64(pin: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let hex = pin.strip_prefix("sha256:").unwrap();
    let byte = |at: usize| u32::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let bytes: Vec<u32> = (0..hex.len()).step_by(2).map(byte).collect();
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let all = three.iter().enumerate().fold(0, |all, (at, byte)| all | byte << (16 - 8 * at));
        let letter =
            |at: usize| if at <= three.len() { LETTERS[(all >> (18 - 6 * at) & 63) as usize] } else { b'=' };
        out.extend((0..4).map(|at| letter(at) as char));
    }
    out
}
