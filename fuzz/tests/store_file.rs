//! A store file that was valid and is damaged: an error or the right answer, or else a check of the file finds it.

use forebay::store::rot::{Damage, Sample};
use forebay_fuzz::{Choices, time};

/// Things done to one file.
const DAMAGE_MAX: usize = 6;

#[test]
fn store_file() {
    let sample = Sample::new();
    bolero::check!().with_test_time(time()).for_each(|input: &[u8]| {
        let mut choices = Choices(input);
        let mut damage = Vec::new();
        while choices.any_left() && damage.len() < DAMAGE_MAX {
            damage.push(Damage { kind: choices.byte(), at: choices.word(), other: choices.word() });
        }
        let examined = sample.examine(&damage);
        if let Some(wrong) = examined.wrong.first() {
            assert!(sample.check_finds(&damage), "{damage:?}: {wrong}, and no check finds it");
        }
    });
}
