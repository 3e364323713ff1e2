//! Symbols stay in their packets as long as blocks come whole, and nobody can tell.

use super::*;

const LONG: usize = 700;

fn receiving(window: u64) -> ProtectReceiving {
    let offer = DecoderOffer { window, sessions: 4, symbol: LONG, schemes: Schemes::ALL, unmarked: 0 };
    ProtectReceiving::new(offer)
}

/// Most of them are long enough to stay; some end with zeros.
fn long(sid: u64) -> Bytes {
    let mut data = symbol(sid).repeat(LONG);
    data.truncate(LONG - (sid.wrapping_mul(0x9e37_79b9) >> 7) as usize % 200);
    if sid % 7 == 3 {
        data.extend([0; 2]);
        data.truncate(LONG);
    }
    data.into()
}

fn repair_of(header: RepairHeader) -> Vec<u8> {
    let RepairHeader { first, count, parameter, index, .. } = header;
    let equation = Equation::reed_solomon(first, count, parameter, index).unwrap();
    let mut symbols = Symbols::new(4096, LONG);
    (equation.first()..=equation.last()).try_for_each(|sid| symbols.insert(sid, &long(sid))).unwrap();
    let mut out = Vec::new();
    symbols.combine(&equation, &mut out).unwrap();
    out
}

#[derive(Clone, Debug)]
enum Step {
    Source(u64, u64),
    /// And by how many bytes it is cut.
    Repair(RepairHeader, usize),
    Window(u64),
}

/// What became of a source symbol, or the error, and what was recovered.
type Seen = (Option<Dispatch>, Option<Code>, Vec<(u64, u64, Bytes)>);

/// What anybody can see of a step.
fn take(receiving: &mut ProtectReceiving, step: &Step) -> Seen {
    let (mut dispatch, mut error) = (None, None);
    match *step {
        Step::Source(session, sid) => {
            let payload = long(sid);
            match receiving.on_source(session, sid, &payload, &payload) {
                Ok(outcome) => dispatch = Some(outcome),
                Err(e) => error = Some(e.code),
            }
            receiving.end_packet();
        }
        Step::Repair(header, cut) => {
            let data = repair_of(header);
            error = give(receiving, header, &data[..data.len() - cut]).err().map(|e| e.code);
        }
        Step::Window(window) => receiving.set_window(window),
    }
    while receiving.has_work() {
        receiving.work();
    }
    (dispatch, error, std::iter::from_fn(|| receiving.next_recovered()).collect())
}

/// Blocks one after the other, in two sessions, with some steps lost, late or twice.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let block = (1_u64..40, prop_oneof![6 => Just(1_u64), 1 => Just(2)], prop::bool::weighted(0.1));
    let fates = prop::collection::vec((0_u64..60, 0_u64..90), 600);
    (prop::collection::vec(block, 4..12), fates, 0_usize..40).prop_map(|(blocks, fates, cut)| {
        let (mut steps, mut next) = (Vec::new(), [0, 0]);
        for (count, stride, other) in blocks {
            let session = u64::from(other);
            let first = &mut next[session as usize];
            let number = 8 * session + 2;
            steps.extend((*first..*first + count * stride).map(|sid| Step::Source(number, sid)));
            let blocks = (0..stride).flat_map(|part| [0, 1, 2].map(|index| (*first + part, index)));
            steps.extend(
                blocks.map(|(first, index)| Step::Repair(header(number, first, count, stride, index), 0)),
            );
            *first += count * stride;
        }
        let mut timed: Vec<(u64, Step)> = Vec::new();
        for ((at, step), (fate, late)) in (0..).zip(steps).zip(fates.into_iter().cycle()) {
            match (fate, step) {
                (0, _) => {}
                (1, step) => timed.push((at + late, step)),
                (2, step) => timed.extend([(at, step.clone()), (at + late, step)]),
                (3, step) => timed.extend([(at, step), (at, Step::Window(40 + late))]),
                (4, Step::Repair(header, _)) => timed.push((at, Step::Repair(header, cut))),
                (_, step) => timed.push((at, step)),
            }
        }
        timed.sort_by_key(|(at, _)| *at);
        timed.into_iter().map(|(_, step)| step).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn who_gives_each_to_the_decoder_at_once_sees_the_same(steps in steps()) {
        let (mut lazy, mut eager) = (receiving(512), receiving(512));
        for step in &steps {
            let (one, other) = (take(&mut lazy, step), take(&mut eager, step));
            prop_assert_eq!(&one, &other, "{:?}", step);
            eager.sessions.iter_mut().for_each(|(_, session)| session.flush());
            if one.1.is_some() {
                break;
            }
        }
        prop_assert_eq!(lazy.counts(), eager.counts());
    }
}

#[test]
fn of_whole_blocks_nothing_is_copied_or_kept() {
    let mut receiving = receiving(1024);
    for block in 0..20 {
        let payloads: Vec<Bytes> =
            (50 * block..50 * (block + 1)).map(|sid| vec![sid as u8 | 1; 600].into()).collect();
        for (sid, payload) in (50 * block..).zip(&payloads) {
            assert_eq!(receiving.on_source(2, sid, &payload[1..], payload), Ok(Dispatch::All));
            receiving.end_packet();
            assert_eq!(payload.is_unique(), block == 0, "of the first nobody knows that it will come whole");
        }
        give(&mut receiving, header(2, 50 * block, 50, 1, 0), &[7; 600]).unwrap();
        assert!(payloads.iter().all(Bytes::is_unique));
    }
    // Slots for the first block, and notes of each number.
    assert!(receiving.sessions[0].1.memory() < 56 * 768 + 1024 * 24);
}

/// Neither a block without end nor packets with other things make it more.
#[test]
fn few_packets_are_kept() {
    for others in [0, 10] {
        let mut receiving = receiving(4096);
        assert_eq!(take(&mut receiving, &Step::Source(2, 0)).0, Some(Dispatch::All));
        take(&mut receiving, &Step::Repair(header(2, 0, 1, 1, 0), 0));
        let payloads: Vec<Bytes> = (1..2000).map(|sid| vec![sid as u8 | 1; 600].into()).collect();
        for (sid, payload) in (1..).zip(&payloads) {
            assert_eq!(receiving.on_source(2, sid, payload, payload), Ok(Dispatch::All));
            (0..=others).for_each(|_| receiving.end_packet());
            let kept: Vec<usize> = (0..payloads.len()).filter(|at| !payloads[*at].is_unique()).collect();
            if let (Some(first), Some(last)) = (kept.first(), kept.last()) {
                assert!((last - first) * (others + 1) < 510, "{first} to {last}");
            }
        }
        assert!(payloads.iter().all(Bytes::is_unique));
    }
}
