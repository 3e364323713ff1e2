//! Encodes a block with one kernel, some times, for whoever counts the instructions: of two numbers of times
//! the difference is what blocks alone take. `instructions KERNEL TIMES`, for `cargo xtask platforms`.

use quickset_fec::gf256::Kernel;

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(name), Some(times)) = (args.next(), args.next().and_then(|times| times.parse::<u32>().ok()))
    else {
        let names: Vec<_> = Kernel::available().map(Kernel::name).collect();
        eprintln!("write a kernel, one of {}, and a number of times", names.join(", "));
        std::process::exit(2);
    };
    let Some(kernel) = Kernel::available().find(|kernel| kernel.name() == name) else {
        eprintln!("this machine has no kernel {name}");
        std::process::exit(1);
    };
    let sources: Vec<Vec<u8>> = (0..SOURCES).map(|i| vec![i; BYTES]).collect();
    let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let mut sums = vec![vec![0; BYTES]; usize::from(REPAIRS)];
    let rows: Vec<u8> = (0..REPAIRS).collect();
    for _ in 0..times {
        let mut sums: Vec<&mut [u8]> = sums.iter_mut().map(Vec::as_mut_slice).collect();
        kernel.cauchy(&mut sums, &rows, &sources);
    }
    std::hint::black_box(sums);
}

/// Reed-Solomon, 105 of 100 symbols of 1200 bytes.
const SOURCES: u8 = 100;
const REPAIRS: u8 = 5;
const BYTES: usize = 1200;
