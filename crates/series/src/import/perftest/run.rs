//! Runs in a log.

use super::line::{Line, PerftestCommand, PerftestTest, line};
use super::settings::Setting;
use super::table::Column;
use crate::import::{ImportNote, NamedText};
use doorbell_schema::SchemaError;

/// A run of a program, as its output has it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::import) struct PerftestRun {
    pub(super) file: String,
    /// Line of the title.
    pub(super) line: usize,
    pub(super) test: PerftestTest,
    pub(super) command: PerftestCommand,
    pub(super) settings: RunSettings,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<TableRow>,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TableRow {
    pub(super) line: usize,
    /// As many numbers as the table has columns. The last ones may be missing.
    pub(super) numbers: Vec<f64>,
}

/// The settings of a run. An absent setting was not printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RunSettings {
    pub(super) device: Option<String>,
    pub(super) connection: Option<String>,
    pub(super) link_type: Option<String>,
    pub(super) qps: Option<u32>,
    pub(super) tx_depth: Option<u32>,
    pub(super) post_list: Option<u32>,
    pub(super) cq_moderation: Option<u32>,
    pub(super) mtu: Option<u32>,
    pub(super) inline: Option<u32>,
    pub(super) reads: Option<u32>,
    pub(super) relaxed_ordering: Option<String>,
    pub(super) lock_free: Option<String>,
    pub(super) wr_api: Option<String>,
    pub(super) shared_receive: bool,
    pub(super) dual_port: bool,
    pub(super) events: bool,
    pub(super) gpu: bool,
}

impl RunSettings {
    /// Takes a setting.
    fn take(&mut self, setting: Setting, value: &str) -> Result<(), String> {
        let text = || Some(value.to_owned());
        match setting {
            Setting::Device => self.device = text(),
            Setting::Connection => self.connection = text(),
            Setting::LinkType => self.link_type = text(),
            Setting::Qps => self.qps = Some(number(value)?),
            Setting::TxDepth => self.tx_depth = Some(number(value)?),
            Setting::PostList => self.post_list = Some(number(value)?),
            Setting::CqModeration => self.cq_moderation = Some(number(value)?),
            Setting::Mtu => self.mtu = Some(number(value)?),
            Setting::Inline => self.inline = Some(number(value)?),
            Setting::OutstandingReads => self.reads = Some(number(value)?),
            Setting::RelaxedOrdering => self.relaxed_ordering = text(),
            Setting::LockFree => self.lock_free = text(),
            Setting::WrApi => self.wr_api = text(),
            Setting::SharedReceive => self.shared_receive = value == "ON",
            Setting::DualPort => self.dual_port = value == "ON",
            Setting::RocmMemory => self.gpu |= value == "ON",
            Setting::Unused => {}
        }
        Ok(())
    }
}

/// The number at the start of a value such as `4096[B]`.
fn number(value: &str) -> Result<u32, String> {
    let digits = value.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().map_err(|_| format!("{value:?} is not a whole number below 2^32"))
}

/// A run whose output is being read.
struct Draft {
    run: PerftestRun,
    /// Whether this is the server's output.
    server: bool,
    /// Whether the following table is one side's, by `--report-both`.
    one_side: bool,
}

/// The state of a reader of a log.
struct LogReader<'t> {
    log: NamedText<'t>,
    runs: Vec<PerftestRun>,
    notes: Vec<ImportNote>,
    draft: Option<Draft>,
    /// Whether a server waits: the next title is its output.
    server_waits: bool,
    /// The command before the next title.
    command: PerftestCommand,
    /// Whether buffers of the next run are in memory of a GPU.
    gpu: bool,
}

/// The clients' runs in a log, and what was left out.
///
/// # Errors
/// If a run failed or has no results, or if there is no run.
pub(in crate::import) fn runs(
    log: NamedText<'_>,
) -> Result<(Vec<PerftestRun>, Vec<ImportNote>), SchemaError> {
    let mut reader = LogReader {
        log,
        runs: Vec::new(),
        notes: Vec::new(),
        draft: None,
        server_waits: false,
        command: PerftestCommand::default(),
        gpu: false,
    };
    for (at, text) in log.text.lines().enumerate() {
        reader.take(at + 1, text)?;
    }
    reader.end()?;
    if reader.runs.is_empty() {
        return Err(match reader.notes.iter().find(|note| note.message == SERVER) {
            Some(_) => log.error(1, "this is the output of a server: import the client's"),
            None => log.error(1, "there is no output of perftest here: no title such as RDMA_Write BW Test"),
        });
    }
    Ok((reader.runs, reader.notes))
}

