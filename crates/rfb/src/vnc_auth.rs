use core::fmt;

use des::cipher::{BlockCipherEncrypt, KeyInit};

/// A password for VncAuth (RFC 6143 §7.2.2). Only its first eight bytes count: the scheme is weak, and
/// belongs on a loopback connection or inside TLS.
#[derive(Clone, PartialEq, Eq)]
pub struct VncPassword([u8; 8]);

impl VncPassword {
    /// Takes the first eight bytes; a shorter password is filled up with zeros.
    pub fn new(password: &[u8]) -> Self {
        let mut key = [0; 8];
        for (to, from) in key.iter_mut().zip(password) {
            *to = *from;
        }
        Self(key)
    }

    /// The challenge, encrypted in two independent blocks with the password as key.
    pub fn answer(&self, challenge: &[u8; 16]) -> [u8; 16] {
        // The key has each byte's bits in the order of the first implementation: least significant first.
        let key = self.0.map(u8::reverse_bits);
        let des = des::Des::new(&key.into());
        let (first, second) = challenge.split_at(8);
        let mut answer = [0; 16];
        for (to, block) in answer.chunks_exact_mut(8).zip([first, second]) {
            let mut block: [u8; 8] = block.try_into().expect("half of sixteen bytes");
            let cipher = (&mut block).into();
            des.encrypt_block(cipher);
            to.copy_from_slice(&block);
        }
        answer
    }

    /// Whether `answer` is right. Takes the same time wherever it is wrong.
    pub fn verify(&self, challenge: &[u8; 16], answer: &[u8; 16]) -> bool {
        let right = self.answer(challenge);
        right.iter().zip(answer).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

/// Secret.
impl fmt::Debug for VncPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_that_of_openssl() {
        // "password" with the bits of each byte reversed is 0e86ceceeef64e26:
        // openssl enc -des-ecb -K 0e86ceceeef64e26 -nopad -provider legacy, fed the bytes 00 to 0f.
        let challenge = core::array::from_fn(|i| i as u8);
        let answer =
            [0xb8, 0x66, 0x92, 0x41, 0x25, 0xc8, 0xee, 0xbb, 0x9d, 0xeb, 0xc1, 0xdb, 0x61, 0xc5, 0x38, 0xe2];
        let password = VncPassword::new(b"password");
        assert_eq!(password.answer(&challenge), answer);
        assert!(password.verify(&challenge, &answer));
        for i in 0..16 {
            let mut wrong = answer;
            wrong[i] ^= 1;
            assert!(!password.verify(&challenge, &wrong));
        }
    }

    #[test]
    fn eight_bytes_count() {
        let challenge = [7; 16];
        assert_eq!(VncPassword::new(b"password and more"), VncPassword::new(b"password"));
        assert_eq!(VncPassword::new(b"abc"), VncPassword::new(b"abc\0\0\0\0\0"));
        assert_ne!(
            VncPassword::new(b"passwore").answer(&challenge),
            VncPassword::new(b"password").answer(&challenge)
        );
        assert_eq!(format!("{:?}", VncPassword::new(b"abc")), "Password(..)");
    }
}
