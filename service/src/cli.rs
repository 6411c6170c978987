//! Reading a program's configuration: flags, the environment, and everything that is wrong with them, at once.

use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command, Error, Parser};

/// Exit code of a program whose configuration or command line is wrong (`EX_USAGE`).
pub const EXIT_USAGE: u8 = 64;

/// Everything that is wrong with a configuration, so that it is put right in one go.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ConfigFaults(Vec<String>);

impl ConfigFaults {
    /// No fault found yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a fault: what setting, and what is wrong with it.
    pub fn push(&mut self, fault: impl fmt::Display) {
        self.0.push(fault.to_string());
    }

    /// Adds a fault unless `right`.
    pub fn require(&mut self, right: bool, fault: impl fmt::Display) {
        if !right {
            self.push(fault);
        }
    }

    /// The value, or none and its error, with the causes, as a fault.
    pub fn take<T, E: std::error::Error + 'static>(&mut self, value: Result<T, E>) -> Option<T> {
        value.map_err(|error| self.push(crate::Chain(&error))).ok()
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Prints the faults on standard error, one a line, and gives the exit code 64.
    pub fn report(&self, program: &str) -> ExitCode {
        for fault in &self.0 {
            eprintln!("{program}: {fault}");
        }
        ExitCode::from(EXIT_USAGE)
    }
}

impl fmt::Display for ConfigFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

/// Parses the command line and the environment into `P`, then adds what `check` finds.
///
/// clap stops at the first bad value. Here each bad value becomes a fault, its default takes its place, and parsing goes on.
/// `check` sees the values once all of them are read, with defaults in the place of those that could not be;
/// [`ConfigFaults::is_empty`] tells it whether there were any.
///
/// # Errors
/// The exit code to end with: 0 after `--help` or `--version`, else 64 with every fault on standard error.
pub fn parse<P: Parser, C>(
    arguments: impl IntoIterator<Item = OsString>,
    check: impl FnOnce(P, &mut ConfigFaults) -> Option<C>,
) -> Result<C, ExitCode> {
    let mut faults = ConfigFaults::new();
    let parsed = values::<P>(P::command(), arguments.into_iter().collect(), &mut faults);
    let name = P::command().get_name().to_owned();
    match parsed {
        Err(error) if faults.is_empty() => Err(print(&error)),
        Err(error) => {
            faults.push(in_one_line(&error));
            Err(faults.report(&name))
        }
        Ok(parsed) => match check(parsed, &mut faults) {
            Some(config) if faults.is_empty() => Ok(config),
            _ => Err(faults.report(&name)),
        },
    }
}

fn print(error: &Error) -> ExitCode {
    // Nothing is left to be done when standard error is closed.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_USAGE),
    }
}

/// Parses with one bad value after the other taken out, each noted as a fault.
fn values<P: Parser>(
    mut command: Command,
    mut arguments: Vec<OsString>,
    faults: &mut ConfigFaults,
) -> Result<P, Error> {
    loop {
        let error = match matches(&command, &arguments) {
            Ok(matches) => return P::from_arg_matches(&matches),
            Err(error) => error,
        };
        let bad_value = matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue);
        let flag = bad_value.then(|| flag_of(&error)).flatten();
        let Some(flag) = flag.filter(|flag| gives_value(&command, &arguments, flag)) else {
            return Err(error);
        };
        faults.push(in_one_line(&error));
        remove(&mut arguments, &flag);
        command = without_variable(command, &flag);
    }
}

fn matches(command: &Command, arguments: &[OsString]) -> Result<ArgMatches, Error> {
    command.clone().try_get_matches_from(arguments)
}

/// `--flag` of the context `--flag <VALUE>`.
fn flag_of(error: &Error) -> Option<String> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(shown)) => shown.split_whitespace().next().map(ToOwned::to_owned),
        _ => None,
    }
}

/// Whether there is something to take out, without which the loop would not end.
fn gives_value(command: &Command, arguments: &[OsString], flag: &str) -> bool {
    let mut rest = arguments.to_vec();
    remove(&mut rest, flag);
    rest.len() < arguments.len() || has_variable(command, flag)
}

fn is(arg: &Arg, flag: &str) -> bool {
    arg.get_long()
        .is_some_and(|long| flag.strip_prefix("--") == Some(long))
}

