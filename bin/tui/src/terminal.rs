//! The terminal: taken at the start, given back at the end, whatever the end is.

use std::io::{Stdout, stdout};
use std::panic;
use std::thread::ThreadId;

use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, KeyboardEnhancementFlags, PopKeyboardEnhancementFlags,
    PushKeyboardEnhancementFlags,
};
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, SetTitle, disable_raw_mode, enable_raw_mode, size,
};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};

/// The size where the terminal tells none.
const USUAL: (u16, u16) = (80, 24);

/// A terminal that is given back when this is dropped.
pub struct Screen {
    /// What is drawn on.
    pub terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal. A panic of this thread gives it back before it is told; one of another thread is caught
    /// there, and goes to the log instead of over the screen.
    pub fn take() -> std::io::Result<Self> {
        keep_panics_off(std::thread::current().id());
        enable_raw_mode()?;
        // Terminals that don't know a sequence leave it out.
        let keys = KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES;
        let begun = execute!(
            stdout(),
            EnterAlternateScreen,
            EnableBracketedPaste,
            PushKeyboardEnhancementFlags(keys),
            SetTitle("troupe")
        );
        let made = begun.and_then(|()| {
            let backend = CrosstermBackend::new(stdout());
            match size() {
                Ok((width, height)) if width > 0 && height > 0 => Terminal::new(backend),
                _ => Terminal::with_options(backend, TerminalOptions { viewport: Viewport::Fixed(usual()) }),
            }
        });
        match made {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// What the environment says of the size, where the terminal says nothing.
fn usual() -> Rect {
    let variable = |name: &str| std::env::var(name).ok()?.parse::<u16>().ok().filter(|size| *size > 0);
    Rect::new(0, 0, variable("COLUMNS").unwrap_or(USUAL.0), variable("LINES").unwrap_or(USUAL.1))
}

/// Gives the terminal back. It may be gone, so nothing here may fail.
fn give_back() {
    let _ = execute!(stdout(), PopKeyboardEnhancementFlags, DisableBracketedPaste, LeaveAlternateScreen);
    let _ = execute!(stdout(), crossterm::cursor::Show);
    let _ = disable_raw_mode();
}

fn keep_panics_off(owner: ThreadId) {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == owner {
            give_back();
            usual(info);
        } else {
            let place = info.location().map(|location| format!("{}:{}", location.file(), location.line()));
            tracing::error!(place = place.unwrap_or_default(), "a thread panicked");
        }
    }));
}
