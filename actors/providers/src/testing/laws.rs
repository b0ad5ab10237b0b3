//! What holds of every decoder whose events are JSON: the same tests for each of the formats.

/// Makes the tests. Beside the decoder, a recorded body and a strategy of events, they want the keys of the format, a
/// function that frames an event (`&Value`) as a server does, and one that puts any JSON at the places where the format
/// has some (`&Value`, to a list of events).
macro_rules! decoder_laws {
    ($decoder:expr, $recorded:expr, $event:expr, $keys:expr, $framed:expr, $wrapped:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

            #[test]
            fn the_recorded_answer_decodes_the_same_however_it_is_cut(
                sizes in proptest::collection::vec(1_usize..300, 1..20),
            ) {
                $crate::testing::same_however_cut($decoder, $recorded, &sizes);
            }

            #[test]
            fn an_answer_decodes_the_same_however_it_is_cut(
                events in proptest::collection::vec($event, 0..12),
                sizes in proptest::collection::vec(1_usize..40, 1..20),
            ) {
                let body: String = events.iter().map($framed).collect();
                $crate::testing::same_however_cut($decoder, &body, &sizes);
            }

            #[test]
            fn each_call_starts_once_and_ends_once_with_an_id_of_its_own(
                events in proptest::collection::vec($event, 0..16),
            ) {
                let events: Vec<String> = events.iter().map(Value::to_string).collect();
                let (said, error) = $crate::testing::decode($decoder(), &events);
                $crate::testing::well_formed(&said, error.as_ref())?;
            }

            #[test]
            fn any_json_is_read_or_refused(
                values in proptest::collection::vec($crate::testing::any_json($keys), 0..4),
                data in ".{0,80}",
            ) {
                let mut events: Vec<String> = values.iter().map(Value::to_string).collect();
                events.extend(values.iter().flat_map($wrapped).map(|event| event.to_string()));
                for event in &events {
                    $crate::testing::decode($decoder(), &[event]);
                }
                $crate::testing::decode($decoder(), &events);
                $crate::testing::decode($decoder(), &[data]);
            }
        }
    };
}

pub(crate) use decoder_laws;
