//! Durations, as they are typed (`500ms`, `60s`, `5m`, `1h30m`) and as people read them (`3m12s`). Pure.

use std::time::Duration;

use crate::analysis::report::{HeldFor, Waited};

/// Longer than any threshold or timeout that makes sense, and far from where clocks overflow.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Reads a duration.
///
/// # Errors
/// A sentence that says what to write. A number without a unit is an error: seconds and milliseconds are too easily
/// taken for each other.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(format!("the unit is missing: write {text}s for seconds, or {text}ms, {text}m, {text}h"));
    }
    let duration = humantime::parse_duration(text)
        .map_err(|_| "this is not a duration: write it like 500ms, 60s, 5m or 1h30m".to_owned())?;
    if duration > LONGEST {
        return Err("this is longer than a year: write it like 500ms, 60s, 5m or 1h30m".to_owned());
    }
    Ok(duration)
}

/// A duration as people read it: `0.4s`, `12s`, `3m12s`, `14m`, `2h10m`, `3d04h`. Cut off, never rounded up.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{seconds}.{}s", duration.subsec_millis() / 100),
        10..60 => format!("{seconds}s"),
        60..3_600 if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// How long a lock has surely been held: `>= 3m12s`.
pub fn held(held: HeldFor) -> String {
    format!(">= {}", duration(held.at_least))
}

/// How long a session has waited: `12s`, `<= 12s` where that is only an upper bound, `?` where nothing is known.
pub fn waited(waited: Waited) -> String {
    if waited.unknown {
        return "?".to_owned();
    }
    if waited.upper_bound { format!("<= {}", duration(round_up(waited.duration))) } else { duration(waited.duration) }
}

/// An upper bound must not be cut off: up to the next unit that `duration` shows.
fn round_up(length: Duration) -> Duration {
    let unit = match length.as_secs() {
        0..10 => 100_000_000,
        10..3_600 => 1_000_000_000,
        3_600..86_400 => 60_000_000_000_u128,
        _ => 3_600_000_000_000,
    };
    let nanoseconds = length.as_nanos().div_ceil(unit) * unit;
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_needed_and_may_be_combined() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        assert!(parse_duration("60").unwrap_err().contains("write 60s"));
        assert!(parse_duration("0").is_err());
        assert!(parse_duration("").is_err());
        assert!(parse_duration("-5s").is_err());
        assert!(parse_duration("99999999999h").is_err());
        assert!(parse_duration("2years").is_err());
    }

    #[test]
    fn durations_are_short_and_never_say_too_much() {
        let shown = |milliseconds| duration(Duration::from_millis(milliseconds));
        assert_eq!(shown(499), "0.4s");
        assert_eq!(shown(9_999), "9.9s");
        assert_eq!(shown(59_999), "59s");
        assert_eq!(shown(192_000), "3m12s");
        assert_eq!(shown(62_000), "1m02s");
        assert_eq!(shown(14 * 60_000), "14m");
        assert_eq!(shown(130 * 60_000), "2h10m");
        assert_eq!(shown(76 * 3_600_000), "3d04h");
    }

    #[test]
    fn an_upper_bound_is_rounded_up() {
        let bound = |milliseconds| {
            waited(Waited { duration: Duration::from_millis(milliseconds), upper_bound: true, unknown: false })
        };
        assert_eq!(bound(11_001), "<= 12s");
        assert_eq!(bound(12_000), "<= 12s");
        assert_eq!(bound(59_500), "<= 1m");
        assert_eq!(bound(410), "<= 0.5s");
    }
}
