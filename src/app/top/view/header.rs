//! Who is looked at, how old what is shown is and why, the totals, and the names of the views.

use ratatui::style::Style;
use unicode_width::UnicodeWidthStr as _;

use super::Canvas;
use crate::analysis::report::{ServerReport, Severity, TargetReport};
use crate::app::top::layout::Areas;
use crate::app::top::state::{Silence, State, Target};
use crate::app::top::theme::{BOLD, DIM, PLAIN, SELECTED};
use crate::render::counted;
use crate::render::style::{self, safe};

/// From this share of the lock table on the header speaks of it.
const TABLE_FILLS: f64 = 0.5;

/// A piece of a line.
type Piece = (String, Style);

pub(super) fn draw(state: &State, areas: &Areas, canvas: &mut Canvas<'_>) {
    let shown: Vec<&Target> = state.shown_targets().filter_map(|place| state.targets.get(place)).collect();
    match shown.as_slice() {
        [one] => of_one(state, one, areas, canvas),
        many => of_many(state, many, areas, canvas),
    }
    tabs(state, areas, canvas);
}

fn of_one(state: &State, target: &Target, areas: &Areas, canvas: &mut Canvas<'_>) {
    let name = style::cut(&safe(&target.name), usize::from(areas.width) / 3).into_owned();
    if let Some(silence) = target.silence(state.now) {
        let badge = canvas.theme.badge(Severity::Unknown);
        let left = [vec![("pglockwatch".to_owned(), DIM), (name.clone(), BOLD)], vec![(name, BOLD)]];
        line(canvas, 0, &left, &no_answer(&silence).map(|words| (words, badge)), true);
        let why = match silence.failure {
            Some(failure) => safe(&failure.message).into_owned(),
            None => "no error has come: the server or the network is silent".to_owned(),
        };
        let room = room_for_totals(areas);
        canvas.put(1, 1, &style::cut(&why, room), PLAIN);
        return;
    }
    let Some((report, server)) = target.report().and_then(|report| Some((report, report.server.as_ref()?))) else {
        let waiting = ("connecting ...".to_owned(), PLAIN);
        line(canvas, 0, &[vec![("pglockwatch".to_owned(), DIM), (name, BOLD)]], &[waiting], false);
        return;
    };
    let version = format!("{} {}", safe(&server.version), if server.in_recovery { "standby" } else { "primary" });
    let role = role(server);
    let left = [
        vec![("pglockwatch".to_owned(), DIM), (name.clone(), BOLD), (version.clone(), PLAIN), role.clone()],
        vec![(name.clone(), BOLD), (version.clone(), PLAIN), role],
        vec![(name.clone(), BOLD), (version, PLAIN)],
        vec![(name, BOLD)],
    ];
    line(canvas, 0, &left, &freshness(state, target, report), false);
    totals(canvas, areas, &totals_of(canvas, &[report]));
}

fn role(server: &ServerReport) -> Piece {
    let role = safe(&server.role);
    if server.sees_all_sessions {
        (format!("role {role}, sees all"), PLAIN)
    } else {
        (format!("role {role}, sees only its own"), BOLD)
    }
}

/// `polled 1 s ago in 2.1 ms, every 2 s`, or that it is paused: the longest first.
fn freshness(state: &State, target: &Target, report: &TargetReport) -> Vec<Piece> {
    if let Some(words) = paused(state) {
        return vec![(words, BOLD), ("paused".to_owned(), BOLD)];
    }
    let ago = format!("{} s ago", target.age(state.now).as_secs());
    let every = match target.stretched_to {
        Some(stretched) => format!("every {}, polls are slow", interval(stretched)),
        None => format!("every {}", interval(target.interval)),
    };
    let took = style::milliseconds(report.poll_duration);
    vec![(format!("polled {ago} in {took}, {every}"), PLAIN), (format!("{ago}, {every}"), PLAIN), (ago, PLAIN)]
}

