use std::collections::HashMap;
use std::ffi::c_void;

use quickset_base::number::{Float as _, Unsigned as _};

/// What processor time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::timing) enum CpuPart {
    /// Calls of the system that send, and what prepares them.
    Sending,
    /// The same of those that receive.
    Receiving,
    /// What came is read and acted on: frames, loss detection, congestion control, and the record of packets
    /// that these need.
    Acks,
    /// Headers are protected, and protection taken off.
    Headers,
    /// The rest of cryptography: what packets or records hold.
    Payload,
    /// Files are read.
    File,
    /// Packets are filled, bytes copied, tasks run, memory managed.
    Rest,
}

/// Samples, by what they were of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::timing) struct Spent([f64; PARTS]);

impl Spent {
    /// So many samples of a place that belongs to these parts alike.
    pub(super) fn add(&mut self, parts: &[CpuPart], samples: u64) {
        for part in parts {
            self.0[*part as usize] += samples.approx() / parts.len().approx();
        }
    }

    /// How many there are.
    pub(in crate::timing) fn samples(&self) -> u64 {
        self.0.iter().sum::<f64>().round().whole::<u64>()
    }

    /// The share of a part.
    pub(in crate::timing) fn share(&self, part: CpuPart) -> f64 {
        self.0[part as usize] / self.0.iter().sum::<f64>().max(1.0)
    }
}

/// What is at an address: a function, and those that the compiler put it into, the innermost first.
#[derive(Clone, Debug, Default)]
struct CodeFrame {
    name: String,
    file: String,
}

/// What addresses are called, from the symbols and the tables of lines in the program and its libraries.
#[derive(Debug, Default)]
pub(super) struct SymbolNames {
    known: HashMap<(u64, bool), Vec<CpuPart>>,
}

impl SymbolNames {
    /// What somebody does who is at this address.
    pub(super) fn parts(&mut self, address: u64, is_kernel: bool) -> Vec<CpuPart> {
        let known = self.known.entry((address, is_kernel));
        known
            .or_insert_with(|| {
                let frames = frames(address, is_kernel);
                if is_kernel { vec![of_call(&frames)] } else { of_code(&frames) }
            })
            .clone()
    }
}

fn frames(address: u64, is_kernel: bool) -> Vec<CodeFrame> {
    let mut frames = Vec::new();
    // An address is taken for one to return to, of which the call is right before it: so it is behind a
    // system call, and nowhere else.
    let at = if is_kernel { address } else { address + 1 };
    backtrace::resolve(std::ptr::without_provenance_mut::<c_void>(at.saturated::<usize>()), |symbol| {
        frames.push(CodeFrame {
            name: symbol.name().map(|name| format!("{name:#}")).unwrap_or_default(),
            file: symbol.filename().map(|file| file.display().to_string()).unwrap_or_default(),
        });
    });
    frames
}

/// What the kernel does for somebody, by the name of the function in the system's library that called it.
fn of_call(frames: &[CodeFrame]) -> CpuPart {
    let named = |names: &[&str]| frames.iter().any(|frame| names.contains(&bare(&frame.name)));
    if named(&["send", "sendto", "sendmsg", "sendmmsg", "writev"]) {
        CpuPart::Sending
    } else if named(&["recv", "recvfrom", "recvmsg", "recvmmsg"]) {
        CpuPart::Receiving
    } else if named(&["read", "pread64", "pread", "readv", "preadv2", "lseek64", "lseek", "open64", "open"]) {
        CpuPart::File
    } else {
        CpuPart::Rest
    }
}

/// `__libc_sendmsg`, `__GI___sendmsg` and `sendmsg@plt` are names of `sendmsg`.
fn bare(name: &str) -> &str {
    let mut name = name.split('@').next().unwrap_or(name);
    loop {
        let inner = name.trim_start_matches('_');
        let inner = inner.strip_prefix("libc_").or_else(|| inner.strip_prefix("GI_")).unwrap_or(inner);
        if inner == name {
            return name;
        }
        name = inner;
    }
}

/// What code does: the innermost function that says so decides, so that what is made of a standard function
/// belongs to whoever it was put into.
fn of_code(frames: &[CodeFrame]) -> Vec<CpuPart> {
    frames.iter().find_map(of_frame).unwrap_or_else(|| vec![CpuPart::Rest])
}

fn of_frame(frame: &CodeFrame) -> Option<Vec<CpuPart>> {
    let has = |text: &str| frame.name.contains(text);
    // One block of AES is a mask: of the header, or of the tag, of each packet one.
    if has("aes_hw_encrypt") && !has("blocks") {
        return Some(vec![CpuPart::Headers, CpuPart::Payload]);
    }
    let crypto = || if HEADERS.iter().any(|name| has(name)) { CpuPart::Headers } else { CpuPart::Payload };
    if ASSEMBLY.iter().any(|name| has(name)) {
        return Some(vec![crypto()]);
    }
    let (_, part) = FILES.iter().find(|(file, _)| frame.file.contains(file))?;
    Some(vec![match part {
        CpuPart::Payload => crypto(),
        CpuPart::Sending if has("recv") => CpuPart::Receiving,
        part => *part,
    }])
}

/// What protects headers, by name: ours, and that of rustls and aws-lc-rs.
const HEADERS: &[&str] = &["HeaderProtection", "keys::Header", "new_mask", "xor_in_place"];

