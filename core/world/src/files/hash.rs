//! What tells one content of a file from another.

use std::io::{self, Read};

/// The BLAKE3 of a file's bytes. Times and sizes are left out on purpose: they change without the
/// content, and stay while it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentHash(blake3::Hash);

impl ContentHash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes))
    }

    /// As 64 lower-case hexadecimal digits.
    pub fn to_hex(self) -> String {
        self.0.to_hex().as_str().to_owned()
    }

    /// Reads what [`ContentHash::to_hex`] wrote.
    pub fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(Self)
    }
}

/// Hashes what is read through it.
pub(super) struct HashingReader<R> {
    inner: R,
    hasher: blake3::Hasher,
}

impl<R: Read> HashingReader<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, hasher: blake3::Hasher::new() }
    }

    /// The hash of everything so far.
    pub(super) fn hash(&self) -> ContentHash {
        ContentHash(self.hasher.finalize())
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}
