//! Regions against a bitmap.

use proptest::prelude::*;
use quickset_base::number::index;
use quickset_rfb::{Rect, Region};

const SIDE: u16 = 24;

/// A bit per pixel.
#[derive(Clone, PartialEq, Debug)]
struct Bitmap(Vec<bool>);

impl Bitmap {
    fn of(region: &Region) -> Self {
        let mut bitmap = Self::default();
        for rect in region.rects() {
            assert!(!bitmap.any(*rect), "{rect} overlaps another in {region:?}");
            bitmap.set(*rect, true);
        }
        bitmap
    }

    fn set(&mut self, rect: Rect, to: bool) {
        for y in rect.top()..rect.bottom() {
            for x in rect.left()..rect.right() {
                self.0[(y * SIDE + x) as usize] = to;
            }
        }
    }

    fn cells(&self, rect: Rect) -> impl Iterator<Item = bool> + '_ {
        let rows = rect.top()..rect.bottom();
        rows.flat_map(move |y| (rect.left()..rect.right()).map(move |x| self.0[(y * SIDE + x) as usize]))
    }

    fn any(&self, rect: Rect) -> bool {
        self.cells(rect).any(|c| c)
    }

    fn merge(&mut self, other: &Self, f: impl Fn(bool, bool) -> bool) {
        for (a, &b) in self.0.iter_mut().zip(&other.0) {
            *a = f(*a, b);
        }
    }

    fn covers(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| *a || !b)
    }

    fn moved(&self, dx: i32, dy: i32) -> Self {
        let mut to = Self::default();
        let side = i32::from(SIDE);
        for (i, _) in (0..).zip(&self.0).filter(|(_, set)| **set) {
            let (x, y): (i32, i32) = (i % side + dx, i / side + dy);
            if (0..side).contains(&x) && (0..side).contains(&y) {
                to.0[usize::try_from(y * side + x).expect("inside")] = true;
            }
        }
        to
    }
}

impl Default for Bitmap {
    fn default() -> Self {
        Self(vec![false; SIDE as usize * SIDE as usize])
    }
}

#[derive(Clone, Debug)]
enum Op {
    Add(Rect),
    Remove(Rect),
    Clip(Rect),
    Union(Vec<Rect>),
    Subtract(Vec<Rect>),
    Intersect(Vec<Rect>),
}

fn rect() -> impl Strategy<Value = Rect> {
    // Empty ones among them.
    (0..SIDE, 0..SIDE, 0..=12u16, 0..=12u16)
        .prop_map(|(x, y, w, h)| Rect::between(x, y, (x + w).min(SIDE), (y + h).min(SIDE)))
}

fn op() -> impl Strategy<Value = Op> {
    let rects = || prop::collection::vec(rect(), 0..8);
    prop_oneof![
        6 => rect().prop_map(Op::Add),
        3 => rect().prop_map(Op::Remove),
        1 => rect().prop_map(|r| Op::Clip(r.bounding(Rect::between(4, 4, 20, 20)))),
        2 => rects().prop_map(Op::Union),
        2 => rects().prop_map(Op::Subtract),
        1 => prop::collection::vec(rect(), 4..12).prop_map(Op::Intersect),
    ]
}

/// The same operation on both; the model is exact.
fn apply(op: &Op, region: &mut Region, bitmap: &mut Bitmap) {
    let both = |rects: &[Rect]| {
        let mut bitmap = Bitmap::default();
        for r in rects {
            bitmap.set(*r, true);
        }
        let region: Region = rects.iter().copied().collect();
        assert_eq!(Bitmap::of(&region), bitmap);
        (region, bitmap)
    };
    match op {
        Op::Add(r) => {
            region.add(*r);
            bitmap.set(*r, true);
        }
        Op::Remove(r) => {
            region.remove(*r);
            bitmap.set(*r, false);
        }
        Op::Clip(r) => {
            region.clip(*r);
            bitmap.merge(&both(&[*r]).1, |a, b| a && b);
        }
        Op::Union(rects) => {
            let (r, b) = both(rects);
            region.union(&r);
            bitmap.merge(&b, |a, b| a || b);
        }
        Op::Subtract(rects) => {
            let (r, b) = both(rects);
            region.subtract(&r);
            bitmap.merge(&b, |a, b| a && !b);
        }
        Op::Intersect(rects) => {
            let (r, b) = both(rects);
            region.intersect(&r);
            bitmap.merge(&b, |a, b| a && b);
        }
    }
}

