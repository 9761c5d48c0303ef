//! Ctrl-C, TERM, HUP and Ctrl-Z become a call that can put something into the channel a command waits on.
//!
//! It knows signals and threads. It must not know what is ended, nor print anything.

use crate::error::{Error, Result};

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wish {
    /// Ctrl-C, TERM, HUP: end in good order.
    End,
    /// Ctrl-Z: give the terminal back, then [`suspend`].
    Suspend,
}

/// Catches Ctrl-C, TERM and HUP from now on, and Ctrl-Z where that is wanted: whoever catches it must [`suspend`]. May
/// be called once in a process.
///
/// # Errors
/// The system refuses a handler.
pub fn catch(with_suspend: bool, tell: impl Fn(Wish) + Send + Clone + 'static) -> Result<()> {
    let on_interrupt = tell.clone();
    ctrlc::set_handler(move || on_interrupt(Wish::End))
        .map_err(|error| Error::failure("cannot catch Ctrl-C").caused_by(error))?;
    catch_others(with_suspend, tell)
}

#[cfg(unix)]
fn catch_others(with_suspend: bool, tell: impl Fn(Wish) + Send + 'static) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGTERM, SIGTSTP};
    let cannot = |error| Error::failure("cannot catch signals").caused_by(error);
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGHUP]).map_err(cannot)?;
    if with_suspend {
        signals.add_signal(SIGTSTP).map_err(cannot)?;
    }
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                tell(if signal == SIGTSTP { Wish::Suspend } else { Wish::End });
            }
        })
        .map_err(cannot)?;
    Ok(())
}

/// A signal that whoever runs a command must hand on to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sent {
    /// Its number.
    pub number: i32,
    /// The process that sent it; nothing for a terminal's Ctrl-C, which reaches every process of the foreground.
    pub sender: Option<i32>,
}

/// Catches, from now on, the signals that end a process or that users send to it. We live on: another process decides
/// what they mean.
///
/// # Errors
/// The system refuses a handler.
#[cfg(unix)]
pub fn catch_for_another(tell: impl Fn(Sent) + Send + 'static) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    use signal_hook::iterator::SignalsInfo;
    use signal_hook::iterator::exfiltrator::WithOrigin;
    let cannot = |error| Error::failure("cannot catch signals").caused_by(error);
    let mut signals =
        SignalsInfo::<WithOrigin>::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2]).map_err(cannot)?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for origin in signals.forever() {
                tell(Sent { number: origin.signal, sender: origin.process.map(|process| process.pid) });
            }
        })
        .map_err(cannot)?;
    Ok(())
}

/// Stops the process as Ctrl-Z does. Returns when it goes on.
#[cfg(unix)]
pub fn suspend() {
    // Stopping cannot fail in a way that anybody could mend: the command goes on instead.
    let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP);
}

#[cfg(not(unix))]
fn catch_others(_with_suspend: bool, _tell: impl Fn(Wish) + Send + 'static) -> Result<()> {
    Ok(())
}

/// There is no such thing here.
#[cfg(not(unix))]
pub fn suspend() {}
