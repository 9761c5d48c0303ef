//! A page in pieces: so it is made, kept and sent.
//!
//! The allocator gives back what is free at the end of its heap, unless larger pieces than it knew were freed before:
//! then it keeps as much, for each of its heaps. A page of 200 targets has megabytes; its pieces are small.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// No piece that is written bit by bit is longer.
const LONGEST: usize = 64 * 1024;

/// The body of an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces(VecDeque<Bytes>);

impl Pieces {
    /// A page that is there as a whole.
    pub fn of(whole: impl Into<Bytes>) -> Self {
        let mut pieces = Self::default();
        pieces.push(whole);
        pieces
    }

    /// With this at its end.
    pub fn push(&mut self, piece: impl Into<Bytes>) {
        let piece = piece.into();
        if !piece.is_empty() {
            self.0.push_back(piece);
        }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}

/// Writes a page.
#[derive(Debug, Default)]
pub(super) struct Writer {
    done: Pieces,
    piece: String,
}

impl Writer {
    /// What was written.
    pub fn into_pieces(mut self) -> Pieces {
        self.done.push(self.piece);
        self.done
    }
}

impl fmt::Write for Writer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.piece.len() + text.len() > LONGEST {
            self.done.push(std::mem::take(&mut self.piece));
        }
        if self.piece.capacity() == 0 {
            self.piece.reserve(LONGEST.max(text.len()));
        }
        self.piece.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    fn lengths(pieces: &Pieces) -> Vec<usize> {
        pieces.0.iter().map(Bytes::len).collect()
    }

    #[test]
    fn a_page_is_whole_whatever_its_pieces() {
        let mut writer = Writer::default();
        let mut whole = String::new();
        for number in 0..40_000 {
            write!(writer, "line {number}\n{}", "é".repeat(number % 3)).unwrap();
            write!(whole, "line {number}\n{}", "é".repeat(number % 3)).unwrap();
        }
        let long = "x".repeat(LONGEST + 1);
        writer.write_str(&long).unwrap();
        writer.write_str("end").unwrap();
        let pieces = writer.into_pieces();
        assert!(lengths(&pieces).len() > 5, "{:?}", lengths(&pieces));
        assert_eq!(lengths(&pieces).iter().filter(|length| **length > LONGEST).count(), 1, "what came whole");
        assert_eq!(pieces.size_hint().exact(), Some((whole.len() + long.len() + 3) as u64));
        assert_eq!(pieces.0.iter().flatten().copied().collect::<Vec<u8>>(), (whole + &long + "end").into_bytes());
    }

    #[test]
    fn nothing_is_no_piece() {
        let mut none = Writer::default().into_pieces();
        none.push("");
        assert!(none.is_end_stream() && none.size_hint().exact() == Some(0));
        none.push("a");
        assert_eq!((none.is_end_stream(), lengths(&none)), (false, vec![1]));
    }
}
