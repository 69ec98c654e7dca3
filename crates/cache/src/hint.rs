//! Hint sets: opaque categorical labels that clients attach to requests; their worth is learned (CLIC, section 2).

/// A hint set as policies know it: an index that the session's registry gave out, 0 for "no hints".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HintSet(pub u32);

/// What a hint set stands for: one value per hint type. Values are labels without an order (CLIC, section 2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HintMeaning {
    /// Number of the schema, which is a name space: values of different schemas are different, whatever they read.
    pub schema: u32,
    /// Names of the schema's hint types.
    pub types: Vec<Box<[u8]>>,
    /// One value for each of them, in their order.
    pub values: Vec<Box<[u8]>>,
}
