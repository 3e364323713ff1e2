use super::*;

/// Multiplication of polynomials bit by bit, and division by the field polynomial.
fn long_mul(a: u8, b: u8) -> u8 {
    let mut product = (0..8).filter(|i| b >> i & 1 == 1).fold(0_u16, |p, i| p ^ (u16::from(a) << i));
    for i in (8..16).rev() {
        if product >> i & 1 == 1 {
            product ^= POLYNOMIAL << (i - 8);
        }
    }
    product as u8
}

#[test]
fn products_are_those_of_polynomials() {
    for a in 0..=255 {
        for b in 0..=255 {
            assert_eq!(mul(a, b), long_mul(a, b), "{a} * {b}");
        }
    }
}

#[test]
fn every_element_but_zero_has_an_inverse() {
    assert_eq!(inv(0), None);
    for a in 1..=255 {
        assert_eq!(long_mul(a, inv(a).expect("it is not 0")), 1, "{a}");
    }
}

#[test]
fn the_first_repair_symbol_has_the_coefficients_of_the_specification() {
    let row: Vec<_> = (0..4).map(|term| cauchy(term, 0)).collect();
    assert_eq!(row, [Some(0xfd), Some(0x7e), Some(0xff), Some(0x7f)]);
    assert_eq!(cauchy(254, 0), Some(1));
    assert_eq!((cauchy(255, 0), cauchy(0, 255), cauchy(200, 55), cauchy(200, 100)), (None, None, None, None));
}
