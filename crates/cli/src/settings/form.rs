//! How the text of a setting is read and shown. What is shown reads back as the same value.

/// Reads and shows values of type `T`.
pub trait Form<T> {
    /// What stands for the value in help texts.
    const VALUE: &'static str;

    /// What may be given, if the setting's summary does not say.
    fn choices() -> String {
        String::new()
    }

    /// Reads the text as typed; the error says what to give instead.
    fn read(text: &str) -> Result<T, String>;

    /// The text that reads back as `value`.
    fn show(value: &T) -> String;
}