/// Bands from top to bottom, spans from left to right that do not touch, no two bands that could be one.
fn is_normal(region: &Region) -> bool {
    let rects = region.rects();
    let bands: Vec<&[Rect]> = rects.chunk_by(|a, b| a.top() == b.top()).collect();
    let spans = |band: &[Rect]| band.iter().map(|r| (r.left(), r.right())).collect::<Vec<_>>();
    rects.iter().all(|r| !r.is_empty())
        && bands
            .iter()
            .all(|band| band.windows(2).all(|p| p[0].right() < p[1].left() && p[0].bottom() == p[1].bottom()))
        && bands.windows(2).all(|p| {
            let (above, below) = (p[0][0].bottom(), p[1][0].top());
            above < below || above == below && spans(p[0]) != spans(p[1])
        })
}

proptest! {
    #[test]
    fn every_operation_is_that_of_a_bitmap(ops in prop::collection::vec(op(), 1..40), probe in rect()) {
        let (mut region, mut bitmap) = (Region::new(), Bitmap::default());
        for op in &ops {
            apply(op, &mut region, &mut bitmap);
            prop_assert!(is_normal(&region), "{:?}", region);
            prop_assert_eq!(&Bitmap::of(&region), &bitmap);
            prop_assert_eq!(region.area(), bitmap.0.iter().filter(|set| **set).count());
            prop_assert_eq!(region.meets(probe), bitmap.any(probe));
            prop_assert_eq!(region.contains(probe), bitmap.cells(probe).all(|c| c));
            prop_assert_eq!(region.is_empty(), region.bounding().is_empty());
            prop_assert!(region.rects().iter().all(|r| region.bounding().contains(*r)));
        }
    }

    #[test]
    fn a_limited_region_covers_what_it_should(ops in prop::collection::vec(op(), 1..60), limit in 1usize..12) {
        let (mut region, mut bitmap) = (Region::with_limit(limit), Bitmap::default());
        for op in &ops {
            apply(op, &mut region, &mut bitmap);
            prop_assert!(region.rects().len() <= limit && is_normal(&region), "{:?}", region);
            prop_assert!(Bitmap::of(&region).covers(&bitmap));
        }
    }

    #[test]
    fn moving_is_moving_each_pixel(rects in prop::collection::vec(rect(), 0..10), dx in -30i32..30, dy in -30i32..30) {
        let region: Region = rects.into_iter().collect();
        // The bitmap ends where coordinates do not.
        let mut moved = region.moved_by(dx, dy);
        prop_assert!(is_normal(&moved), "{:?}", moved);
        moved.clip(Rect::sized(SIDE, SIDE));
        prop_assert_eq!(Bitmap::of(&moved), Bitmap::of(&region).moved(dx, dy));
    }

    #[test]
    fn equal_sets_are_equal(rects in prop::collection::vec(rect(), 0..10), seed in any::<u64>()) {
        let one: Region = rects.iter().copied().collect();
        let mut rng = quickset_base::Rng::new(seed);
        let mut shuffled = rects;
        for i in (1..shuffled.len()).rev() {
            shuffled.swap(i, index(rng.below(i as u64 + 1)));
        }
        let mut other = Region::new();
        for r in shuffled {
            other.add(r);
        }
        prop_assert_eq!(one, other);
    }
}
