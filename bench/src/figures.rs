//! Everything that is measured has a name here.

mod metric;
mod section;
mod setting;
mod subject;

use std::fmt;

pub use metric::Metric;
pub use section::Section;
pub use setting::Setting;
pub use subject::Subject;

/// What, and under which circumstances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Case {
    /// In which part of the run.
    pub section: Section,
    /// What.
    pub subject: Subject,
    /// How.
    pub setting: Setting,
}

impl Case {
    /// A case.
    pub const fn new(section: Section, subject: Subject, setting: Setting) -> Self {
        Self {
            section,
            subject,
            setting,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.subject.name(), self.setting)
    }
}
