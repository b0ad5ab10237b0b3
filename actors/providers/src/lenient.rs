//! Reads what a server may send in another form than it should: the objects are taken, anything else is passed over.
//! For `#[serde(deserialize_with = …)]`. Unlike a raw value it needs no second look at the text.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads an object (`Option`), or the objects of a list (`Vec`), where an object that is in none is as good.
pub(crate) fn lenient<'de, D: Deserializer<'de>, F: Form<'de>>(from: D) -> Result<F, D::Error> {
    Seed(PhantomData).deserialize(from)
}

/// What is read.
pub(crate) trait Form<'de>: Default {
    /// Reads an object.
    fn of_map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error>;

    /// Reads a list, to its end.
    fn of_seq<A: SeqAccess<'de>>(seq: A) -> Result<Self, A::Error>;
}

impl<'de, T: Deserialize<'de>> Form<'de> for Option<T> {
    fn of_map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }

    fn of_seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

impl<'de, T: Deserialize<'de>> Form<'de> for Vec<T> {
    fn of_map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        Ok(Option::of_map(map)?.into_iter().collect())
    }

    fn of_seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        let mut all = Self::new();
        while let Some(element) = seq.next_element_seed(Seed::<Option<T>>(PhantomData))? {
            all.extend(element);
        }
        Ok(all)
    }
}

struct Seed<F>(PhantomData<F>);

impl<'de, F: Form<'de>> DeserializeSeed<'de> for Seed<F> {
    type Value = F;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<F, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, F: Form<'de>> Visitor<'de> for Seed<F> {
    type Value = F;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<F, A::Error> {
        F::of_map(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<F, A::Error> {
        F::of_seq(seq)
    }

    fn visit_unit<E>(self) -> Result<F, E> {
        Ok(F::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<F, E> {
        Ok(F::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<F, E> {
        Ok(F::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<F, E> {
        Ok(F::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<F, E> {
        Ok(F::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<F, E> {
        Ok(F::default())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Deserialize)]
    struct Outer<'a> {
        #[serde(borrow, default, deserialize_with = "lenient")]
        one: Option<Inner<'a>>,
        #[serde(borrow, default, deserialize_with = "lenient")]
        many: Vec<Inner<'a>>,
    }

    #[derive(Deserialize)]
    struct Inner<'a> {
        #[serde(borrow, default)]
        a: Option<&'a RawValue>,
    }

    fn read(value: &str) -> (Option<String>, Vec<String>) {
        let json = format!(r#"{{"one":{value},"many":{value}}}"#);
        let outer: Outer<'_> = serde_json::from_str(&json).expect("any JSON is read");
        let text = |inner: Inner<'_>| inner.a.map_or("-", RawValue::get).to_owned();
        (outer.one.map(text), outer.many.into_iter().map(text).collect())
    }

    #[test]
    fn objects_are_read_and_anything_else_is_passed_over() {
        for odd in ["null", "true", "-7", "7", "7.5", "\"x\"", "\"\\u00e9\"", "[]", "[null, 7, \"x\", [{}]]"] {
            assert_eq!(read(odd), (None, vec![]), "{odd}");
        }
        assert_eq!(read(r#"{"a":[1]}"#), (Some("[1]".into()), vec!["[1]".into()]));
        assert_eq!(read(r#"[{"a":"x"}, null, {}]"#), (None, vec!["\"x\"".into(), "-".into()]));
    }
}
