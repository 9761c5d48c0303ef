//! Which columns each view has, and which of them fit.
//!
//! Widths follow from the screen alone, never from the rows: nothing jumps when data changes.

use super::state::View;

/// What a column shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Column {
    /// The target's name.
    Target,
    /// The severity.
    Severity,
    /// The rule, or the worst rule that names a lock.
    Rule,
    /// Key and name.
    Key,
    /// Database
    Database,
    /// Who holds.
    Holder,
    /// For how long it has been held.
    Held,
    /// The holder's state and since when.
    State,
    /// The mode.
    Mode,
    /// The scope.
    Scope,
    /// How many wait.
    Waiting,
    /// The longest wait.
    Longest,
    /// A pool.
    Pool,
    /// Sessions of a pool.
    Sessions,
    /// Those that hold.
    Holding,
    /// Those that are idle.
    Idle,
    /// Those that are idle in a transaction.
    InTransaction,
    /// Those that work.
    Working,
    /// Holding and waiting as a bar.
    LockBar,
    /// Idle and working as a bar.
    StateBar,
    /// How many hold.
    Holders,
    /// The longest hold since the screen opened.
    LongestHold,
    /// What a key is for.
    Kind,
    /// When it happened.
    Time,
    /// What happened.
    What,
    /// Key, rule.
    Subject,
    /// Who.
    Who,
    /// What else is known.
    Text,
    /// A line of the tree.
    Tree,
}

/// A column as it is asked for.
#[derive(Debug, Clone, Copy)]
struct Wish {
    column: Column,
    title: &'static str,
    /// The least width.
    least: u16,
    /// The share of what is left, and the most.
    share: u16,
    most: u16,
    /// Numbers stand to the right.
    right: bool,
    /// Sentences are cut at their end, names in their middle.
    sentence: bool,
    /// Columns with greater numbers go first where there is no room.
    spare: u8,
}

const fn fixed(column: Column, title: &'static str, width: u16, rank: u8) -> Wish {
    Wish { column, title, least: width, share: 0, most: width, right: false, sentence: false, spare: rank }
}

const fn number(column: Column, title: &'static str, width: u16, rank: u8) -> Wish {
    Wish { right: true, ..fixed(column, title, width, rank) }
}

const fn text(column: Column, title: &'static str, least: u16, share: u16, most: u16, rank: u8) -> Wish {
    Wish { column, title, least, share, most, right: false, sentence: false, spare: rank }
}

const fn sentence(column: Column, title: &'static str, least: u16, share: u16, most: u16, rank: u8) -> Wish {
    Wish { sentence: true, ..text(column, title, least, share, most, rank) }
}

const FINDINGS: &[Wish] = &[
    fixed(Column::Severity, "", 8, 0),
    text(Column::Target, "TARGET", 8, 1, 20, 1),
    text(Column::Rule, "RULE", 12, 2, 27, 0),
    text(Column::Key, "KEY", 13, 3, 70, 0),
    text(Column::Holder, "HOLDER", 11, 3, 60, 2),
    number(Column::Held, "HELD", 8, 3),
    text(Column::State, "STATE", 12, 0, 16, 5),
    number(Column::Waiting, "WAIT", 5, 0),
    number(Column::Longest, "LONGEST", 8, 4),
];

const LOCKS: &[Wish] = &[
    text(Column::Target, "TARGET", 8, 1, 20, 1),
    text(Column::Key, "KEY", 14, 3, 60, 0),
    text(Column::Database, "DATABASE", 9, 1, 20, 6),
    text(Column::Holder, "HOLDER", 15, 3, 60, 0),
    number(Column::Held, "HELD", 8, 0),
    text(Column::State, "STATE", 16, 0, 16, 4),
    text(Column::Mode, "MODE", 9, 0, 9, 8),
    text(Column::Scope, "SCOPE", 11, 0, 11, 7),
    number(Column::Waiting, "WAIT", 5, 0),
    number(Column::Longest, "LONGEST", 8, 5),
    text(Column::Rule, "FINDING", 12, 1, 27, 2),
];

const WAITS: &[Wish] = &[
    text(Column::Target, "TARGET", 8, 0, 12, 1),
    text(Column::Tree, "WHO WAITS FOR WHOM", 20, 3, 90, 0),
    fixed(Column::Longest, "HOW LONG", 14, 0),
    sentence(Column::Text, "HOW", 13, 2, 200, 2),
];

const POOLS: &[Wish] = &[
    text(Column::Target, "TARGET", 8, 1, 20, 1),
    text(Column::Pool, "POOL", 16, 3, 60, 0),
    number(Column::Sessions, "ALL", 4, 0),
    text(Column::LockBar, "# HOLD = WAIT", 14, 2, 40, 0),
    number(Column::Holding, "HOLD", 4, 0),
    number(Column::Waiting, "WAIT", 4, 0),
    text(Column::StateBar, "+ WORK : IN TX", 16, 1, 30, 5),
    number(Column::Working, "WORK", 4, 3),
    number(Column::InTransaction, "IN TX", 5, 4),
    number(Column::Idle, "IDLE", 4, 2),
];

