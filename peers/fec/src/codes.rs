//! The contestants. Each owns its output, and is given what its interface wants beforehand where it can be.

use anyhow::Result;
use quickset_fec::{gf256::Kernel, reed_solomon};
use raptorq::{
    EncodingPacket, ObjectTransmissionInformation, SourceBlockDecoder, SourceBlockEncoder,
    SourceBlockEncodingPlan,
};
use reed_solomon_erasure::galois_8::ReedSolomon;
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

use crate::{FecBlock, LOST, REPAIRS, SIZE, SOURCES};

/// An erasure code with a block of its own.
pub(crate) trait BlockCode {
    fn name(&self) -> String;
    /// Computes the repair symbols.
    fn encode(&mut self);
    /// Computes the lost sources.
    fn decode(&mut self);
    /// A source that `decode` computed.
    fn recovered(&self, lost: usize) -> &[u8];
}

pub(crate) fn all(block: &FecBlock) -> Result<Vec<Box<dyn BlockCode + '_>>> {
    Ok(vec![
        #[cfg(isal)]
        Box::new(crate::isal::Isal::new(block)),
        Box::new(Simd::new(block)?),
        Box::new(Erasure::new(block)?),
        Box::new(RaptorQ::new(block)),
        Box::new(Quickset::new(block)),
    ])
}

struct Quickset<'a> {
    sources: Vec<&'a [u8]>,
    received: Vec<Option<&'a [u8]>>,
    repairs: Vec<Vec<u8>>,
    recovered: Vec<Vec<u8>>,
}

impl<'a> Quickset<'a> {
    fn new(block: &'a FecBlock) -> Self {
        let sources = block.symbols();
        let mut received: Vec<_> = sources.iter().copied().map(Some).collect();
        for j in LOST {
            received[j] = None;
        }
        Self {
            sources,
            received,
            repairs: vec![vec![0; SIZE]; REPAIRS],
            recovered: vec![vec![0; SIZE]; REPAIRS],
        }
    }
}

impl BlockCode for Quickset<'_> {
    fn name(&self) -> String {
        format!("quickset-fec ({})", Kernel::best().name())
    }

    fn encode(&mut self) {
        let mut repairs = self.repairs.each_slice();
        reed_solomon::encode(&self.sources, &mut repairs).expect("the block is fine");
    }

    fn decode(&mut self) {
        let repairs: Vec<(u8, &[u8])> = (0..).zip(self.repairs.iter().map(Vec::as_slice)).collect();
        let mut recovered = self.recovered.each_slice();
        reed_solomon::decode(&self.received, &repairs, &mut recovered).expect("the block is fine");
    }

    fn recovered(&self, lost: usize) -> &[u8] {
        &self.recovered[lost]
    }
}

trait EachSlice {
    fn each_slice(&mut self) -> Vec<&mut [u8]>;
}

impl EachSlice for Vec<Vec<u8>> {
    fn each_slice(&mut self) -> Vec<&mut [u8]> {
        self.iter_mut().map(Vec::as_mut_slice).collect()
    }
}

struct Simd<'a> {
    block: &'a FecBlock,
    encoder: ReedSolomonEncoder,
    decoder: ReedSolomonDecoder,
    repairs: Vec<Vec<u8>>,
    recovered: Vec<Vec<u8>>,
}

impl<'a> Simd<'a> {
    fn new(block: &'a FecBlock) -> Result<Self> {
        Ok(Self {
            block,
            encoder: ReedSolomonEncoder::new(SOURCES, REPAIRS, SIZE)?,
            decoder: ReedSolomonDecoder::new(SOURCES, REPAIRS, SIZE)?,
            repairs: vec![vec![0; SIZE]; REPAIRS],
            recovered: vec![vec![0; SIZE]; REPAIRS],
        })
    }
}

