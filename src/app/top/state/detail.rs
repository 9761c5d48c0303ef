//! Everything about one row, as titled sections: the same words as the runbook's where there is a finding.

use super::rows::{Item, Row};
use super::tree::Node;
use super::{Overlay, State, documents, leases};
use crate::analysis::report::Severity;
use crate::model::Time;
use crate::render::runbook_facts::Section;

/// What there is to read about a row. Texts are raw: whoever draws them makes them safe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doc {
    /// The target's place.
    pub target: usize,
    /// The finding's severity; silenced ones have none.
    pub severity: Option<Severity>,
    /// What it is: a rule's name, `lock`, ...
    pub title: String,
    /// Target and database.
    pub place: String,
    /// The keys, one per line.
    pub head: Vec<String>,
    /// The sections.
    pub sections: Vec<Section>,
    /// The statement that a person may run.
    pub sql: Option<String>,
}

/// A row that is looked at closely.
#[derive(Debug, Clone)]
pub struct Detail {
    /// The row.
    pub row: u64,
    /// What there is to read.
    pub doc: Doc,
    /// The first line on the screen.
    pub scroll: usize,
    /// The row has gone: the time of the poll that missed it.
    pub gone: Option<Time>,
}

impl State {
    /// Opens the selected row.
    pub(super) fn open_detail(&mut self) {
        let Some((row, doc)) = self.selected().copied().and_then(|row| Some((row, self.doc(&row)?))) else {
            self.say("nothing is selected");
            return;
        };
        // Whoever looks at a row wants to come back to it.
        self.list_mut().selected = Some(row.id);
        self.overlay = Some(Overlay::Detail(Box::new(Detail { row: row.id, doc, scroll: 0, gone: None })));
    }

    /// Opens the row before or after.
    pub(super) fn detail_of_neighbour(&mut self, by: isize) {
        let before = self.list().position;
        self.step(by);
        let gone = matches!(&self.overlay, Some(Overlay::Detail(detail)) if detail.gone.is_some());
        if self.list().position != before || gone {
            self.open_detail();
        }
    }

    /// The open detail with what the last poll says of its row.
    pub(super) fn renew_detail(&mut self) {
        let Some(Overlay::Detail(detail)) = &self.overlay else { return };
        let row = self.rows.iter().find(|row| row.id == detail.row).copied();
        let doc = row.and_then(|row| self.doc(&row));
        let now = self.report(detail.doc.target).and_then(|report| report.sampled_at);
        let Some(Overlay::Detail(detail)) = &mut self.overlay else { return };
        match doc {
            Some(doc) => {
                detail.doc = doc;
                detail.gone = None;
            }
            None => detail.gone = detail.gone.or(now),
        }
    }

    /// What there is to read about the selected row.
    pub(super) fn doc_of_selected(&self) -> Option<Doc> {
        self.doc(self.selected()?)
    }

    fn doc(&self, row: &Row) -> Option<Doc> {
        let target = self.targets.get(row.target)?;
        if let Item::Event(_) = row.item {
            return self.event(row).map(|entry| documents::event(&target.name, entry));
        }
        if let Item::Key(place) = row.item {
            return self.key_rows.get(place).map(|key| documents::key(target, key));
        }
        let report = target.report()?;
        let doc = match row.item {
            Item::Finding(place) => documents::finding(report, report.findings.get(place)?),
            Item::Lock(place) => documents::lock(report, report.locks.get(place)?),
            Item::Lease(..) => {
                let (table, lease) = self.lease(row)?;
                leases::document(report, table, lease)
            }
            Item::Pool(place) => documents::pool(report, report.pools.get(place)?),
            Item::Branch(place) => match self.branches.get(place)?.node {
                Node::Object(wait) => documents::object(report, report.waits.get(wait)?),
                Node::Waiter(wait) => documents::wait(report, report.waits.get(wait)?),
                Node::Root(pid, lock) => match lock.and_then(|lock| report.locks.get(lock)) {
                    Some(lock) => documents::lock(report, lock),
                    None => documents::root(report, pid),
                },
            },
            Item::Key(_) | Item::Event(_) => return None,
        };
        Some(Doc { target: row.target, ..doc })
    }

    /// Scrolls what lies over the list. How far it goes is known when it is drawn.
    pub(super) fn scroll_overlay(&mut self, by: isize) {
        let most = self.overlay_lines().saturating_sub(self.areas().overlay_rows());
        let moved = |scroll: usize| scroll.min(most).saturating_add_signed(by).min(most);
        match &mut self.overlay {
            Some(Overlay::Help { scroll }) => *scroll = moved(*scroll),
            Some(Overlay::Detail(detail)) => detail.scroll = moved(detail.scroll),
            Some(Overlay::Picker { position }) => {
                *position = position.saturating_add_signed(by).min(self.targets.len());
            }
            Some(Overlay::Plain(_)) | None => {}
        }
    }

    /// How many lines the overlay has at this width.
    fn overlay_lines(&self) -> usize {
        match &self.overlay {
            Some(Overlay::Help { .. }) => crate::app::top::pages::help(self.size.0).len(),
            Some(Overlay::Detail(detail)) => crate::app::top::pages::detail(detail, self.size.0).len(),
            _ => 0,
        }
    }
}
