//! Files of this host: bytes, versions, durable replacement.
