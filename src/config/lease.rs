//! `[[target.lease]]`: a lease table and its columns.

use std::time::Duration;

use toml::Spanned;

use super::place::Source;
use super::raw;
use crate::error::Result;
use crate::model::LeaseTable;
use crate::quote::table_name;

/// Reads a target's lease tables. When a lease is overdue is for whoever knows the thresholds to say.
///
/// # Errors
/// A name is missing or is there twice, or a table's name is none.
pub(super) fn read(source: Source<'_>, raw: Vec<raw::Lease>) -> Result<Vec<LeaseTable>> {
    let mut leases: Vec<LeaseTable> = Vec::with_capacity(raw.len());
    for lease in raw {
        let wrong = |text: &Spanned<String>, sentence: &str| Err(source.error(Some(text.span()), sentence));
        if lease.name.get_ref().trim().is_empty() {
            return wrong(&lease.name, "a lease's name must not be empty");
        }
        if leases.iter().any(|known| known.lease == *lease.name.get_ref()) {
            return wrong(&lease.name, "two leases of this target have this name: names must be unique");
        }
        let Some((Some(schema), table)) = table_name(lease.table.get_ref()) else {
            return wrong(
                &lease.table,
                "write the table with its schema, as \"public.leases\"; a name with a dot or a quote in it stands in \
                 double quotes",
            );
        };
        let columns = [Some(&lease.columns.name), Some(&lease.columns.holder), Some(&lease.columns.expires)];
        for column in columns.into_iter().chain([lease.columns.taken.as_ref()]).flatten() {
            if column.get_ref().is_empty() {
                return wrong(column, "a column's name must not be empty");
            }
        }
        leases.push(LeaseTable {
            lease: lease.name.into_inner(),
            schema,
            table,
            name: lease.columns.name.into_inner(),
            holder: lease.columns.holder.into_inner(),
            expires: lease.columns.expires.into_inner(),
            taken: lease.columns.taken.map(Spanned::into_inner),
            overdue_after: Duration::ZERO,
        });
    }
    Ok(leases)
}