/// Why the output of a server is left out.
const SERVER: &str =
    "left out: the output of a server, because the client's has the same test and its options";

impl LogReader<'_> {
    fn take(&mut self, at: usize, text: &str) -> Result<(), SchemaError> {
        match line(text) {
            Line::Known => {}
            Line::Unknown => self.note(at, format!("not understood: {:?}", short(text))),
            Line::Failure => {
                return Err(self
                    .log
                    .error(at, format!("the run failed, so import a log without it: {:?}", short(text))));
            }
            Line::ServerWaits => self.server_waits = true,
            Line::Command(command) => self.command = command,
            Line::Title(test) => self.begin(at, test)?,
            Line::UnknownTest => {
                return Err(self.log.error(at, format!("Doorbell does not know the test {:?}", short(text))));
            }
            Line::Gpu => match &mut self.draft {
                Some(draft) if draft.run.rows.is_empty() => draft.run.settings.gpu = true,
                // After the table, buffers are freed.
                Some(_) => {}
                None => self.gpu = true,
            },
            of_run => self.take_of_run(at, text, of_run)?,
        }
        Ok(())
    }

    /// Takes a line that belongs to a run.
    fn take_of_run(&mut self, at: usize, text: &str, line: Line<'_>) -> Result<(), SchemaError> {
        let wrong = |message: String| Err(self.log.error(at, message));
        let Some(draft) = &mut self.draft else {
            self.notes.push(self.log.note(at, format!("not understood before a title: {:?}", short(text))));
            return Ok(());
        };
        let run = &mut draft.run;
        match line {
            Line::Settings(settings) => {
                for (setting, value) in settings {
                    run.settings.take(setting, value).map_err(|why| self.log.error(at, why))?;
                }
            }
            Line::Events => run.settings.events = true,
            Line::OneSide => draft.one_side = true,
            // The table of one side repeats the head.
            Line::Head(_) if draft.one_side => {}
            Line::Head(_) if !run.rows.is_empty() => {
                return wrong(
                    "a second table follows: give the output of each program a file of its own".into(),
                );
            }
            Line::Head(columns) => run.columns = columns,
            Line::UnknownHead(title) => {
                return wrong(format!("the table has an unknown column {:?}", short(title)));
            }
            Line::Row(_) if draft.one_side => {
                self.notes.push(
                    self.log.note(at, "left out: the results of one side, because the table above has both"),
                );
            }
            Line::Row(numbers) => {
                let (found, columns) = (numbers.len(), run.columns.len());
                if found != columns {
                    return wrong(format!(
                        "the row has {found} numbers, but the table has {columns} columns"
                    ));
                }
                run.rows.push(TableRow { line: at, numbers });
            }
            Line::SampleHead(unit) => run.command.cycles |= unit == "cycles",
            // Single latencies of `-H`. The table has their statistics.
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, at: usize, test: PerftestTest) -> Result<(), SchemaError> {
        self.end()?;
        let settings = RunSettings { gpu: std::mem::take(&mut self.gpu), ..RunSettings::default() };
        let run = PerftestRun {
            file: self.log.name.to_owned(),
            line: at,
            test,
            command: std::mem::take(&mut self.command),
            settings,
            columns: Vec::new(),
            rows: Vec::new(),
        };
        let server = std::mem::take(&mut self.server_waits);
        self.draft = Some(Draft { run, server, one_side: false });
        Ok(())
    }

    /// Ends the output of a run.
    fn end(&mut self) -> Result<(), SchemaError> {
        let Some(Draft { run, server, .. }) = self.draft.take() else { return Ok(()) };
        if server {
            self.notes.push(self.log.note(run.line, SERVER));
        } else if false {
            let program = run.test.program();
            let message = format!("this run of {program} has no results: it failed, or the log is cut off");
            return Err(self.log.error(run.line, message));
        } else {
            self.runs.push(run);
        }
        Ok(())
    }

    fn note(&mut self, at: usize, message: String) {
        self.notes.push(self.log.note(at, message));
    }
}

/// The first 60 characters of a line.
fn short(text: &str) -> String {
    text.trim().chars().take(60).collect()
}
