//! How popular software makes a key of a name. One function per formula.
//!
//! Pure: texts in, numbers out. Numbers that were read from `pg_locks` while the real software held its lock are in
//! the tests of [`super`].

use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::{Sha224, Sha256};

use crate::keys::hash::{crc32, first_eight, fnv1_32, hashtext};
use crate::keys::key::{from_bigint, from_pair};
use crate::model::KeyNumbers;

/// Rails' `Migrator`: its salt times crc32 of the database's name, in full.
pub fn rails(database: &str) -> KeyNumbers {
    salted(2_053_462_845, database)
}

/// sqlx's `Migrator`, with another salt.
pub fn sqlx(database: &str) -> KeyNumbers {
    salted(0x3D32_AD9E, database)
}

fn salted(salt: u64, text: &str) -> KeyNumbers {
    from_bigint((salt * u64::from(crc32(text.as_bytes()))).cast_signed())
}

/// The salt that golang-migrate and Grafana share. The product is cut to 32 bits.
const GOLANG_SALT: u32 = 1_486_364_155;

/// Grafana: only the database's name.
pub fn grafana(database: &str) -> KeyNumbers {
    unsigned(crc32(database.as_bytes()).wrapping_mul(GOLANG_SALT))
}

/// golang-migrate: the name with a slash before it where it was opened by URL, else without.
pub fn golang_migrate(database: &str, schema: &str, table: &str) -> [KeyNumbers; 2] {
    [format!("{schema}\0{table}\0/{database}"), format!("{schema}\0{table}\0{database}")].map(|text| grafana(&text))
}

/// pg-boss: sha224 of database, schema and what is locked.
pub fn pg_boss(database: &str, schema: &str, suffix: &str) -> KeyNumbers {
    let digest = Sha224::digest(format!("{database}.pgboss.{schema}{suffix}"));
    from_bigint(first_eight(&digest, i64::from_be_bytes))
}

/// Flyway: "Flyway" in ASCII plus the hash of the quoted table.
pub fn flyway(schema: &str, table: &str) -> KeyNumbers {
    from_bigint(FLYWAY + i64::from(java_hash(&format!("\"{schema}\".\"{table}\""))))
}

/// "Flyway" in ASCII.
pub const FLYWAY: i64 = 0x466C_7977_6179;

/// liquibase-sessionlock: the table's name and the schema's.
pub fn liquibase(table: &str, schema: &str) -> KeyNumbers {
    from_pair(java_hash(table), java_hash(schema))
}

/// Java's `String.hashCode`, which counts in UTF-16 units.
pub fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// @pgkit/migrator: the first 32 bits of md5 over a fixed text and the table's name as JSON.
pub fn pgkit(table: &str) -> KeyNumbers {
    // A JSON string never fails to be written; serde_json's Display of a value does it.
    let name = serde_json::Value::from(table);
    let digest = Md5::digest(format!("@pgkit/migrator advisory lock:{name}"));
    unsigned(digest.iter().take(4).fold(0, |word, &byte| word << 8 | u32::from(byte)))
}

/// The first 8 bytes of md5, as GoodJob and message-db take them.
pub fn md5_first(text: &str) -> KeyNumbers {
    from_bigint(first_eight(&Md5::digest(text), i64::from_be_bytes))
}

/// The first 8 bytes of sha256, most significant first: django-pglocks 2, DBOS.
pub fn sha256_big(text: &str) -> KeyNumbers {
    from_bigint(first_eight(&Sha256::digest(text), i64::from_be_bytes))
}

/// The first 8 bytes of sha256, least significant first: django-pglock.
pub fn sha256_little(text: &str) -> KeyNumbers {
    from_bigint(first_eight(&Sha256::digest(text), i64::from_le_bytes))
}

/// npm's advisory-lock: two int4s from sha256, least significant first.
pub fn npm_advisory_lock(text: &str) -> KeyNumbers {
    let both = first_eight(&Sha256::digest(text), i64::from_le_bytes).cast_unsigned();
    #[allow(clippy::cast_possible_truncation, reason = "the halves of a 64-bit number")]
    KeyNumbers { classid: both as u32, objid: (both >> 32) as u32, objsubid: 2 }
}

/// sqlx's `PgAdvisoryLock::new(name)`: HKDF-SHA256 of the name.
pub fn sqlx_lock(text: &str) -> KeyNumbers {
    let mut key = [0; 8];
    // expand() only fails for an output of more than 255 blocks; this is a quarter of one.
    let expanded =
        hkdf::Hkdf::<Sha256>::new(None, text.as_bytes()).expand(b"SQLx (Rust) Postgres advisory lock", &mut key);
    debug_assert!(expanded.is_ok());
    from_bigint(i64::from_le_bytes(key))
}

/// PostgreSQL's `hashtext`, cast to bigint.
pub fn hashtext_bigint(text: &str) -> KeyNumbers {
    from_bigint(i64::from(hashtext(text.as_bytes())))
}

/// with_advisory_lock: crc32 of the name and the prefix, both without their sign.
pub fn with_advisory_lock(text: &str, prefix: i64) -> KeyNumbers {
    let prefix = i32::try_from(prefix & 0x7FFF_FFFF).unwrap_or_default();
    from_pair((crc32(text.as_bytes()) & 0x7FFF_FFFF).cast_signed(), prefix)
}

/// closure_tree: a name for with_advisory_lock, made of the class's name.
pub fn closure_tree(class: &str) -> KeyNumbers {
    with_advisory_lock(&format!("ct_{:x}", crc32(class.as_bytes())), 0)
}

