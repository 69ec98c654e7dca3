//! What every decorator answers as the store that it wraps, its `inner`.

/// The methods of [`super::Store`] that ask for a constant, a figure, or what others did, for an `impl Store`.
macro_rules! figures_of_inner {
    () => {
        fn caps(&self) -> $crate::store::Caps {
            self.inner.caps()
        }

        fn name(&self) -> String {
            self.inner.name()
        }

        fn incarnation(&self) -> u64 {
            self.inner.incarnation()
        }

        fn memory_bytes(&self) -> usize {
            self.inner.memory_bytes()
        }

        fn lane(&self, key: &$crate::key::Key) -> Option<u32> {
            self.inner.lane(key)
        }

        fn refuses(&self, commit: &$crate::store::Commit) -> Option<String> {
            self.inner.refuses(commit)
        }

        fn beside(&self, key: &$crate::key::Key) -> Vec<$crate::key::Key> {
            self.inner.beside(key)
        }

        fn text_of(&self, key: $crate::key::KeyRef<'_>, value: &$crate::value::Value) -> Option<Vec<u8>> {
            self.inner.text_of(key, value)
        }

        fn changes_of_text(
            &self,
            key: $crate::key::KeyRef<'_>,
            text: &[u8],
        ) -> Option<Result<Vec<$crate::change::Change>, String>> {
            self.inner.changes_of_text(key, text)
        }

        fn keep_ids_from(&self, oldest: Option<$crate::version::TxnId>) {
            self.inner.keep_ids_from(oldest);
        }

        fn outside(&self) -> futures_util::future::BoxFuture<'_, Option<$crate::store::Outside>> {
            self.inner.outside()
        }
    };
}
