//! `demo`: what opens on the throwaway server.

use std::io;

use crate::app::demo::{self, DemoError, Planted};
use crate::app::{open, top};
use crate::cli::demo::DemoArgs;
use crate::cli::{GlobalArgs, TopArgs};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::settings::Surroundings;

/// Plants, opens `top`, and clears away.
pub(super) fn demo(args: &DemoArgs, global: &GlobalArgs, around: Surroundings<'_>) -> Result<Exit> {
    let once = around.terminal.is_none();
    demo::run(args, once, &mut io::stderr(), |planted| look_at(planted, global, around).map(Exit::code)).map(Exit::from)
}

fn look_at(planted: &Planted, global: &GlobalArgs, around: Surroundings<'_>) -> Result<Exit> {
    let mut dictionaries = global.dictionaries.clone();
    dictionaries.push(planted.dictionary.clone());
    // Whatever servers the command line and the config name: the demo never touches another than its own.
    let global = GlobalArgs {
        dsn: vec![planted.dsn.clone()],
        dsn_file: None,
        pgbouncer: Vec::new(),
        config: None,
        dictionaries,
        idle_threshold: global.idle_threshold.or(Some(planted.idle_threshold)),
        wait_threshold: global.wait_threshold.or(Some(planted.wait_threshold)),
        ..global.clone()
    };
    let args = TopArgs { once: planted.once };
    let (settings, targets) = open(global, around, top::habits(&args))?;
    if planted.once {
        top::once(settings.screen, targets, planted.observe)
    } else {
        top::run(&args, &settings, targets)
    }
}

impl From<DemoError> for Error {
    fn from(error: DemoError) -> Self {
        error.hints.into_iter().fold(Self::failure(error.message), Self::hint)
    }
}
