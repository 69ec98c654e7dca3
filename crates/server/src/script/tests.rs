//! How numbers become text.

use super::values::{digits, number_text};

#[test]
fn numbers_are_printed_as_c_prints_them() {
    for (number, seventeen, fourteen) in [
        (0.0, "0", "0"),
        (1.0, "1", "1"),
        (-2.5, "-2.5", "-2.5"),
        (0.1, "0.10000000000000001", "0.1"),
        (3.3, "3.2999999999999998", "3.3"),
        (1e15, "1000000000000000", "1e+15"),
        (1e17, "1e+17", "1e+17"),
        (123_456_789_012.5, "123456789012.5", "123456789012.5"),
        (1e-5, "1.0000000000000001e-05", "1e-05"),
        (0.0001, "0.0001", "0.0001"),
        (f64::INFINITY, "inf", "inf"),
        (f64::NEG_INFINITY, "-inf", "-inf"),
    ] {
        assert_eq!((number_text(number).as_str(), digits(number, 14).as_str()), (seventeen, fourteen));
    }
    assert_eq!(number_text(9_007_199_254_740_991.0), "9007199254740991");
}
