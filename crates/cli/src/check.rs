//! `doorbell check`.

mod plots;
mod text;

use crate::args::CheckArgs;
use crate::cache;
use crate::exit::{self, Exit};
use crate::output;
use crate::progress::{self, Bar};
use doorbell_lab::{Control, Known};
use doorbell_nic::{Profile, counted};
use doorbell_series::{CheckOptions, Checked, SeriesFile, check};
use std::path::Path;
use std::sync::Arc;

pub(crate) fn run(args: &CheckArgs) -> Result<(), Exit> {
    let file = read(&args.file)?;
    let profile = Profile::named_or_file(&args.profile).map_err(Exit::bad_input)?;
    if let Some(folder) = &args.plots {
        output::make_writable(folder)?;
    }
    let stored = cache::stored().map(|stored| Arc::new(stored.fresh(args.fresh)));
    let known = stored.clone().map_or_else(Known::default, Known::stored_in);
    let interrupt = progress::interrupt()?;
    let (jobs, deadline) =
        (args.jobs.map_or_else(doorbell_lab::cores, usize::from), progress::deadline(args.max_wall));
    let bar = match args.plots {
        None => Bar::new(jobs, deadline).for_reader(&interrupt),
        Some(_) => Bar::new(jobs, deadline),
    };
    let flag = interrupt.flag.clone();
    let control = Control { interrupt: flag, jobs, deadline, watch: &bar, ..Control::quiet() };
    let options = CheckOptions { precision: args.precision };
    let checked = || check(&file, &profile, options, &known, &control).map_err(Exit::bad_input);
    let tell = |checked: &Checked| {
        let plots = args.plots.as_ref().map_or(Ok(Vec::new()), |folder| plots::write(folder, checked));
        match args.json {
            true => bar.print(&exit::json(checked)?)?,
            false => bar.tell(&text::report(checked, args.points))?,
        }
        let plots: String = plots?.iter().map(|path| format!("Plot: {}\n", path.display())).collect();
        if args.json { Ok(()) } else { bar.tell(&plots) }
    };
    let checked = progress::until(&interrupt, checked, || tell(&checked()?))?;
    bar.hide();
    stored.iter().for_each(|stored| cache::say_failures(stored));
    let told = tell(&checked);
    if bar.is_unread() {
        return told;
    }
    exit::both(exit::stopped(&interrupt.flag).and_then(|()| late(&checked, args)), told)
}

fn read(path: &Path) -> Result<SeriesFile, Exit> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Exit::bad_input(format!("cannot read {shown}: {error}")))?;
    SeriesFile::parse(&shown, &text).map_err(Exit::bad_input)
}

/// Returns an error if the wall-clock time was over before all points had a result.
fn late(checked: &Checked, args: &CheckArgs) -> Result<(), Exit> {
    match (checked.missing, args.max_wall) {
        (missing @ 1.., Some(time)) => {
            Err(Exit::out_of_time(time, &format!("{} without a result", counted(missing, "point"))))
        }
        _ => Ok(()),
    }
}