fn interval(interval: std::time::Duration) -> String {
    // A stretched interval is no round number.
    let millis = interval.as_millis();
    if millis.is_multiple_of(1000) {
        format!("{} s", millis / 1000)
    } else {
        format!("{:.1} s", interval.as_secs_f64())
    }
}

fn paused(state: &State) -> Option<String> {
    let (since, _) = state.paused?;
    Some(format!("paused {} s ago, space goes on", state.now.saturating_sub(since).as_secs()))
}

/// That there is no answer, since when, and what comes next: the longest first.
fn no_answer(silence: &Silence<'_>) -> [String; 3] {
    let lasted = format!("no answer for {} s", silence.lasted.as_secs());
    let from = silence.from.map(|from| format!("{} UTC", from.format("%H:%M:%S")));
    let next = match silence.retry_in {
        Some(retry_in) if retry_in.as_secs() > 0 => format!("; next try in {} s", retry_in.as_secs()),
        Some(_) => "; trying now".to_owned(),
        None => String::new(),
    };
    let rows = from.as_ref().map(|from| format!(": the rows below are from {from}")).unwrap_or_default();
    let last = from.map(|from| format!(", rows of {from}")).unwrap_or_default();
    [format!("{lasted}{rows}{next}"), format!("{lasted}{last}{next}"), format!("{lasted}{last}")]
}

