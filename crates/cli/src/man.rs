//! `doorbell man`: manual pages, generated from the options.

use crate::args::{Args, ManArgs};
use crate::exit::{self, Exit};
use crate::mistake;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::path::Path;

pub(crate) fn run(args: &ManArgs) -> Result<(), Exit> {
    let mut command = Args::command();
    command.build();
    if let Some(dir) = &args.dir {
        let cannot_write = |error| format!("cannot write pages to {}: {error}", dir.display());
        return write_all(&command, dir).map_err(|error| Exit::bad_input(cannot_write(error)));
    }
    for word in &args.command {
        let below = command.find_subcommand(word).cloned();
        command = below.ok_or_else(|| Exit::bad_input(mistake::no_command(word, &command)))?;
    }
    exit::print(&page(&command).map_err(Exit::failed)?)
}

fn page(command: &Command) -> std::io::Result<String> {
    let mut page = Vec::new();
    let source = concat!("doorbell ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).manual("Doorbell").source(source).render(&mut page)?;
    // The text after the help of `doorbell` lists the exit codes. After a command, it lists forms of values.
    let title = if command.get_after_long_help().is_some() { "VALUES" } else { "EXIT STATUS" };
    Ok(String::from_utf8_lossy(&page).replace(".SH EXTRA\n", &format!(".SH {title}\n")))
}

/// Writes the page of a command and the pages of its subcommands.
fn write_all(command: &Command, dir: &Path) -> std::io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join(format!("{name}.1")), page(command)?)?;
    command.get_subcommands().try_for_each(|below| write_all(below, dir))
}
