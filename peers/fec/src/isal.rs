//! Intel's ISA-L as the system has it.

#![expect(unsafe_code, reason = "a library in C")]

use std::ffi::c_int;

use crate::codes::Code;
use crate::{Block, LOST, REPAIRS, SIZE, SOURCES};

// From isa-l's erasure_code.h.
unsafe extern "C" {
    fn gf_gen_cauchy1_matrix(matrix: *mut u8, m: c_int, k: c_int);
    fn gf_invert_matrix(matrix: *mut u8, inverse: *mut u8, n: c_int) -> c_int;
    fn gf_mul(a: u8, b: u8) -> u8;
    fn ec_init_tables(k: c_int, rows: c_int, matrix: *const u8, tables: *mut u8);
    fn ec_encode_data(
        len: c_int,
        k: c_int,
        rows: c_int,
        tables: *const u8,
        data: *const *const u8,
        coding: *const *mut u8,
    );
}

pub(crate) struct Isal<'a> {
    sources: Vec<&'a [u8]>,
    /// Identity, then rows of the code.
    matrix: Vec<u8>,
    tables: Vec<u8>,
    repairs: Vec<Vec<u8>>,
    recovered: Vec<Vec<u8>>,
}

impl<'a> Isal<'a> {
    pub(crate) fn new(block: &'a Block) -> Self {
        let mut matrix = vec![0; (SOURCES + REPAIRS) * SOURCES];
        let mut tables = vec![0; 32 * SOURCES * REPAIRS];
        // SAFETY: the matrix has k + r rows of k elements, the tables 32 bytes for each element of r rows.
        unsafe {
            gf_gen_cauchy1_matrix(matrix.as_mut_ptr(), (SOURCES + REPAIRS) as c_int, SOURCES as c_int);
            let rows = &matrix[SOURCES * SOURCES..];
            ec_init_tables(SOURCES as c_int, REPAIRS as c_int, rows.as_ptr(), tables.as_mut_ptr());
        }
        let symbols = vec![vec![0; SIZE]; REPAIRS];
        Self { sources: block.symbols(), matrix, tables, repairs: symbols.clone(), recovered: symbols }
    }
}

fn encode(tables: &[u8], sources: &[&[u8]], rows: &mut [Vec<u8>]) {
    assert_eq!(tables.len(), 32 * sources.len() * rows.len());
    assert!(sources.iter().all(|s| s.len() == SIZE) && rows.iter().all(|r| r.len() == SIZE));
    let from: Vec<*const u8> = sources.iter().map(|s| s.as_ptr()).collect();
    let to: Vec<*mut u8> = rows.iter_mut().map(Vec::as_mut_ptr).collect();
    let (k, r) = (sources.len() as c_int, rows.len() as c_int);
    // SAFETY: all symbols have SIZE bytes, and the tables are those of this many.
    unsafe { ec_encode_data(SIZE as c_int, k, r, tables.as_ptr(), from.as_ptr(), to.as_ptr()) }
}

impl Code for Isal<'_> {
    fn name(&self) -> String {
        "ISA-L of the system".into()
    }

    fn encode(&mut self) {
        encode(&self.tables, &self.sources, &mut self.repairs);
    }

    /// As its own example does, but that the inverse of the whole matrix of 100 rows, 0.2 ms, is spared it:
    /// that of the lost columns is enough.
    fn decode(&mut self) {
        let row = |i: usize| &self.matrix[(SOURCES + i) * SOURCES..][..SOURCES];
        let mut square: Vec<u8> = (0..REPAIRS).flat_map(|i| LOST.map(|j| row(i)[j])).collect();
        let mut inverse = vec![0; REPAIRS * REPAIRS];
        // SAFETY: both are square, of that size.
        let bad = unsafe { gf_invert_matrix(square.as_mut_ptr(), inverse.as_mut_ptr(), REPAIRS as c_int) };
        assert_eq!(bad, 0, "a part of a Cauchy matrix is regular");
        // lost = inverse · (repairs + present rows): one matrix for present sources and repairs.
        let present: Vec<usize> = (0..SOURCES).filter(|j| !LOST.contains(j)).collect();
        let mut matrix = Vec::with_capacity(REPAIRS * SOURCES);
        for inverse in inverse.chunks_exact(REPAIRS) {
            for &j in &present {
                // SAFETY: it only computes.
                matrix.push((0..REPAIRS).fold(0, |sum, i| sum ^ unsafe { gf_mul(inverse[i], row(i)[j]) }));
            }
            matrix.extend(inverse);
        }
        let mut tables = vec![0; 32 * SOURCES * REPAIRS];
        // SAFETY: 32 bytes for each element.
        unsafe { ec_init_tables(SOURCES as c_int, REPAIRS as c_int, matrix.as_ptr(), tables.as_mut_ptr()) };
        let symbols: Vec<&[u8]> =
            present.iter().map(|&j| self.sources[j]).chain(self.repairs.iter().map(Vec::as_slice)).collect();
        encode(&tables, &symbols, &mut self.recovered);
    }

    fn recovered(&self, lost: usize) -> &[u8] {
        &self.recovered[lost]
    }
}
