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
    ("", [ 0, -2128831035, -2128831035, -3750763034362895579, -3750763034362895579, -3162216497309240828, -2039914840885289964 ]),
    ("a", [ -390611389, 84696446, -468965076, -5808590958014384194, -5808556873153909620, 919145239626757800, -3848465438864589366 ]),
    ("sync_inventory", [ 1840928071, -168975803, -277084927, 258778080742357829, -4061925683409362943, 17981433429991279, 1909553007854886592 ]),
    ("größe", [ 1540598153, -1423338440, -851905382, -8228949906523401832, -5240767065245007654, -163472819755495511, -3219050744914661377 ]),
    ("日本語 😀", [ -934157113, 1357275686, 1530993032, 3954360283900714278, 1064302182150475496, -2137099079414269479, -152539877652295865 ]),
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