fn of_many(state: &State, targets: &[&Target], areas: &Areas, canvas: &mut Canvas<'_>) {
    let silent: Vec<(&&Target, Silence<'_>)> =
        targets.iter().filter_map(|target| Some((target, target.silence(state.now)?))).collect();
    let waiting = targets.iter().filter(|target| target.latest.is_none() && target.failing.is_none()).count();
    let name = (format!("all {} targets", targets.len()), BOLD);
    let left = [vec![("pglockwatch".to_owned(), DIM), name.clone()], vec![name]];
    let right = match silent.first() {
        Some((target, silence)) => {
            let more = if silent.len() > 1 { format!(", {} more are silent", silent.len() - 1) } else { String::new() };
            let name = safe(&target.name);
            let badge = canvas.theme.badge(Severity::Unknown);
            vec![
                (format!("{name}: {}{more}", no_answer(silence)[0]), badge),
                (format!("{name}: no answer for {} s{more}", silence.lasted.as_secs()), badge),
                (format!("{} of {} silent", silent.len(), targets.len()), badge),
            ]
        }
        None => match paused(state) {
            Some(words) => vec![(words, BOLD), ("paused".to_owned(), BOLD)],
            None if waiting > 0 => vec![(format!("waiting for {waiting}"), PLAIN)],
            None => vec![("all answer".to_owned(), canvas.theme.good())],
        },
    };
    line(canvas, 0, &left, &right, !silent.is_empty());
    let reports: Vec<&TargetReport> = targets.iter().filter_map(|target| target.report()).collect();
    totals(canvas, areas, &totals_of(canvas, &reports));
}

/// What is longer than this may be a number that grows: room is kept, so that nothing comes and goes with it.
const NUMBERS_GROW: usize = 5;

/// The first pair that fits, the left side's forms and the right side's each from long to short. What is said on the
/// right comes first when it is urgent.
fn line(canvas: &mut Canvas<'_>, y: u16, left: &[Vec<Piece>], right: &[Piece], urgent: bool) {
    let room = usize::from(canvas.width).saturating_sub(2);
    let width = |pieces: &[Piece]| pieces.iter().map(|(text, _)| text.width() + 2).sum::<usize>();
    let fits = |left: &[Piece], right: &Piece| width(left) + right.0.width() + NUMBERS_GROW <= room;
    let mut pairs: Vec<(&Vec<Piece>, &Piece)> =
        left.iter().flat_map(|left| right.iter().map(move |right| (left, right))).collect();
    if urgent {
        pairs = right.iter().flat_map(|right| left.iter().map(move |left| (left, right))).collect();
    }
    let first = pairs.iter().find(|(left, right)| fits(left, right)).or(pairs.last());
    let Some(&(left, right)) = first else { return };
    let mut x = 1;
    for (text, style) in left {
        x = canvas.put(x, y, text, *style) + 2;
    }
    let width = u16::try_from(right.0.width()).unwrap_or(canvas.width);
    let at = canvas.width.saturating_sub(width + 1).max(x);
    let room = usize::from(canvas.width.saturating_sub(at));
    canvas.put(at, y, &style::cut(&right.0, room), right.1);
}

fn totals_of(canvas: &Canvas<'_>, reports: &[&TargetReport]) -> Vec<Piece> {
    let sum = |number: fn(&TargetReport) -> usize| reports.iter().map(|report| number(report)).sum::<usize>();
    let mut pieces = Vec::new();
    let severities: Vec<(Severity, usize)> = Severity::WORST_FIRST
        .into_iter()
        .filter(|severity| *severity != Severity::Info)
        .map(|severity| {
            let counted = reports.iter().flat_map(|report| counted(report));
            (severity, counted.filter(|finding| finding.severity == severity).count())
        })
        .collect();
    for (severity, number) in &severities {
        if *number > 0 {
            pieces.push((format!(" {number} {} ", severity.name()), canvas.theme.badge(*severity)));
        }
    }
    if pieces.is_empty() {
        pieces.push(("nothing wrong".to_owned(), canvas.theme.good()));
    }
    let waiting = sum(|report| report.counts.waiters);
    let longest = reports.iter().map(|report| report.counts.longest_wait).max().unwrap_or_default();
    pieces.push(match waiting {
        0 => ("0 waiting".to_owned(), PLAIN),
        waiting => (format!("{waiting} waiting, {}", style::duration(longest)), BOLD),
    });
    pieces.push((style::count(sum(|report| report.counts.locks), "lock"), PLAIN));
    pieces.push((style::count(sum(|report| report.counts.holders), "holder"), PLAIN));
    pieces.extend(crate::render::leases::totals(reports).map(|text| (text, PLAIN)));
    let hidden = sum(|report| report.server.as_ref().map_or(0, |server| server.hidden_holders));
    if hidden > 0 {
        pieces.insert(1, (format!("{} cannot be judged", style::count(hidden, "holder")), BOLD));
    }
    let mute = sum(|report| report.poolers.iter().filter(|pooler| pooler.problem.is_some()).count());
    if mute > 0 {
        pieces.insert(1, (format!("{} cannot be asked", style::count(mute, "PgBouncer")), BOLD));
    }
    if reports.iter().any(|report| report.behind_pooler) {
        pieces.push(("behind a pooler".to_owned(), BOLD));
    }
    let ratio = reports.iter().filter_map(|report| report.server.as_ref()).map(|server| server.lock_table_ratio);
    let ratio = ratio.fold(0.0, f64::max);
    if ratio >= TABLE_FILLS {
        pieces.push((format!("lock table {:.0} % full", ratio * 100.0), BOLD));
    }
    let silenced = sum(|report| report.findings.iter().filter(|finding| finding.silenced.is_some()).count());
    for (number, word) in [(sum(|report| report.counts.expected_holders), "expected"), (silenced, "silenced")] {
        if number > 0 {
            pieces.push((format!("{number} {word}"), PLAIN));
        }
    }
    pieces
}

fn room_for_totals(areas: &Areas) -> usize {
    let end = if areas.tabs.0 == 1 { areas.tabs.1 } else { areas.width };
    usize::from(end.saturating_sub(2))
}

fn totals(canvas: &mut Canvas<'_>, areas: &Areas, pieces: &[Piece]) {
    let room = room_for_totals(areas);
    let mut x = 1;
    for (text, style) in pieces {
        if usize::from(x) + text.width() > room {
            break;
        }
        x = canvas.put(x, 1, text, *style) + 2;
    }
}

fn tabs(state: &State, areas: &Areas, canvas: &mut Canvas<'_>) {
    for (view, x, title) in areas.tabs() {
        let style = if view == state.view { SELECTED } else { PLAIN };
        canvas.put(x, areas.tabs.0, title, style);
    }
}