fn has_variable(command: &Command, flag: &str) -> bool {
    command
        .get_arguments()
        .any(|arg| is(arg, flag) && arg.get_env().is_some_and(|name| !name.is_empty()))
        || command.get_subcommands().any(|sub| has_variable(sub, flag))
}

fn without_variable(command: Command, flag: &str) -> Command {
    command
        .mut_args(|arg| {
            if is(&arg, flag) {
                arg.env(clap::builder::Resettable::Reset)
            } else {
                arg
            }
        })
        .mut_subcommands(|sub| without_variable(sub, flag))
}

/// Takes `--flag=value` and `--flag value` out.
fn remove(arguments: &mut Vec<OsString>, flag: &str) {
    let joined = format!("{flag}=");
    let mut value_follows = false;
    arguments.retain(|argument| {
        if std::mem::take(&mut value_follows) {
            return false;
        }
        value_follows = argument == flag;
        !value_follows && !argument.to_string_lossy().starts_with(&joined)
    });
}

/// What clap says before the usage: what is wrong, and what it names on the lines below.
fn in_one_line(error: &Error) -> String {
    let text = error.to_string();
    let lines: Vec<_> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let line = lines.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[derive(Debug, PartialEq, Parser)]
    #[command(name = "program")]
    struct Flags {
        #[arg(long, default_value = "1", global = true)]
        one: u8,
        #[arg(long, default_value = "2")]
        two: u8,
        #[arg(long, env = "SERVICE_CLI_TEST_THREE", default_value = "3")]
        three: u8,
        #[command(subcommand)]
        command: Option<Sub>,
    }

    #[derive(Debug, PartialEq, clap::Subcommand)]
    enum Sub {
        Look {
            #[arg(long, default_value = "4")]
            four: u8,
        },
    }

    fn faults(line: &str) -> (Result<Flags, ErrorKind>, Vec<String>) {
        let mut faults = ConfigFaults::new();
        let arguments = line.split(' ').map(OsString::from).collect();
        let parsed = values::<Flags>(Flags::command(), arguments, &mut faults).map_err(|error| error.kind());
        (parsed, faults.0)
    }

    #[test]
    fn every_bad_value_is_named_and_its_default_stands_in() {
        let (parsed, faults) = faults("program --one=x --two y --three 300 look --four z");
        assert_eq!(
            parsed.unwrap(),
            Flags {
                one: 1,
                two: 2,
                three: 3,
                command: Some(Sub::Look { four: 4 })
            }
        );
        assert_eq!(faults.len(), 4, "{faults:?}");
        for flag in ["--one", "--two", "--three", "--four"] {
            assert!(
                faults.iter().any(|fault| fault.contains(flag)),
                "{flag} in {faults:?}"
            );
        }
        assert!(
            faults.iter().any(|fault| fault.contains("300 is not in 0..=255")),
            "{faults:?}"
        );
    }

    #[test]
    fn bad_values_of_variables_are_taken_out_like_those_of_flags() {
        let command = Flags::command().mut_arg("three", |arg| arg.env("CARGO_PKG_NAME"));
        let mut faults = ConfigFaults::new();
        let parsed = values::<Flags>(command, vec!["program".into(), "--one=x".into()], &mut faults).unwrap();
        assert_eq!(parsed.three, 3);
        assert_eq!(faults.0.len(), 2, "{faults:?}");
    }

    #[test]
    fn an_unknown_flag_ends_the_search() {
        let (parsed, faults) = faults("program --nine=9 --one=x");
        assert_eq!(parsed, Err(ErrorKind::UnknownArgument));
        assert_eq!(faults, Vec::<String>::new());
    }

    #[test]
    fn what_the_check_finds_stands_beside_the_bad_values() {
        let arguments = ["program", "--one=x"].map(OsString::from);
        let ended = parse::<Flags, Flags>(arguments, |flags, faults| {
            assert!(!faults.is_empty());
            faults.require(flags.two == 7, "--two must be 7");
            assert_eq!(faults.to_string().lines().count(), 2);
            Some(flags)
        });
        assert_eq!(ended, Err(ExitCode::from(EXIT_USAGE)));
    }
}
