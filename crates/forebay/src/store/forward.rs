//! What every decorator answers as the store that it wraps, its `inner`.

/// The methods of [`super::Store`] that ask for a constant, a figure, or what others did, for an `impl Store`.
macro_rules! figures_of_inner {
    () => {
        fn caps(&self) -> $crate::store::Caps {
            self.inner.caps()
        }

        fn has_documents(&self) -> bool {
            self.inner.has_documents()
        }

        fn owns(&self, key: &$crate::key::Key) -> bool {
            self.inner.owns(key)
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

        fn figures(&self) -> Option<$crate::store::figures::StoreFigures> {
            self.inner.figures()
        }

        fn lane(&self, key: &$crate::key::Key) -> Option<u32> {
            self.inner.lane(key)
        }

        fn references(&self, key: &$crate::key::Key, changes: &[$crate::change::Change]) -> Vec<$crate::key::Key> {
            self.inner.references(key, changes)
        }

        fn refuses(&self, commit: &$crate::store::Commit) -> Option<String> {
            self.inner.refuses(commit)
        }

        fn catalogue(&self) -> Option<String> {
            self.inner.catalogue()
        }

        fn form(&self, key: &$crate::key::Key) -> $crate::store::Form {
            self.inner.form(key)
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

        fn as_stored(&self, key: $crate::key::KeyRef<'_>, change: $crate::change::Change) -> $crate::change::Change {
            self.inner.as_stored(key, change)
        }

        fn given(
            &self,
        ) -> futures_util::future::BoxFuture<
            '_,
            Result<Vec<($crate::store::GivenId, $crate::version::Version)>, $crate::error::Unavailable>,
        > {
            self.inner.given()
        }

        fn keep_ids_from(&self, oldest: Option<$crate::version::TxnId>) {
            self.inner.keep_ids_from(oldest);
        }

        fn acknowledged(&self) -> Vec<$crate::version::TxnId> {
            self.inner.acknowledged()
        }

        fn as_read_now(&self, key: &$crate::key::Key, version: $crate::version::Version) -> $crate::version::Version {
            self.inner.as_read_now(key, version)
        }

        fn went_back(&self) -> bool {
            self.inner.went_back()
        }

        fn is_another(&self) -> bool {
            self.inner.is_another()
        }

        fn owned_since(&self) -> Option<&str> {
            self.inner.owned_since()
        }

        fn fenced(&self) -> Option<&str> {
            self.inner.fenced()
        }

        fn is_away(&self) -> bool {
            self.inner.is_away()
        }

        fn outside(&self) -> futures_util::future::BoxFuture<'_, Option<$crate::store::Outside>> {
            self.inner.outside()
        }

        fn sync(&self) -> Option<u64> {
            self.inner.sync()
        }

        fn reload(&self) -> futures_util::future::BoxFuture<'_, Result<(), String>> {
            self.inner.reload()
        }

        fn is_altered(&self) -> bool {
            self.inner.is_altered()
        }

        fn unwatched(&self) -> Vec<String> {
            self.inner.unwatched()
        }

        fn unwatched_place(&self, key: $crate::key::KeyRef<'_>) -> Option<usize> {
            self.inner.unwatched_place(key)
        }

        fn doubt(&self, what: $crate::store::Doubt<'_>) {
            self.inner.doubt(what);
        }

        fn doubts(&self) -> u64 {
            self.inner.doubts()
        }
    };
}

/// The methods that a store made for a test mostly leaves as they are in the store that it holds in `$field`.
#[cfg(feature = "testing")]
#[doc(hidden)]
#[macro_export(local_inner_macros)]
macro_rules! rest_of_store {
    ($field:ident) => {
        fn get_with_ids<'a>(
            &'a self,
            asked: &'a [($crate::Key, Vec<$crate::TxnId>)],
        ) -> futures_util::future::BoxFuture<
            'a,
            Result<Option<Vec<$crate::store::ReadWithIds>>, $crate::store::ReadError>,
        > {
            self.$field.get_with_ids(asked)
        }

        rest_of_store!($field but get_with_ids);
    };
    ($field:ident but get_with_ids) => {
        fn outcome(
            &self,
            id: $crate::TxnId,
        ) -> futures_util::future::BoxFuture<'_, Result<$crate::store::Resolved, $crate::error::Unavailable>> {
            self.$field.outcome(id)
        }

        fn scan<'a>(
            &'a self,
            space: u8,
            after: Option<&'a $crate::Key>,
            limit: usize,
        ) -> futures_util::future::BoxFuture<'a, Result<Vec<$crate::Key>, $crate::store::ReadError>> {
            self.$field.scan(space, after, limit)
        }

        fn count(&self, space: u8) -> futures_util::future::BoxFuture<'_, Result<u64, $crate::store::ReadError>> {
            self.$field.count(space)
        }

        fn clear<'a>(
            &'a self,
            spaces: &'a [u8],
            version: $crate::Version,
        ) -> futures_util::future::BoxFuture<'a, Result<(), $crate::error::Unavailable>> {
            self.$field.clear(spaces, version)
        }

        fn expired(
            &self,
            now_ms: u64,
            limit: usize,
        ) -> futures_util::future::BoxFuture<'_, Result<Vec<$crate::Key>, $crate::store::ReadError>> {
            self.$field.expired(now_ms, limit)
        }

        fn memory_bytes(&self) -> usize {
            self.$field.memory_bytes()
        }

        fn flush(&self) -> futures_util::future::BoxFuture<'_, Result<(), $crate::error::Unavailable>> {
            self.$field.flush()
        }
    };
}
