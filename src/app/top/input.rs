//! From what a terminal reports to an event. It knows crossterm's words and none of the screen's.

use crossterm::event::{Event as Reported, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::event::{Event, Key, Mouse};

/// The event, if it is one that the screen knows.
pub fn event(reported: Reported) -> Option<Event> {
    match reported {
        // Some terminals report releases too.
        Reported::Key(key) if key.is_release() => None,
        Reported::Key(key) => self::key(key).map(Event::Key),
        Reported::Mouse(mouse) => self::mouse(mouse).map(Event::Mouse),
        Reported::Paste(text) => Some(Event::Paste(text)),
        Reported::Resize(columns, rows) => Some(Event::Resize(columns, rows)),
        Reported::FocusGained | Reported::FocusLost => None,
    }
}

fn key(event: KeyEvent) -> Option<Key> {
    if event.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SUPER | KeyModifiers::META) {
        return None;
    }
    let control = event.modifiers.contains(KeyModifiers::CONTROL);
    Some(match event.code {
        KeyCode::Char(c) if control => Key::Ctrl(c.to_ascii_lowercase()),
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Tab if event.modifiers.contains(KeyModifiers::SHIFT) => Key::BackTab,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::F(1) => Key::Char('?'),
        _ => return None,
    })
}

fn mouse(event: MouseEvent) -> Option<Mouse> {
    match event.kind {
        MouseEventKind::Down(MouseButton::Left) => Some(Mouse::Click { column: event.column, row: event.row }),
        MouseEventKind::ScrollUp => Some(Mouse::WheelUp),
        MouseEventKind::ScrollDown => Some(Mouse::WheelDown),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart() {
        let press = |code, modifiers| event(Reported::Key(KeyEvent::new(code, modifiers)));
        let is = |found: Option<Event>, wanted: Key| matches!(found, Some(Event::Key(key)) if key == wanted);
        assert!(is(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Key::Ctrl('c')));
        assert!(is(press(KeyCode::Char('G'), KeyModifiers::SHIFT), Key::Char('G')));
        assert!(is(press(KeyCode::Tab, KeyModifiers::SHIFT), Key::BackTab));
        assert!(press(KeyCode::Char('q'), KeyModifiers::ALT).is_none());
        assert!(press(KeyCode::Insert, KeyModifiers::NONE).is_none());
    }
}
