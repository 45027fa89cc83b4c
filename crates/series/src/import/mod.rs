//! Import of measurements from the output of other programs: perftest, and files of comma-separated values.
//! `docs/import.md` describes the mapping.

mod about;
mod columns;
mod devinfo;
mod facts;
mod lscpu;
mod lspci;
mod nic_names;
mod perftest;

pub use about::About;
pub use columns::{CsvColumn, CsvLayout, csv};
pub use facts::{MachineFacts, pcie_slot};

use crate::format::SeriesFile;
use doorbell_schema::SchemaError;
use std::fmt;

/// The text of a file, and the name of the file for messages.
#[derive(Clone, Copy, Debug)]
pub struct NamedText<'t> {
    /// The name.
    pub name: &'t str,
    /// The text.
    pub text: &'t str,
}

impl NamedText<'_> {
    /// An error in a line of the file, from 1.
    fn error(&self, line: usize, message: impl Into<String>) -> SchemaError {
        SchemaError { file: self.name.to_owned(), line, message: message.into() }
    }

    /// A note about a line of the file, from 1.
    fn note(&self, line: usize, message: impl Into<String>) -> ImportNote {
        ImportNote { file: self.name.to_owned(), line, message: message.into() }
    }
}

/// A part of a file that the import left out, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportNote {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The part that was left out, and the reason.
    pub message: String,
}

impl fmt::Display for ImportNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// The result of an import.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// The series.
    pub file: SeriesFile,
    /// The parts that were left out.
    pub notes: Vec<ImportNote>,
}

/// Reads the output of perftest's programs. A log may hold several runs, and other text, which is noted.
///
/// # Errors
/// If a run failed or has no results, if no log has a run, or if the NIC is not known: one sentence with the
/// line.
pub fn perftest(logs: &[NamedText<'_>], about: &About) -> Result<Imported, SchemaError> {
    let mut imported = Imported::default();
    for log in logs {
        let (runs, notes) = perftest::runs(*log)?;
        imported.notes.extend(notes);
        for run in runs {
            let (measurement, notes) = perftest::measurement(&run, about)?;
            imported.notes.extend(notes);
            imported.file.series.push(measurement);
        }
    }
    number_ids(&mut imported.file);
    Ok(imported)
}

/// Adds numbers to ids that occur more than once.
fn number_ids(file: &mut SeriesFile) {
    let mut taken = std::collections::BTreeSet::new();
    for series in &mut file.series {
        let id = &mut series.setup.id;
        let mut unique = id.clone();
        let mut number = 1;
        while !taken.insert(unique.clone()) {
            number += 1;
            unique = format!("{id}-{number}");
        }
        *id = unique;
    }
}
