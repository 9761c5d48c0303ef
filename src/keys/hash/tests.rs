use super::*;

/// What two PostgreSQL servers answered.
const SERVERS: &str = include_str!("vectors.tsv");

#[test]
fn postgresqls_hashes_are_what_the_servers_answered() {
    let mut checked = 0;
    for line in SERVERS.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [text, seed, int4, with_seed, without] = *fields.as_slice() else { panic!("{line}") };
        let text: String = serde_json::from_str(text).unwrap();
        let bytes = text.as_bytes();
        assert_eq!(hashtext(bytes).to_string(), int4, "hashtext of {text:?}");
        assert_eq!(hashtextextended(bytes, seed.parse().unwrap()).to_string(), with_seed, "{text:?} {seed}");
        assert_eq!(hashtextextended(bytes, 0).to_string(), without, "{text:?}");
        checked += 1;
    }
    assert!(checked > 300);
}

/// crc32, fnv1-32, fnv1a-32, fnv1-64, fnv1a-64, md5-64, sha256-64: from Python's zlib and hashlib, and FNV's definition.
#[rustfmt::skip]
const OTHERS: &[(&str, [i64; 7])] = &[
    ("", [
        0, -2_128_831_035, -2_128_831_035, -3_750_763_034_362_895_579,
        -3_750_763_034_362_895_579, -3_162_216_497_309_240_828, -2_039_914_840_885_289_964,
    ]),
    ("a", [
        -390_611_389, 84_696_446, -468_965_076, -5_808_590_958_014_384_194,
        -5_808_556_873_153_909_620, 919_145_239_626_757_800, -3_848_465_438_864_589_366,
    ]),
    ("sync_inventory", [
        1_840_928_071, -168_975_803, -277_084_927, 258_778_080_742_357_829,
        -4_061_925_683_409_362_943, 17_981_433_429_991_279, 1_909_553_007_854_886_592,
    ]),
    ("größe", [
        1_540_598_153, -1_423_338_440, -851_905_382, -8_228_949_906_523_401_832,
        -5_240_767_065_245_007_654, -163_472_819_755_495_511, -3_219_050_744_914_661_377,
    ]),
    ("日本語 😀", [
        -934_157_113, 1_357_275_686, 1_530_993_032, 3_954_360_283_900_714_278,
        1_064_302_182_150_475_496, -2_137_099_079_414_269_479, -152_539_877_652_295_865,
    ]),
];

#[test]
fn the_other_hashes_are_what_independent_implementations_say() {
    let algorithms = [
        Algorithm::Crc32,
        Algorithm::Fnv1w32,
        Algorithm::Fnv1aw32,
        Algorithm::Fnv1w64,
        Algorithm::Fnv1aw64,
        Algorithm::Md5w64,
        Algorithm::Sha256w64,
    ];
    for (text, expected) in OTHERS {
        for (algorithm, expected) in algorithms.into_iter().zip(expected) {
            let value = algorithm.hash(text.as_bytes());
            assert_eq!(value.bigint(), *expected, "{} of {text:?}", algorithm.name());
            assert_eq!(matches!(value, Value::Int4(_)), algorithm.is_int4());
        }
    }
}

#[test]
fn every_hash_has_one_name() {
    for algorithm in Algorithm::ALL {
        assert_eq!(Algorithm::from_name(algorithm.name()), Some(algorithm));
    }
    assert_eq!(Algorithm::from_name("sha1"), None);
}
