//! PostgreSQL's `hashtext` and `hashtextextended`.
//!
//! Both are Bob Jenkins's lookup3 with PostgreSQL's own start value, and both are the same in PostgreSQL 12 to 18 on
//! little-endian machines; on a big-endian server the numbers differ.

/// lookup3's golden ratio and the constant that PostgreSQL adds to it.
const START: u32 = 0x9E37_79B9_u32.wrapping_add(3_923_095);

/// `hashtext(text)`: an int4.
pub fn hashtext(bytes: &[u8]) -> i32 {
    let [.., low] = hash(bytes, 0);
    low.cast_signed()
}

/// `hashtextextended(text, seed)`: a bigint. With seed 0 its low half is `hashtext`.
pub fn hashtextextended(bytes: &[u8], seed: i64) -> i64 {
    let [_, high, low] = hash(bytes, seed.cast_unsigned());
    (u64::from(high) << 32 | u64::from(low)).cast_signed()
}

fn hash(bytes: &[u8], seed: u64) -> [u32; 3] {
    #[allow(clippy::cast_possible_truncation, reason = "lookup3 takes the length modulo 2^32; text is under 1 GB")]
    let start = START.wrapping_add(bytes.len() as u32);
    let mut state = [start; 3];
    if seed != 0 {
        #[allow(clippy::cast_possible_truncation, reason = "the halves of a 64-bit number")]
        let halves = [(seed >> 32) as u32, seed as u32];
        state[0] = state[0].wrapping_add(halves[0]);
        state[1] = state[1].wrapping_add(halves[1]);
        mix(&mut state);
    }
    let mut blocks = bytes.chunks_exact(12);
    for block in &mut blocks {
        for (place, word) in state.iter_mut().zip(block.chunks_exact(4)) {
            *place = place.wrapping_add(word.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte)));
        }
        mix(&mut state);
    }
    // The lowest byte of the last word stands for the length: what is left of the text begins above it there.
    for (place, &byte) in blocks.remainder().iter().enumerate() {
        let shift = if place < 8 { place % 4 } else { place % 4 + 1 };
        state[place / 4] = state[place / 4].wrapping_add(u32::from(byte) << (8 * shift));
    }
    finish(&mut state);
    state
}

/// Rotations of lookup3's mixing of a block.
const MIX: [u32; 6] = [4, 6, 8, 16, 19, 4];
/// Rotations of lookup3's last step.
const FINISH: [u32; 7] = [14, 11, 25, 16, 4, 14, 24];

fn mix(state: &mut [u32; 3]) {
    for (round, rotation) in MIX.into_iter().enumerate() {
        let (a, b, c) = (round % 3, (round + 1) % 3, (round + 2) % 3);
        state[a] = state[a].wrapping_sub(state[c]) ^ state[c].rotate_left(rotation);
        state[c] = state[c].wrapping_add(state[b]);
    }
}

fn finish(state: &mut [u32; 3]) {
    for (round, rotation) in FINISH.into_iter().enumerate() {
        let (to, from) = ((round + 2) % 3, (round + 1) % 3);
        state[to] = (state[to] ^ state[from]).wrapping_sub(state[from].rotate_left(rotation));
    }
}
