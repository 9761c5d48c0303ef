//! `completions` and `man`: both are made from the command line's own description.

use crate::app::output;
use crate::cli::{self, CompletionsArgs, ManArgs};
use crate::error::{Error, Result};
use crate::exit::Exit;

/// Prints a shell's completions.
pub(super) fn completions(args: &CompletionsArgs) -> Result<Exit> {
    // Into memory first: clap_complete panics where it cannot write.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "pglockwatch", &mut text);
    output::print(text)?;
    Ok(Exit::SUCCESS)
}

/// Prints a man page in roff.
pub(super) fn man(args: &ManArgs) -> Result<Exit> {
    let mut command = cli::command();
    command.build();
    let page = match &args.command {
        None => command,
        Some(name) => {
            let names: Vec<_> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
            command.find_subcommand(name).cloned().ok_or_else(|| {
                Error::usage(format!("there is no command {name}")).hint(format!("Commands: {}.", names.join(", ")))
            })?
        }
    };
    let mut text = Vec::new();
    let source = concat!("pglockwatch ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(page).source(source).render(&mut text).map_err(Error::output)?;
    output::print(text)?;
    Ok(Exit::SUCCESS)
}
