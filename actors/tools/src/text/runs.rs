//! Finding lines among lines.

/// Returns where `wanted` (not empty) occurs in `have`, overlapping ones too. `same` must be an equivalence. Takes linear
/// time (Knuth, Morris, Pratt): files of ten thousand equal lines exist.
pub(crate) fn runs<T>(have: &[T], wanted: &[T], same: impl Fn(&T, &T) -> bool) -> Vec<usize> {
    let mut back = vec![0; wanted.len()];
    let step = |back: &[usize], mut matched: usize, item: &T| {
        loop {
            if wanted.get(matched).is_some_and(|wanted| same(item, wanted)) {
                return matched + 1;
            }
            match matched.checked_sub(1).and_then(|last| back.get(last)) {
                Some(shorter) => matched = *shorter,
                None => return 0,
            }
        }
    };
    let mut matched = 0;
    for (at, item) in wanted.iter().enumerate().skip(1) {
        matched = step(&back, matched, item);
        if let Some(slot) = back.get_mut(at) {
            *slot = matched;
        }
    }
    let (mut found, mut matched) = (Vec::new(), 0);
    for (at, item) in have.iter().enumerate() {
        matched = step(&back, matched, item);
        if matched == wanted.len() {
            found.push(at + 1 - wanted.len());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_are_found_like_one_by_one(have in proptest::collection::vec(0..6usize, 0..40), wanted in proptest::collection::vec(0..6usize, 1..5)) {
            let same = |a: &usize, b: &usize| a % 3 == b % 3;
            let fits = |window: &[usize]| window.iter().zip(&wanted).all(|(a, b)| same(a, b));
            let slow: Vec<usize> =
                have.windows(wanted.len()).enumerate().filter(|(_, window)| fits(window)).map(|(at, _)| at).collect();
            prop_assert_eq!(runs(&have, &wanted, same), slow);
        }
    }
}
