//! Ctrl-C, TERM and HUP become one token that a blocking wait can see.
//!
//! It knows signals and threads. It must not know what is shut down, nor print anything: a handler thread only sends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Set once a signal asked us to end.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    asked: Arc<AtomicBool>,
}

impl Shutdown {
    /// Catches Ctrl-C, TERM and HUP from now on. Each time `wake` is called too: it should send something to the
    /// channel that the caller blocks on.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn catch(wake: impl Fn() + Send + Clone + 'static) -> Result<Self> {
        let shutdown = Self::default();
        let asked = shutdown.clone();
        let wake_on_interrupt = wake.clone();
        ctrlc::set_handler(move || {
            asked.ask();
            wake_on_interrupt();
        })
        .map_err(|error| Error::failure("cannot catch Ctrl-C").caused_by(error))?;
        catch_others(shutdown.clone(), wake)?;
        Ok(shutdown)
    }

    /// Whether we were asked to end.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
    }
}

#[cfg(unix)]
fn catch_others(shutdown: Shutdown, wake: impl Fn() + Send + 'static) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGTERM};
    let cannot = |error| Error::failure("cannot catch signals").caused_by(error);
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGHUP]).map_err(cannot)?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for _ in signals.forever() {
                shutdown.ask();
                wake();
            }
        })
        .map_err(cannot)?;
    Ok(())
}

#[cfg(not(unix))]
fn catch_others(_shutdown: Shutdown, _wake: impl Fn() + Send + 'static) -> Result<()> {
    Ok(())
}
