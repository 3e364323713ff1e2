//! Opus, by libopus: in the feature `sound`, since it takes a C compiler and cmake to build.

use bytes::Bytes;

/// Why sound cannot be encoded or decoded.
#[derive(Debug, thiserror::Error)]
pub(super) enum CodecFault {
    #[error("this build has no sound: build it with the feature `sound`")]
    #[cfg_attr(feature = "sound", expect(dead_code, reason = "of builds without"))]
    Missing,
    #[cfg(feature = "sound")]
    #[error("Opus: {0}")]
    Opus(#[from] opus::Error),
}

/// Makes packets of sound.
pub(super) struct SoundEncoder(OpusEncoder);

/// Makes sound of packets.
pub(super) struct SoundDecoder(OpusDecoder);

#[cfg(feature = "sound")]
use opus::{Decoder as OpusDecoder, Encoder as OpusEncoder};
/// Without libopus there is none.
#[cfg(not(feature = "sound"))]
use std::convert::{Infallible as OpusDecoder, Infallible as OpusEncoder};

#[cfg(feature = "sound")]
mod with_opus {
    use opus::{Application, Bitrate, Channels, Decoder, Encoder};
    use quickset_screen::sound::{FRAME_SAMPLES, MAX_PACKET, SAMPLE_RATE};

    use super::super::CHANNELS;
    use super::{Bytes, CodecFault, SoundDecoder, SoundEncoder};

    impl SoundEncoder {
        pub(in super::super) fn new() -> Result<Self, CodecFault> {
            let mut encoder = Encoder::new(SAMPLE_RATE, Channels::Stereo, Application::Audio)?;
            encoder.set_bitrate(Bitrate::Bits(BITRATE))?;
            // Packets of one length: repair is as long as the longest that it is for.
            encoder.set_vbr(false)?;
            Ok(Self(encoder))
        }

        /// A packet of 20 ms, of both channels in turns.
        pub(in super::super) fn encode(&mut self, sound: &[i16]) -> Result<Bytes, CodecFault> {
            Ok(self.0.encode_vec(sound, MAX_PACKET)?.into())
        }
    }

    impl SoundDecoder {
        pub(in super::super) fn new() -> Result<Self, CodecFault> {
            Ok(Self(Decoder::new(SAMPLE_RATE, Channels::Stereo)?))
        }

        /// The 20 ms of a packet, of both channels in turns; without one, what conceals the gap.
        pub(in super::super) fn decode(&mut self, packet: Option<&[u8]>) -> Result<Vec<i16>, CodecFault> {
            let mut out = vec![0; usize::from(FRAME_SAMPLES) * CHANNELS];
            // An empty one is a gap to libopus; there is none, since it would not be of 20 ms (DT-71).
            let samples = self.0.decode(packet.unwrap_or_default(), &mut out, false)?;
            out.truncate(samples * CHANNELS);
            Ok(out)
        }
    }

    /// In bit/s: music in stereo that is hard to tell from the original.
    const BITRATE: i32 = 96_000;
}

#[cfg(not(feature = "sound"))]
mod without_opus {
    use super::{Bytes, CodecFault, SoundDecoder, SoundEncoder};

    impl SoundEncoder {
        pub(in super::super) fn new() -> Result<Self, CodecFault> {
            Err(CodecFault::Missing)
        }

        pub(in super::super) fn encode(&mut self, _: &[i16]) -> Result<Bytes, CodecFault> {
            match self.0 {}
        }
    }

    impl SoundDecoder {
        pub(in super::super) fn new() -> Result<Self, CodecFault> {
            Err(CodecFault::Missing)
        }

        pub(in super::super) fn decode(&mut self, _: Option<&[u8]>) -> Result<Vec<i16>, CodecFault> {
            match self.0 {}
        }
    }
}

#[cfg(all(test, feature = "sound"))]
mod tests {
    use quickset_base::number::Unsigned as _;
    use quickset_screen::sound::{FRAME_SAMPLES, SoundFrame};

    use super::super::CHANNELS;
    use super::*;

    /// A tone of 1 kHz, and frames of it.
    fn tone(frame: usize) -> Vec<i16> {
        let samples = usize::from(FRAME_SAMPLES);
        let value = |n: usize| ((n.approx() * std::f64::consts::TAU / 48.0).sin() * 8000.0) as i16;
        (frame * samples..(frame + 1) * samples).flat_map(|n| [value(n); CHANNELS]).collect()
    }

    /// The share of the energy that is in the tone: an independent measure, by correlation with it.
    fn purity(sound: &[i16]) -> f64 {
        let left: Vec<f64> = sound.iter().step_by(CHANNELS).map(|n| f64::from(*n)).collect();
        let angle = |n: usize| n.approx() * std::f64::consts::TAU / 48.0;
        let cos: f64 = left.iter().enumerate().map(|(n, x)| x * angle(n).cos()).sum();
        let sin: f64 = left.iter().enumerate().map(|(n, x)| x * angle(n).sin()).sum();
        let energy: f64 = left.iter().map(|x| x * x).sum();
        (cos * cos + sin * sin) * 2.0 / left.len().approx() / energy
    }

    #[test]
    fn a_tone_is_a_tone_again_and_a_gap_in_it_is_concealed() {
        let (mut encoder, mut decoder) = (SoundEncoder::new().unwrap(), SoundDecoder::new().unwrap());
        for n in 0..50 {
            let packet = encoder.encode(&tone(n)).unwrap();
            // DT-69, and what repair is good for: all of one length.
            assert_eq!(packet.len(), 240, "96 kbit/s for 20 ms");
            let frame = SoundFrame { number: 0, time: 0, packet: packet.clone() };
            assert!(SoundFrame::read(&frame.record()).is_some(), "20 ms by its first byte");
            let heard = decoder.decode((n != 30).then_some(&packet[..])).unwrap();
            assert_eq!(heard.len(), usize::from(FRAME_SAMPLES) * CHANNELS);
            if n > 5 {
                assert!(purity(&heard) > 0.95, "{n}: {}", purity(&heard));
            }
        }
    }

    #[test]
    fn a_packet_that_makes_no_sense_is_an_error_or_noise_and_no_panic() {
        let (mut encoder, mut decoder) = (SoundEncoder::new().unwrap(), SoundDecoder::new().unwrap());
        let whole = encoder.encode(&tone(0)).unwrap();
        let mut odd = 1_u32;
        for length in 1..whole.len() {
            let mut cut = whole[..length].to_vec();
            for byte in &mut cut[1..] {
                odd = odd.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte ^= if length % 2 == 0 { (odd >> 24) as u8 } else { 0 };
            }
            if let Ok(heard) = decoder.decode(Some(&cut)) {
                assert_eq!(heard.len(), usize::from(FRAME_SAMPLES) * CHANNELS);
            }
        }
        // Of more than 20 ms there is no room, and none is made.
        assert!(decoder.decode(Some(&[0x18, 1, 2, 3])).is_err());
        assert!(decoder.decode(Some(&[0xff, 0xff, 0xff])).is_err());
    }
}