/// Functions of aws-lc in assembly and C, which have no lines; the labels within them, too.
const ASSEMBLY: &[&str] = &[
    "aws_lc_",
    "aes_gcm",
    "gcm_",
    "ghash",
    "aesni",
    "aes_hw",
    "iv_len_12",
    "aead_",
    "chacha20",
    "poly1305",
    "EVP_",
    "CRYPTO_",
];

/// Whose code is what: parts of the paths of files.
const FILES: &[(&str, CpuPart)] = &[
    ("crates/tls/src/", CpuPart::Payload),
    ("crates/quic/src/ack/", CpuPart::Acks),
    ("crates/quic/src/recovery/", CpuPart::Acks),
    ("crates/quic/src/cc/", CpuPart::Acks),
    ("crates/quic/src/rx/", CpuPart::Acks),
    ("crates/quic/src/conn/settle.rs", CpuPart::Acks),
    ("crates/wire/src/frame/ack.rs", CpuPart::Acks),
    ("crates/wire/src/frame/decode.rs", CpuPart::Acks),
    ("crates/net/src/outlet.rs", CpuPart::Sending),
    ("crates/net/src/udp.rs", CpuPart::Sending),
    ("/quinn-udp-", CpuPart::Sending),
    ("/rustls-0.", CpuPart::Payload),
    ("/tokio-rustls-", CpuPart::Payload),
    ("/aws-lc-rs-", CpuPart::Payload),
    ("/aws-lc-sys-", CpuPart::Payload),
];

const PARTS: usize = CpuPart::Rest as usize + 1;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn of(frames: &[(&str, &str)]) -> Vec<CpuPart> {
        let frames =
            frames.iter().map(|(name, file)| CodeFrame { name: (*name).into(), file: (*file).into() });
        of_code(&frames.collect::<Vec<_>>())
    }

    /// A table that names a file that was moved would tell less and less.
    #[test]
    fn our_files_are_where_they_are_said_to_be() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (file, _) in FILES.iter().filter(|(file, _)| file.starts_with("crates/")) {
            assert!(root.join(file).exists(), "{file}");
        }
    }

    #[test]
    fn the_innermost_that_says_so_decides() {
        let std =
            ("alloc::collections::vec_deque::VecDeque<T,A>::push_back", "/rustc/x/library/alloc/src/vec.rs");
        let sent = ("quickset_quic::recovery::sent::Ring::push", "/x/crates/quic/src/recovery/sent.rs");
        let fill = ("quickset_quic::tx::fill", "/x/crates/quic/src/tx/fill.rs");
        assert_eq!(of(&[std, sent, fill]), [CpuPart::Acks]);
        assert_eq!(of(&[std, fill]), [CpuPart::Rest]);
        assert_eq!(of(&[("__memmove_avx512_unaligned_erms", "")]), [CpuPart::Rest]);
        assert_eq!(of(&[]), [CpuPart::Rest]);
    }

    #[test]
    fn headers_are_told_from_payload() {
        let header = "rustls::crypto::aws_lc_rs::quic::HeaderProtectionKey::xor_in_place";
        assert_eq!(of(&[(header, "/c/rustls-0.23.46/src/crypto/aws_lc_rs/quic.rs")]), [CpuPart::Headers]);
        let seal = "<quickset_tls::keys::Packet as quickset_quic::keys::session::PacketKey>::seal";
        assert_eq!(of(&[(seal, "/x/crates/tls/src/keys.rs")]), [CpuPart::Payload]);
        for name in [
            "aws_lc_0_47_0_aes_gcm_encrypt_avx512",
            "skip_iv_len_12_init_IV",
            "aead_aes_gcm_seal_scatter_impl",
        ] {
            assert_eq!(of(&[(name, "")]), [CpuPart::Payload], "{name}");
        }
        assert_eq!(of(&[("aws_lc_0_47_0_aes_hw_encrypt", "")]), [CpuPart::Headers, CpuPart::Payload]);
        assert_eq!(of(&[("aws_lc_0_47_0_aes_hw_ctr32_encrypt_blocks", "")]), [CpuPart::Payload]);
    }

    #[test]
    fn system_calls_are_known_by_their_names() {
        for (name, part) in [
            ("__libc_sendmsg", CpuPart::Sending),
            ("sendmmsg", CpuPart::Sending),
            ("__recvmmsg", CpuPart::Receiving),
            ("recv", CpuPart::Receiving),
            ("__GI___libc_read", CpuPart::File),
            ("epoll_wait", CpuPart::Rest),
            ("send_request", CpuPart::Rest),
        ] {
            assert_eq!(of_call(&[CodeFrame { name: name.into(), file: String::new() }]), part, "{name}");
        }
    }

    #[test]
    fn shares_are_of_all_samples() {
        let mut spent = Spent::default();
        spent.add(&[CpuPart::Sending], 6);
        spent.add(&[CpuPart::Headers, CpuPart::Payload], 2);
        assert_eq!(spent.samples(), 8);
        for (part, share) in [(CpuPart::Sending, 0.75), (CpuPart::Headers, 0.125), (CpuPart::Rest, 0.0)] {
            assert!((spent.share(part) - share).abs() < 1e-9, "{part:?}");
        }
    }
}
