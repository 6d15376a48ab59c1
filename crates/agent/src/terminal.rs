//! The terminal of this process, as a client that shows somebody else's on it.
//!
//! Owns: raw mode, in which what is typed goes on byte by byte, and that it ends with the client,
//! however that ends; and the size. What goes in and out is not its business.

use crate::launch::spawn::terminal::Size;
use crate::sys;
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

/// The size of the terminal that this process has as its input or output.
pub fn size() -> Option<Size> {
    let (input, output) = (io::stdin(), io::stdout());
    let asked = sys::window_size(input.as_fd()).or_else(|| sys::window_size(output.as_fd()));
    asked.map(|(rows, columns)| Size { rows, columns })
}

/// Raw mode of standard input, until it is dropped.
#[derive(Debug)]
pub struct Raw {
    before: Termios,
    raw: Termios,
}

impl Raw {
    /// Takes the terminal into raw mode; `None` where standard input is none.
    pub fn enter() -> Option<Self> {
        let input = io::stdin();
        if !input.is_terminal() {
            return None;
        }
        let before = tcgetattr(&input).ok()?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        let mode = Self { before, raw };
        mode.again();
        Some(mode)
    }

    /// Into raw mode once more.
    pub fn again(&self) {
        // A terminal that is gone needs no mode.
        let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, &self.raw);
    }

    /// As it was before, for now.
    pub fn leave(&self) {
        let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, &self.before);
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.leave();
    }
}