impl BlockCode for Simd<'_> {
    fn name(&self) -> String {
        "reed-solomon-simd 3".into()
    }

    fn encode(&mut self) {
        for j in 0..SOURCES {
            self.encoder.add_original_shard(self.block.symbol(j)).expect("the block is fine");
        }
        let result = self.encoder.encode().expect("the block is fine");
        self.repairs.iter_mut().zip(result.recovery_iter()).for_each(|(to, from)| to.copy_from_slice(from));
    }

    fn decode(&mut self) {
        for j in (0..SOURCES).filter(|j| !LOST.contains(j)) {
            self.decoder.add_original_shard(j, self.block.symbol(j)).expect("the block is fine");
        }
        for (i, repair) in self.repairs.iter().enumerate() {
            self.decoder.add_recovery_shard(i, repair).expect("the block is fine");
        }
        let result = self.decoder.decode().expect("the block is fine");
        for (to, &j) in self.recovered.iter_mut().zip(&LOST) {
            to.copy_from_slice(result.restored_original(j).expect("it is restored"));
        }
    }

    fn recovered(&self, lost: usize) -> &[u8] {
        &self.recovered[lost]
    }
}

struct Erasure<'a> {
    code: ReedSolomon,
    sources: Vec<&'a [u8]>,
    repairs: Vec<Vec<u8>>,
    shards: Vec<Option<Vec<u8>>>,
}

impl<'a> Erasure<'a> {
    fn new(block: &'a FecBlock) -> Result<Self> {
        let sources = block.symbols();
        let shards = sources.iter().map(|s| Some(s.to_vec())).chain(vec![None; REPAIRS]).collect();
        let code = ReedSolomon::new(SOURCES, REPAIRS)?;
        Ok(Self { code, sources, repairs: vec![vec![0; SIZE]; REPAIRS], shards })
    }
}

impl BlockCode for Erasure<'_> {
    fn name(&self) -> String {
        "reed-solomon-erasure 6, simd-accel".into()
    }

    fn encode(&mut self) {
        self.code.encode_sep(&self.sources, &mut self.repairs).expect("the block is fine");
    }

    fn decode(&mut self) {
        for j in LOST {
            self.shards[j] = None;
        }
        for (shard, repair) in self.shards[SOURCES..].iter_mut().zip(&self.repairs) {
            shard.get_or_insert_with(|| repair.clone());
        }
        self.code.reconstruct_data(&mut self.shards).expect("the block is fine");
    }

    fn recovered(&self, lost: usize) -> &[u8] {
        self.shards[LOST[lost]].as_deref().expect("it was reconstructed")
    }
}

struct RaptorQ {
    config: ObjectTransmissionInformation,
    plan: SourceBlockEncodingPlan,
    data: Vec<u8>,
    sources: Vec<EncodingPacket>,
    repairs: Vec<EncodingPacket>,
    recovered: Vec<u8>,
}

impl RaptorQ {
    fn new(block: &FecBlock) -> Self {
        let data: Vec<u8> = block.symbols().concat();
        let config = ObjectTransmissionInformation::new(data.len() as u64, SIZE as u16, 1, 1, 4);
        let plan = SourceBlockEncodingPlan::generate(SOURCES as u16);
        let sources = SourceBlockEncoder::with_encoding_plan(0, &config, &data, &plan).source_packets();
        Self { config, plan, data, sources, repairs: Vec::new(), recovered: Vec::new() }
    }
}

impl BlockCode for RaptorQ {
    fn name(&self) -> String {
        "raptorq 2, plan made beforehand".into()
    }

    fn encode(&mut self) {
        let encoder = SourceBlockEncoder::with_encoding_plan(0, &self.config, &self.data, &self.plan);
        // A little more than the losses is needed at times.
        self.repairs = encoder.repair_packets(0, REPAIRS as u32 + 1);
    }

    fn decode(&mut self) {
        let mut decoder = SourceBlockDecoder::new(0, &self.config, self.data.len() as u64);
        let present = self.sources.iter().enumerate().filter(|(j, _)| !LOST.contains(j)).map(|s| s.1);
        let packets: Vec<EncodingPacket> = present.chain(&self.repairs).cloned().collect();
        self.recovered = decoder.decode(packets).expect("enough symbols");
    }

    fn recovered(&self, lost: usize) -> &[u8] {
        &self.recovered[LOST[lost] * SIZE..][..SIZE]
    }
}
