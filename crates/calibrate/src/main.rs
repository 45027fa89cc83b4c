//! Sets all calibrated parameters of a profile at once, from the data that it declares. `cargo xtask
//! calibrate` runs it.
#![forbid(unsafe_code)]

mod draws;
mod fit;
mod space;
mod sure;
mod text;
mod written;

use clap::Parser;
use doorbell_lab::{Control, Watch};
use doorbell_nic::Profile;
use doorbell_reproduce::Ctx;
use doorbell_reproduce::calibration;
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::SIGINT;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set all calibrated parameters of a profile at once, from the data that it declares, and print their
/// uncertainty
#[derive(Parser)]
#[command(name = "cargo xtask calibrate")]
struct Args {
    /// Name of the profile: NAME in profiles/NAME.toml
    name: String,
    /// Do not write the file
    #[arg(long)]
    dry: bool,
}

/// Progress bar that counts runs.
struct Bar(ProgressBar);

impl Watch for Bar {
    fn planned(&self, costs: &[f64]) {
        self.0.inc_length(costs.len() as u64);
    }

    fn done(&self, _: &str) {
        self.0.inc(1);
    }
}

fn main() -> ExitCode {
    let Args { name, dry } = Args::parse();
    let interrupt = Arc::new(AtomicBool::new(false));
    match calibrate(&name, dry, &interrupt) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if interrupt.load(Ordering::Relaxed) => {
            eprintln!("interrupted: the profile is unchanged");
            ExitCode::from(130)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// The file of a profile of this repository.
fn file(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles")).join(format!("{name}.toml"))
}

fn calibrate(name: &str, dry: bool, interrupt: &Arc<AtomicBool>) -> Result<(), String> {
    let path = file(name);
    let text =
        std::fs::read_to_string(&path).map_err(|e| format!("there is no profile {name} to set: {e}"))?;
    let profile = Profile::parse(&format!("{name}.toml"), &text).map_err(|e| e.to_string())?;
    let space = space::Space::of(&profile, &text)?;
    let data = calibration::data(&profile)?;
    if data.is_empty() {
        return Err(format!(
            "{name} names no calibration data: section `[measured]` of a profile lists them"
        ));
    }
    if !dry {
        // If the file is not writable, fail now instead of after a quarter of an hour.
        replace(&path, &text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    signal_hook::flag::register(SIGINT, interrupt.clone()).map_err(|e| e.to_string())?;
    let style = "{elapsed_precise} {bar:40} {pos} of {len} runs so far";
    let style = ProgressStyle::with_template(style).map_err(|e| e.to_string())?;
    let bar = Bar(ProgressBar::new(0).with_style(style));
    let control = Control { interrupt: interrupt.clone(), watch: &bar, ..Control::quiet() };
    let ctx = Ctx::new(false, control).map_err(|e| e.to_string())?;
    let look = |places: &[Vec<f64>]| {
        let profiles = places.iter().map(|z| space.profile(z)).collect::<Result<Vec<_>, _>>()?;
        calibration::observe(&ctx, &profiles, &data).map_err(|error| error.to_string())
    };
    let fit = fit::fit(&space, &data, &look)?;
    let sure = sure::Sure::of(&profile, &fit, &data)?;
    let draws = draws::draw(&space, &data, &fit, &|z| space.profile(z).is_ok(), &look)?;
    bar.0.finish_and_clear();
    print!("{}", text::report(&profile, &space, &data, &fit, &sure, &draws));
    if dry {
        return Ok(());
    }
    let written = written::with(&format!("{name}.toml"), &text, &space, &data, &fit, &sure, &draws)?;
    // The written text must parse as a profile.
    Profile::parse(&format!("{name}.toml"), &written).map_err(|e| e.to_string())?;
    replace(&path, &written).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

/// Replaces a file atomically. The old file stays if the new one cannot be written.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let beside = path.with_extension("toml.new");
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    // A partially written file is of no use.
    written.inspect_err(|_| _ = std::fs::remove_file(&beside))
}
