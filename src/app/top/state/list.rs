//! Selection and order of a list. The selection follows its row, wherever that goes.

use super::State;
use crate::app::top::columns::{self, Column};

/// What a view's list looks like.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// The selected row. Nothing as long as nobody has chosen one: then it is the first, whichever that is.
    pub selected: Option<u64>,
    /// Its place.
    pub position: usize,
    /// The place of the first row on the screen.
    pub offset: usize,
    /// The column that rows are sorted by; nothing is the order of urgency.
    pub sort: Option<Column>,
    /// The other way round.
    pub reversed: bool,
}

impl State {
    /// Makes the rows of the open view anew, and finds the selected one again.
    pub fn rebuild(&mut self) {
        self.collect_rows();
        let list = &self.lists[self.view.place()];
        let found = list.selected.and_then(|id| self.rows.iter().position(|row| row.id == id));
        // A row that has gone hands the selection to the one that took its place.
        let position = found.unwrap_or(list.position).min(self.rows.len().saturating_sub(1));
        let id = list.selected.and_then(|_| self.rows.get(position)).map(|row| row.id);
        // Keep the row on its line of the screen if that can be.
        let line = list.position.saturating_sub(list.offset);
        let list = self.list_mut();
        list.offset = if found.is_some() { position.saturating_sub(line) } else { list.offset };
        list.position = position;
        list.selected = id;
        self.keep_in_sight();
        self.renew_detail();
    }

    /// Scrolls so that the selected row is on the screen, and no line is wasted.
    pub(super) fn keep_in_sight(&mut self) {
        let rows = usize::from(self.areas().rows).max(1);
        let count = self.rows.len();
        let list = self.list_mut();
        list.offset = list.offset.min(list.position).max((list.position + 1).saturating_sub(rows));
        list.offset = list.offset.min(count.saturating_sub(rows));
    }

    /// Selects the row at this place.
    pub(super) fn select(&mut self, position: usize) {
        let position = position.min(self.rows.len().saturating_sub(1));
        let id = self.rows.get(position).map(|row| row.id);
        let list = self.list_mut();
        list.position = position;
        list.selected = id;
        self.keep_in_sight();
    }

    /// Moves the selection by so many rows.
    pub(super) fn step(&mut self, by: isize) {
        self.select(self.list().position.saturating_add_signed(by));
    }

    /// Opens another view.
    pub(super) fn open(&mut self, view: super::View) {
        self.view = view;
        self.overlay = None;
        self.rebuild();
    }

    /// Sorts by the next column to the right or left; beyond the ends is the order of urgency.
    pub(super) fn sort_by_neighbour(&mut self, to_the_right: bool) {
        if self.view == super::View::Waits {
            return self.say("the tree keeps its order: the longest wait first");
        }
        let columns = columns::placed(self.view, self.size.0, self.several());
        let stops: Vec<Option<Column>> =
            std::iter::once(None).chain(columns.iter().map(|placed| Some(placed.column))).collect();
        let here = stops.iter().position(|stop| *stop == self.list().sort).unwrap_or(0);
        let next = if to_the_right { here + 1 } else { here + stops.len() - 1 } % stops.len();
        self.sort_by(stops[next]);
    }

    /// Sorts by this column.
    pub(super) fn sort_by(&mut self, column: Option<Column>) {
        let list = self.list_mut();
        list.sort = column;
        list.reversed = false;
        self.rebuild();
    }
}
