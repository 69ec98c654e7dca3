//! Parts of a table as the journal has them: texts.

/// A mapping as the text that it is written as.
pub(crate) mod mapping {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::sql::mapping::Mapping;

    pub(crate) fn serialize<S: Serializer>(mapping: &Mapping, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(mapping)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mapping, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A field's name as text, which a column's is.
pub(crate) mod field {
    use forebay::value::Blob;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(field: &Blob, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from_utf8_lossy(field))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Blob, D::Error> {
        Ok(Blob::from(String::deserialize(deserializer)?.into_bytes()))
    }
}
