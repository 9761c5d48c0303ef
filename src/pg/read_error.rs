//! How reading over a connection fails: with an error of the client or the server, or with rows that are not what was
//! asked for. What that means is said by whoever asked.

use super::rows::RowError;

/// See the module.
pub(super) enum ReadError {
    Client(tokio_postgres::Error),
    Rows(RowError),
}

impl From<tokio_postgres::Error> for ReadError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Client(error)
    }
}

impl From<RowError> for ReadError {
    fn from(error: RowError) -> Self {
        Self::Rows(error)
    }
}
