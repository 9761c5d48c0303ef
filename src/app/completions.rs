//! `completions` and `man`: both are made from the command line's own description.

use clap::Command;
use clap_complete::Shell;

use crate::app::output;
use crate::cli::{self, CompletionsArgs, ManArgs};
use crate::error::{Error, Result};
use crate::exit::Exit;

/// Prints a shell's completions.
pub(super) fn completions(args: &CompletionsArgs) -> Result<Exit> {
    // Into memory first: clap_complete panics where it cannot write.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "pglockwatch", &mut text);
    if args.shell == Shell::Fish {
        text = without_dotted_specs(&String::from_utf8_lossy(&text)).into_bytes();
    }
    output::print(text)?;
    Ok(Exit::SUCCESS)
}

/// fish's `argparse` refuses a list of options in which a name has a dot, and then nothing is completed at all (seen
/// with fish 3.6). The options themselves are completed also where the list has them not.
fn without_dotted_specs(script: &str) -> String {
    let mut kept = String::with_capacity(script.len());
    for line in script.lines() {
        let specs = line.trim_start().strip_prefix("string join \\n ");
        match specs {
            Some(specs) => {
                let plain: Vec<&str> = specs.split(' ').filter(|spec| !spec.contains('.')).collect();
                kept.push_str("    string join \\n ");
                kept.push_str(&plain.join(" "));
            }
            None => kept.push_str(line),
        }
        kept.push('\n');
    }
    kept
}

/// Prints a man page in roff, or which there are.
pub(super) fn man(args: &ManArgs) -> Result<Exit> {
    let mut command = cli::command();
    command.build();
    let text = if args.list { pages(&command).join("\n").into_bytes() } else { page(&command, &args.command)? };
    output::print(text)?;
    Ok(Exit::SUCCESS)
}

/// The commands below this one, each with its own below it; the last one is an empty line.
fn pages(command: &Command) -> Vec<String> {
    command.get_subcommands().flat_map(|sub| with_those_below(sub, "")).chain([String::new()]).collect()
}

fn with_those_below(command: &Command, above: &str) -> Vec<String> {
    let name = format!("{above}{}", command.get_name());
    let below = format!("{name} ");
    let subs = command.get_subcommands().flat_map(|sub| with_those_below(sub, &below));
    std::iter::once(name.clone()).chain(subs).collect()
}

fn page(command: &Command, words: &[String]) -> Result<Vec<u8>> {
    let mut command = command.clone();
    for word in words {
        command = command.find_subcommand(word).cloned().ok_or_else(|| unknown(&command, word))?;
    }
    let mut text = Vec::new();
    let source = concat!("pglockwatch ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(command).source(source).render(&mut text).map_err(Error::output)?;
    Ok(text)
}

fn unknown(command: &Command, word: &str) -> Error {
    let names: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
    let error = Error::usage(format!("there is no command {word}"));
    if names.is_empty() { error } else { error.hint(format!("Commands: {}.", names.join(", "))) }
}
