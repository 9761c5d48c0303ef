//! Where everything stands, for a screen of some size. Pure: the drawing and the mouse both ask here.

use super::state::View;

/// From so many columns on the names of the views stand in the line of the totals.
const TABS_INLINE: u16 = 140;

/// From so many rows on there is room for what the selected finding means.
const ROOM_FOR_PREVIEW: u16 = 18;

/// From so many rows on there is more room for it.
const MORE_ROOM: u16 = 24;

/// A line of the tabs, each with a blank on both sides.
const TAB_TITLES: [&str; 6] = [" 1 Findings ", " 2 Locks ", " 3 Waits ", " 4 Pools ", " 5 Keys ", " 6 History "];

/// The parts of the screen: rows counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Areas {
    /// All columns.
    pub width: u16,
    /// All rows.
    pub height: u16,
    /// The row of the views' names, and their first column.
    pub tabs: (u16, u16),
    /// The rule with the view's title.
    pub title: u16,
    /// The titles of the columns.
    pub head: u16,
    /// The first row of the list.
    pub body: u16,
    /// How many rows the list has.
    pub rows: u16,
    /// The first row of what the selected finding means, a rule above it, and how many rows.
    pub preview: Option<(u16, u16)>,
    /// The bottom line.
    pub footer: u16,
}

/// The parts of a screen of this size.
pub fn areas((width, height): (u16, u16), view: View) -> Areas {
    let inline = width >= TABS_INLINE;
    let tabs_width: u16 = TAB_TITLES.iter().map(|title| tab_width(title)).sum();
    let tabs = if inline { (1, width - tabs_width - 1) } else { (2, 0) };
    let title = tabs.0 + 1;
    let head = title + 1;
    let body = head + 1;
    let footer = height.saturating_sub(1);
    let with_preview = view == View::Findings && height >= ROOM_FOR_PREVIEW;
    // With the rule above it.
    let below = match (with_preview, height >= MORE_ROOM) {
        (false, _) => 0,
        (true, false) => 3,
        (true, true) => 5,
    };
    let rows = footer.saturating_sub(body + below);
    let preview = with_preview.then(|| (body + rows, below));
    Areas { width, height, tabs, title, head, body, rows, preview, footer }
}

fn tab_width(title: &str) -> u16 {
    u16::try_from(title.len()).unwrap_or(u16::MAX)
}

impl Areas {
    /// Each view's name, and where it stands in the tabs' row.
    pub fn tabs(&self) -> impl Iterator<Item = (View, u16, &'static str)> + use<> {
        let mut x = self.tabs.1;
        View::ALL.into_iter().zip(TAB_TITLES).map(move |(view, title)| {
            let at = x;
            x = x.saturating_add(tab_width(title));
            (view, at, title)
        })
    }

    /// The view whose name stands there.
    pub fn tab_at(&self, column: u16, row: u16) -> Option<View> {
        let here = |(_, x, title): &(View, u16, &str)| (*x..x.saturating_add(tab_width(title))).contains(&column);
        self.tabs().filter(|_| row == self.tabs.0).find(here).map(|(view, ..)| view)
    }

    /// The place in the list's visible part of what stands in this row.
    pub fn row_at(&self, row: u16) -> Option<usize> {
        (self.body..self.body + self.rows).contains(&row).then(|| usize::from(row - self.body))
    }

    /// The rows that an overlay has: from the title's rule to above the bottom line.
    pub fn overlay_rows(&self) -> usize {
        usize::from(self.footer.saturating_sub(self.title + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_at_any_size() {
        for width in 60..=250 {
            for height in 15..=80 {
                for view in View::ALL {
                    let areas = areas((width, height), view);
                    assert!(areas.rows >= 8, "{width}x{height}");
                    let end = areas.preview.map_or(areas.body + areas.rows, |(first, rows)| first + rows);
                    assert_eq!(end, areas.footer);
                    let (_, x, title) = areas.tabs().last().unwrap();
                    assert!(x + tab_width(title) <= width);
                }
            }
        }
    }
}
