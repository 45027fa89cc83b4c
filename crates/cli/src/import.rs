//! `doorbell import`: files of measurements from the output of other programs.

use crate::args::{AboutArgs, ImportCommand, ImportCsvArgs, ImportPerftestArgs};
use crate::exit::{self, Exit};
use doorbell_series::import::{self, About, CsvColumn, CsvLayout, Imported, MachineFacts, NamedText};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

pub(crate) fn run(command: ImportCommand) -> Result<(), Exit> {
    match command {
        ImportCommand::Perftest(args) => perftest(&args),
        ImportCommand::Csv(args) => csv(&args),
    }
}

fn perftest(args: &ImportPerftestArgs) -> Result<(), Exit> {
    let logs: Vec<TextFile> = args.logs.iter().map(|path| TextFile::read(path)).collect::<Result<_, _>>()?;
    let texts: Vec<NamedText<'_>> = logs.iter().map(TextFile::named).collect();
    let imported = import::perftest(&texts, &about(&args.about)?).map_err(Exit::bad_input)?;
    tell(&imported, args.about.output.as_ref())
}

fn csv(args: &ImportCsvArgs) -> Result<(), Exit> {
    let file = TextFile::read(&args.file)?;
    let columns = args.column.iter().map(|text| column(text)).collect::<Result<_, _>>()?;
    let workload =
        CsvLayout::workload(&args.workload).map_err(|why| Exit::bad_input(format!("--workload: {why}")))?;
    let ascii = u8::try_from(args.separator).ok().filter(u8::is_ascii);
    let separator = ascii.ok_or_else(|| {
        Exit::bad_input(format!("--separator is {:?}, but must be a character of ASCII", args.separator))
    })?;
    let layout = CsvLayout { columns, workload, unit: args.unit.clone().into(), separator };
    let imported = import::csv(file.named(), &layout, &about(&args.about)?).map_err(Exit::bad_input)?;
    tell(&imported, args.about.output.as_ref())
}

/// Reads `TITLE=KEY`. A title may contain `=`, a key may not.
fn column(text: &str) -> Result<CsvColumn, Exit> {
    let parts = text.rsplit_once('=').filter(|(title, key)| !title.is_empty() && !key.is_empty());
    let Some((title, key)) = parts else {
        return Err(Exit::bad_input(format!(
            "--column is `{text}`, but must be a title, =, and a key, such as bytes=size"
        )));
    };
    let is_key = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_key {
        let message = format!("--column {text}: the key {key} may have letters, digits and _ alone");
        return Err(Exit::bad_input(message));
    }
    Ok(CsvColumn { title: title.to_owned(), key: key.to_owned() })
}

/// The facts from options and from the output of tools.
fn about(args: &AboutArgs) -> Result<About, Exit> {
    let pcie = args.pcie.as_ref().map(|text| {
        import::pcie_slot(text)
            .ok_or_else(|| Exit::bad_input(format!("--pcie is `{text}`, but must be a slot such as gen4x16")))
    });
    let facts = MachineFacts {
        nic: args.nic.clone(),
        cpu: args.cpu.clone(),
        pcie: pcie.transpose()?,
        link_gbps: args.link,
        topology: args.topology.clone(),
        hops: args.hops,
        switched: args.switched.then_some(true),
        loopback: args.loopback.then_some(true),
        socket: args.socket.clone().map(Into::into),
        source: args.source.clone(),
        ..MachineFacts::default()
    };
    let mut about = About::of(facts);
    about.host = args.host.clone();
    about.role = args.role.clone().into();
    (about.device, about.slot) = (args.device.clone(), args.slot.clone());
    if let Some(path) = &args.devinfo {
        about.add_devinfo(TextFile::read(path)?.named()).map_err(Exit::bad_input)?;
    }
    if let Some(path) = &args.lspci {
        about.add_lspci(TextFile::read(path)?.named()).map_err(Exit::bad_input)?;
    }
    if let Some(path) = &args.lscpu {
        about.add_lscpu(TextFile::read(path)?.named()).map_err(Exit::bad_input)?;
    }
    Ok(about)
}

/// A file as text. Bytes that are not UTF-8 are replaced: only words in names can have them.
struct TextFile {
    name: String,
    text: String,
}

impl TextFile {
    fn read(path: &Path) -> Result<TextFile, Exit> {
        let name = path.display().to_string();
        match std::fs::read(path) {
            Ok(bytes) => Ok(TextFile { name, text: String::from_utf8_lossy(&bytes).into_owned() }),
            Err(error) => Err(Exit::bad_input(format!("cannot read {name}: {error}"))),
        }
    }

    fn named(&self) -> NamedText<'_> {
        NamedText { name: &self.name, text: &self.text }
    }
}

/// Prints or writes the measurements, and prints on standard error what was left out.
fn tell(imported: &Imported, output: Option<&PathBuf>) -> Result<(), Exit> {
    for note in &imported.notes {
        exit::say_message(&note.to_string());
    }
    let text = imported.file.to_toml();
    let Some(path) = output else { return exit::print(&text) };
    let written = File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Exit::bad_input(format!("cannot write {}: {error}", path.display())))?;
    let count = imported.file.series.len();
    exit::say_message(&format!("{}: {count} series", path.display()));
    Ok(())
}