const KEYS: &[Wish] = &[
    text(Column::Target, "TARGET", 8, 1, 20, 1),
    text(Column::Key, "KEY", 18, 4, 80, 0),
    text(Column::Database, "DATABASE", 9, 1, 20, 4),
    text(Column::Kind, "KIND", 12, 0, 12, 5),
    number(Column::Holders, "HOLDERS", 7, 0),
    number(Column::Held, "HELD", 8, 0),
    number(Column::LongestHold, "LONGEST HOLD", 12, 3),
    number(Column::Waiting, "WAIT", 5, 0),
    number(Column::Longest, "LONGEST", 8, 2),
];

const HISTORY: &[Wish] = &[
    fixed(Column::Time, "TIME UTC", 8, 0),
    text(Column::Target, "TARGET", 8, 1, 20, 1),
    fixed(Column::What, "WHAT", 10, 0),
    text(Column::Subject, "KEY OR RULE", 16, 2, 60, 0),
    text(Column::Who, "WHO", 14, 2, 50, 2),
    sentence(Column::Text, "DETAILS", 14, 3, 200, 3),
];

fn wishes(view: View) -> &'static [Wish] {
    match view {
        View::Findings => FINDINGS,
        View::Locks => LOCKS,
        View::Waits => WAITS,
        View::Pools => POOLS,
        View::Keys => KEYS,
        View::History => HISTORY,
    }
}

/// A column in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// What it shows.
    pub column: Column,
    /// Its title.
    pub title: &'static str,
    /// Where it begins.
    pub x: u16,
    /// How wide it is.
    pub width: u16,
    /// Numbers stand to the right.
    pub right: bool,
    /// Sentences are cut at their end, names in their middle.
    pub sentence: bool,
}

/// The sign of the selected row stands before the first column.
pub const MARGIN: u16 = 2;

/// The columns that fit on a screen so wide. The target's is only there where there are several.
pub fn placed(view: View, width: u16, several_targets: bool) -> Vec<Placed> {
    let gap = if width < 100 { 1 } else { 2 };
    let room = width.saturating_sub(MARGIN);
    let narrow = width < 100;
    let mut wishes: Vec<Wish> = wishes(view)
        .iter()
        .filter(|wish| several_targets || wish.column != Column::Target)
        .map(|wish| if narrow && wish.column == Column::Severity { Wish { least: 4, most: 4, ..*wish } } else { *wish })
        .collect();
    let needed =
        |wishes: &[Wish]| -> u16 { wishes.iter().map(|wish| wish.least + gap).sum::<u16>().saturating_sub(gap) };
    while needed(&wishes) > room {
        let Some(place) = (0..wishes.len()).max_by_key(|&place| wishes[place].spare) else { break };
        if wishes[place].spare == 0 {
            break;
        }
        wishes.remove(place);
    }
    let widths = share_out(&wishes, room.saturating_sub(needed(&wishes)));
    let mut x = MARGIN;
    let mut columns = Vec::with_capacity(wishes.len());
    for (wish, column_width) in wishes.iter().zip(widths) {
        let column_width = column_width.min(width.saturating_sub(x));
        columns.push(Placed {
            column: wish.column,
            title: wish.title,
            x,
            width: column_width,
            right: wish.right,
            sentence: wish.sentence,
        });
        x = x.saturating_add(column_width + gap);
    }
    columns
}

/// Gives the left columns of the screen to whoever may have more, by share.
fn share_out(wishes: &[Wish], mut left: u16) -> Vec<u16> {
    let mut widths: Vec<u16> = wishes.iter().map(|wish| wish.least).collect();
    loop {
        let open: Vec<usize> =
            (0..wishes.len()).filter(|&at| wishes[at].share > 0 && widths[at] < wishes[at].most).collect();
        let shares: u16 = open.iter().map(|&at| wishes[at].share).sum();
        if left == 0 || shares == 0 {
            return widths;
        }
        let before = left;
        for at in open {
            let wanted = (before * wishes[at].share / shares).max(1);
            let given = wanted.min(wishes[at].most - widths[at]).min(left);
            widths[at] += given;
            left -= given;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_at_every_width_and_the_most_important_stay() {
        for view in View::ALL {
            for several in [false, true] {
                for width in 60..=250 {
                    let columns = placed(view, width, several);
                    let end = columns.last().map_or(0, |last| last.x + last.width);
                    assert!(end <= width, "{view:?} at {width}: {columns:?}");
                    for pair in columns.windows(2) {
                        assert!(pair[0].x + pair[0].width < pair[1].x, "{view:?} at {width}");
                    }
                }
            }
        }
        let titles: Vec<&str> = placed(View::Findings, 60, false).iter().map(|column| column.title).collect();
        assert_eq!(titles, ["", "RULE", "KEY", "HOLDER", "HELD", "WAIT"]);
    }
}
