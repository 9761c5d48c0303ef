//! The hashes that make a key of a name.
//!
//! Pure: bytes in, a number out. PostgreSQL's own are in `lookup3`; the values of all were read from real servers
//! and from independent implementations (see the tests). The database is taken to be UTF-8 and the collation
//! deterministic, as nearly all are: elsewhere PostgreSQL hashes other bytes.

mod lookup3;

use md5::{Digest, Md5};
use sha2::Sha256;

pub use lookup3::{hashtext, hashtextextended};

/// A hash that the dictionary knows by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// PostgreSQL's `hashtext(text)`, an int4.
    Hashtext,
    /// PostgreSQL's `hashtextextended(text, seed)`, a bigint.
    Hashtextextended,
    /// FNV-1, 32 bits.
    Fnv1w32,
    /// FNV-1a, 32 bits.
    Fnv1aw32,
    /// FNV-1, 64 bits.
    Fnv1w64,
    /// FNV-1a, 64 bits.
    Fnv1aw64,
    /// CRC-32 as in zlib (IEEE), 32 bits.
    Crc32,
    /// The first 8 bytes of MD5, most significant first.
    Md5w64,
    /// The first 8 bytes of SHA-256, most significant first.
    Sha256w64,
}

/// A hash's value in the width that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Value {
    /// 32 bits, as PostgreSQL's int4.
    Int4(i32),
    /// 64 bits, as PostgreSQL's bigint.
    Int8(i64),
}

impl Value {
    /// The value as a bigint: 32 bits are sign-extended, as PostgreSQL's cast does.
    pub fn bigint(self) -> i64 {
        match self {
            Self::Int4(value) => i64::from(value),
            Self::Int8(value) => value,
        }
    }
}

impl Algorithm {
    /// All of them, PostgreSQL's own first.
    pub const ALL: [Self; 9] = [
        Self::Hashtext,
        Self::Hashtextextended,
        Self::Crc32,
        Self::Fnv1w32,
        Self::Fnv1aw32,
        Self::Fnv1w64,
        Self::Fnv1aw64,
        Self::Md5w64,
        Self::Sha256w64,
    ];

    /// The name in the dictionary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hashtext => "hashtext",
            Self::Hashtextextended => "hashtextextended",
            Self::Fnv1w32 => "fnv1-32",
            Self::Fnv1aw32 => "fnv1a-32",
            Self::Fnv1w64 => "fnv1-64",
            Self::Fnv1aw64 => "fnv1a-64",
            Self::Crc32 => "crc32",
            Self::Md5w64 => "md5-64",
            Self::Sha256w64 => "sha256-64",
        }
    }

    /// The hash of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Whether its values have 32 bits and so fit into one half of a pair.
    pub fn is_int4(self) -> bool {
        matches!(self, Self::Hashtext | Self::Crc32 | Self::Fnv1w32 | Self::Fnv1aw32)
    }

    /// The hash of these bytes; of `hashtextextended` with seed 0.
    pub fn hash(self, bytes: &[u8]) -> Value {
        match self {
            Self::Hashtext => Value::Int4(hashtext(bytes)),
            Self::Hashtextextended => Value::Int8(hashtextextended(bytes, 0)),
            Self::Fnv1w32 => Value::Int4(fnv1_32(bytes).cast_signed()),
            Self::Fnv1aw32 => Value::Int4(fnv1a_32(bytes).cast_signed()),
            Self::Fnv1w64 => Value::Int8(fnv1_64(bytes).cast_signed()),
            Self::Fnv1aw64 => Value::Int8(fnv1a_64(bytes).cast_signed()),
            Self::Crc32 => Value::Int4(crc32(bytes).cast_signed()),
            Self::Md5w64 => Value::Int8(first_eight(&Md5::digest(bytes), i64::from_be_bytes)),
            Self::Sha256w64 => Value::Int8(first_eight(&Sha256::digest(bytes), i64::from_be_bytes)),
        }
    }
}

/// CRC-32 as in zlib.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// FNV's offset basis and prime, 32 and 64 bits (RFC 9923).
const FNV_32: (u32, u32) = (0x811C_9DC5, 0x0100_0193);
const FNV_64: (u64, u64) = (0xCBF2_9CE4_8422_2325, 0x0000_0100_0000_01B3);

/// FNV-1, 32 bits.
pub fn fnv1_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(FNV_32.0, |hash, &byte| hash.wrapping_mul(FNV_32.1) ^ u32::from(byte))
}

/// FNV-1a, 32 bits.
pub fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(FNV_32.0, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(FNV_32.1))
}

/// FNV-1, 64 bits.
pub fn fnv1_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(FNV_64.0, |hash, &byte| hash.wrapping_mul(FNV_64.1) ^ u64::from(byte))
}

/// FNV-1a, 64 bits.
pub fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(FNV_64.0, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_64.1))
}

/// The first eight bytes of a digest as a number, in the order that `from_bytes` takes them.
pub(super) fn first_eight(digest: &[u8], from_bytes: fn([u8; 8]) -> i64) -> i64 {
    let mut first = [0; 8];
    for (to, from) in first.iter_mut().zip(digest) {
        *to = *from;
    }
    from_bytes(first)
}

#[cfg(test)]
mod tests;
