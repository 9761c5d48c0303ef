//! Key text and the numbers of `pg_locks`, both ways.

use crate::model::KeyNumbers;

/// A bigint key's numbers.
pub fn from_bigint(value: i64) -> KeyNumbers {
    let bits = value.cast_unsigned();
    #[allow(clippy::cast_possible_truncation, reason = "the halves of a 64-bit number")]
    KeyNumbers { classid: (bits >> 32) as u32, objid: bits as u32, objsubid: 1 }
}

/// A two-int4 key's numbers.
pub fn from_pair(first: i32, second: i32) -> KeyNumbers {
    KeyNumbers { classid: first.cast_unsigned(), objid: second.cast_unsigned(), objsubid: 2 }
}

/// The key as text: `612001`, `(1,42)` or `1001/0/29749`.
pub fn text(key: KeyNumbers) -> String {
    match key.objsubid {
        1 => (u64::from(key.classid) << 32 | u64::from(key.objid)).cast_signed().to_string(),
        2 => format!("({},{})", key.classid.cast_signed(), key.objid.cast_signed()),
        _ => format!("{}/{}/{}", key.classid, key.objid, key.objsubid),
    }
}
