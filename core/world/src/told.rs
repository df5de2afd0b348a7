//! Names and paths in what the agent and a supervisor say to each other: as text, which is short, or
//! as the list of its bytes what is none. Every path can be told.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::marker::PhantomData;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One of them on its way.
struct Told<T>(T);

impl<T: AsRef<OsStr>> Serialize for Told<&T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let name = self.0.as_ref();
        match name.to_str() {
            Some(text) => to.serialize_str(text),
            None => to.collect_seq(name.as_bytes()),
        }
    }
}

impl<'de, T: From<OsString>> Deserialize<'de> for Told<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Listener(PhantomData))
    }
}

struct Listener<T>(PhantomData<T>);

impl<'de, T: From<OsString>> Visitor<'de> for Listener<T> {
    type Value = Told<T>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a name as text or bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Told(OsString::from(text).into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = from.next_element()? {
            bytes.push(byte);
        }
        Ok(Told(OsString::from_vec(bytes).into()))
    }
}

/// One name.
pub(crate) mod one {
    use super::*;

    pub(crate) fn serialize<T: AsRef<OsStr>, S: Serializer>(
        name: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        Told(name).serialize(to)
    }

    pub(crate) fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        Ok(Told::deserialize(from)?.0)
    }
}

/// One name, or none.
pub(crate) mod optional {
    use super::*;

    pub(crate) fn serialize<T: AsRef<OsStr>, S: Serializer>(
        name: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        name.as_ref().map(Told).serialize(to)
    }

    pub(crate) fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let told: Option<Told<T>> = Option::deserialize(from)?;
        Ok(told.map(|it| it.0))
    }
}

/// A list of names.
pub(crate) mod all {
    use super::*;

    pub(crate) fn serialize<T: AsRef<OsStr>, S: Serializer>(
        names: &[T],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(names.iter().map(Told))
    }

    pub(crate) fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<T>, D::Error> {
        let told: Vec<Told<T>> = Vec::deserialize(from)?;
        Ok(told.into_iter().map(|it| it.0).collect())
    }
}

/// A list of names with something else that belongs to each.
pub(crate) mod pairs {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        pairs: &[(OsString, OsString)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(pairs.iter().map(|(name, value)| (Told(name), Told(value))))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(OsString, OsString)>, D::Error> {
        let told: Vec<(Told<OsString>, Told<OsString>)> = Vec::deserialize(from)?;
        Ok(told.into_iter().map(|(name, value)| (name.0, value.0)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Everything {
        #[serde(with = "one")]
        name: OsString,
        #[serde(with = "optional")]
        place: Option<std::path::PathBuf>,
        #[serde(with = "all")]
        list: Vec<OsString>,
        #[serde(with = "pairs")]
        values: Vec<(OsString, OsString)>,
    }

    #[test]
    fn what_is_no_text_arrives_as_it_was_sent() {
        let odd = OsString::from_vec(vec![b'a', 0xff, b'"']);
        let everything = Everything {
            name: odd.clone(),
            place: Some("/ä\n\"".into()),
            list: vec!["b".into(), odd.clone()],
            values: vec![("c".into(), odd)],
        };
        let line = serde_json::to_string(&everything).unwrap();
        assert_eq!(
            line,
            r#"{"name":[97,255,34],"place":"/ä\n\"","list":["b",[97,255,34]],"values":[["c",[97,255,34]]]}"#
        );
        assert_eq!(serde_json::from_str::<Everything>(&line).unwrap(), everything);
        assert!(serde_json::from_str::<Everything>(&line.replace("255", "256")).is_err());
    }
}