/// django-pglocks 1: crc32 as a signed number.
pub fn crc32_signed(text: &str) -> KeyNumbers {
    from_bigint(i64::from(crc32(text.as_bytes()).cast_signed()))
}

/// Symfony's lock stores: crc32 as an unsigned number.
pub fn crc32_unsigned(text: &str) -> KeyNumbers {
    unsigned(crc32(text.as_bytes()))
}

/// A 32-bit number that is passed as an unsigned bigint: classid 0.
pub fn unsigned(value: u32) -> KeyNumbers {
    from_bigint(i64::from(value))
}

/// Atlas: FNV-1 of the lock's name, unsigned.
pub fn atlas(text: &str) -> KeyNumbers {
    unsigned(fnv1_32(text.as_bytes()))
}

/// DistributedLock (.NET): a short ASCII name as it stands, hexadecimal digits as numbers, else sha1.
pub fn distributed_lock(text: &str) -> KeyNumbers {
    ascii_pair(text)
        .or_else(|| hexadecimal(text))
        .unwrap_or_else(|| from_bigint(first_eight(&Sha1::digest(text), i64::from_le_bytes)))
}

/// Up to nine ASCII characters of seven bits each, then a 0 bit, then ones.
fn ascii_pair(text: &str) -> Option<KeyNumbers> {
    if text.len() > 9 || !text.is_ascii() {
        return None;
    }
    let mut bits = text.bytes().fold(0_u64, |bits, byte| bits << 7 | u64::from(byte)) << 1;
    for _ in 0..63 - 7 * text.len() {
        bits = bits << 1 | 1;
    }
    #[allow(clippy::cast_possible_truncation, reason = "the halves of a 64-bit number")]
    Some(KeyNumbers { classid: (bits >> 32) as u32, objid: bits as u32, objsubid: 2 })
}

/// The name that [`distributed_lock`] packed into a pair, if it can be one: every character printable, the rest
/// exactly as DistributedLock fills it.
pub fn ascii_name(key: KeyNumbers) -> Option<String> {
    if key.objsubid != 2 {
        return None;
    }
    let bits = u64::from(key.classid) << 32 | u64::from(key.objid);
    let fill = bits.trailing_ones();
    let used = 63_u32.checked_sub(fill)?;
    if used == 0 || used % 7 != 0 {
        return None;
    }
    (0..used / 7)
        .map(|place| u8::try_from(bits >> (57 - 7 * place) & 0x7F).ok().filter(u8::is_ascii_graphic).map(char::from))
        .collect()
}

/// `0123456789abcdef` is a bigint, `01234567,89abcdef` a pair.
fn hexadecimal(text: &str) -> Option<KeyNumbers> {
    let all_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if text.len() == 16 && all_hex(text) {
        return u64::from_str_radix(text, 16).ok().map(|bits| from_bigint(bits.cast_signed()));
    }
    let (first, second) = text.split_once(',')?;
    if first.len() != 8 || second.len() != 8 || !all_hex(first) || !all_hex(second) {
        return None;
    }
    let number = |text| u32::from_str_radix(text, 16).ok().map(u32::cast_signed);
    Some(from_pair(number(first)?, number(second)?))
}

/// The JasperFx libraries' deterministic string hash (Wolverine, Marten): two halves of 16-bit units.
pub fn jasper_hash(text: &str) -> i32 {
    const BEGIN: i32 = (5381 << 16) + 5381;
    let mut halves = [BEGIN; 2];
    for (place, unit) in text.encode_utf16().enumerate() {
        let half = &mut halves[place % 2];
        *half = half.wrapping_mul(33) ^ i32::from(unit);
    }
    halves[0].wrapping_add(halves[1].wrapping_mul(1_566_083_941))
}

/// Wolverine's leader: the hash of its schema, sign-extended.
pub fn wolverine(text: &str) -> KeyNumbers {
    from_bigint(i64::from(jasper_hash(text)))
}

/// Marten's daemon: a base number above the hash of schema and shard.
pub fn marten_daemon(schema: &str, shard: &str) -> KeyNumbers {
    let hash = jasper_hash(&format!("{schema}:{shard}")).wrapping_abs();
    from_bigint(i64::from(hash.wrapping_add(4444)))
}

/// Infisical's own hash: djb2 with exclusive or, its absolute value.
pub fn infisical(text: &str) -> KeyNumbers {
    let hash = djb2(0, text.bytes().map(u32::from)).cast_signed();
    from_bigint(i64::from(hash.unsigned_abs() & 0x7FFF_FFFF))
}

/// Supabase Storage's own hash: djb2 with exclusive or, unsigned.
pub fn supabase_storage(text: &str) -> KeyNumbers {
    unsigned(djb2(5381, text.encode_utf16().map(u32::from)))
}

fn djb2(seed: u32, units: impl Iterator<Item = u32>) -> u32 {
    units.fold(seed, |hash, unit| hash.wrapping_mul(33) ^ unit)
}

/// Prefect: the low 63 bits of a trigger's uuid; nothing if the text is no uuid.
pub fn prefect(uuid: &str) -> Option<KeyNumbers> {
    let digits: String = uuid.chars().filter(|&c| c != '-').collect();
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let low = u64::from_str_radix(digits.get(16..)?, 16).ok()?;
    Some(from_bigint((low & u64::MAX >> 1).cast_signed()))
}

/// pg_repack's first number: its prefix.
pub const PG_REPACK_CLASS: i32 = 16_185_446;

/// pg_repack: its prefix, and the table's oid with the highest bit turned.
pub fn pg_repack(oid: u32) -> KeyNumbers {
    KeyNumbers { classid: PG_REPACK_CLASS.cast_unsigned(), objid: oid ^ 0x8000_0000, objsubid: 2 }
}
