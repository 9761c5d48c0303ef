//! Erlang's `phash2` for the one term that Ecto hashes: `{:ecto, nil, Repo}`.
//!
//! Pure. The hash is Bob Jenkins's lookup2 over the term; atoms go in by their PJW hash.

/// lookup2's golden ratio: hash number n of Erlang's term hashing starts at n times it.
const fn start(n: u32) -> u32 {
    0x9E37_79B9_u32.wrapping_mul(n)
}

/// What `:erlang.phash2({:ecto, nil, repo})` gives for a repo module such as `MyApp.Repo`: 27 bits.
pub fn ecto_lock(repo: &str) -> u32 {
    let tuple_of_three = mix([start(9).wrapping_add(3), start(9), 0]);
    let repo = format!("Elixir.{repo}");
    let hash = ["ecto", "nil", &repo]
        .into_iter()
        .fold(tuple_of_three, |hash, atom| mix([start(3).wrapping_add(pjw(atom)), start(3), hash]));
    hash & ((1 << 27) - 1)
}

/// The hash of an atom's name.
fn pjw(atom: &str) -> u32 {
    atom.bytes().fold(0_u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(u32::from(byte));
        let high = hash & 0xF000_0000;
        hash ^ high >> 24 ^ high
    })
}

fn mix(mut state: [u32; 3]) -> u32 {
    // Each number is a shift of the state before; three rounds of right, left, right.
    for shifts in [[13, 8, 13], [12, 16, 5], [3, 10, 15]] {
        for (place, shift) in shifts.into_iter().enumerate() {
            let (next, last) = ((place + 1) % 3, (place + 2) % 3);
            let shifted = if place == 1 { state[last] << shift } else { state[last] >> shift };
            state[place] = state[place].wrapping_sub(state[next]).wrapping_sub(state[last]) ^ shifted;
        }
    }
    state[2]
}
