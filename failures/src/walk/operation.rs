//! What a walk can do.

use std::fmt;

use crate::world::Who;

/// One step of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Something happens that breaks nothing for longer than a moment.
    Do(Deed),
    /// Something breaks, and stays so until it is mended.
    Break(Breakage),
    /// What was broken is mended.
    Mend(Breakage),
    /// Every program is asked whether it is ready, and must say what is true.
    Look,
}

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// So many tasks end at once.
    Burst(u8),
    /// So many tasks end whose deliveries are dead at once: only a reconciler can fetch them.
    Lose(u8),
    /// Two tasks of one job end, the later first.
    Reverse,
    /// A task whose id its application never learned: only the key is recorded.
    SubmitByKey,
    /// The button on the provider's dashboard.
    TestDelivery,
    /// A signed body about a task that has not ended.
    NonFinal,
    /// A signed body that no task can be read from.
    Unreadable,
    /// Another result of a task than the one that the provider delivers; ahead of that, when true.
    Divergent(bool),
    /// A delivery that is over is sent again by hand.
    Redeliver,
    /// The projectors' consumer is deleted.
    DeleteConsumer,
    /// The projectors' consumer is changed so that it would skip messages, or others wait longer.
    ChangeConsumer(Change),
    /// Every session with the database is ended by its server.
    EndSessions,
    /// The database server is backed up.
    BackUp,
    /// The newest backup is put back.
    PutBack,
    /// Servers and programs are killed, all at once.
    PowerCut,
    /// Somebody deletes, changes and invents rows.
    Corrupt,
    /// The tables are rebuilt, and that is killed after so many hundredths of a second.
    Rebuild(u8),
}

/// What somebody changes about the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Only completed results pass.
    Filter,
    /// A message is given up after three deliveries.
    MaxDeliver,
    /// Other limits, which skip nothing.
    Limits,
}

/// Something that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breakage {
    /// A program was killed.
    Killed(Who),
    /// A program was told to stop.
    Stopped(Who),
    /// A program stands still.
    Frozen(Who),
    /// A link does not do what it should.
    Link(Who, Side, Ill),
    /// The broker was killed.
    BrokerKilled,
    /// The broker stands still.
    BrokerFrozen,
    /// The stream has no room.
    StreamFull,
    /// The broker's disk has no room. It stores nothing until there is room again and it was restarted.
    DiskFull,
    /// The database server was killed.
    DatabaseKilled,
    /// The database server stands still.
    DatabaseFrozen,
    /// The database server writes nothing.
    ReadOnly,
    /// Somebody holds a lock on the rows.
    RowsLocked,
    /// The provider's API cannot be reached.
    ApiAway,
    /// The provider's API answers wrongly, so many times.
    ApiWrong(Wrong, u8),
    /// The secret is being replaced.
    Rotation(Order),
}

/// What a link leads to, seen from its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The broker.
    Broker,
    /// The database.
    Database,
    /// The provider, which delivers.
    Hook,
    /// The provider's API.
    Provider,
}

/// What is wrong with a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ill {
    /// Every connection is reset, and new ones are refused.
    Cut,
    /// Nothing passes.
    Mute,
    /// Requests pass, and answers do not.
    AnswersHeld,
    /// What the other side says passes, and requests do not.
    RequestsHeld,
    /// Everything takes a while.
    Slow,
}

/// What is wrong with the answers of the provider's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// 429 with a time to come again.
    TooMany,
    /// 429 without one.
    TooManyForHowLong,
    /// 503 with a date to come again.
    Unavailable,
    /// 500.
    Broken,
    /// 401.
    Denied,
    /// 404.
    Unknown,
    /// A redirect.
    Elsewhere,
    /// None at all.
    Silence,
    /// Half of it.
    Cut,
    /// The true one of another task.
    OtherTask,
    /// The true one, marked as a test.
    Test,
    /// No JSON.
    NotJson,
    /// Nothing, with 204.
    Nothing,
}

/// In which order the ends of the line learn of a new secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Ingress accepts both, then the provider signs with the new one.
    ReceiverFirst,
    /// The provider signs with both, then ingress accepts the new one.
    SenderFirst,
    /// The provider signs with the new one alone, and ingress knows nothing of it.
    OutOfOrder,
}

impl Breakage {
    /// What is killed with SIGKILL, for the count of kills.
    pub(super) fn kills(self) -> Option<&'static str> {
        match self {
            Self::Killed(who) => Some(who.kind().name()),
            Self::BrokerKilled => Some("broker"),
            Self::DatabaseKilled => Some("database"),
            _ => None,
        }
    }

    /// Which program, when it is one that does not run as it should.
    pub(super) fn program(self) -> Option<Who> {
        match self {
            Self::Killed(who) | Self::Stopped(who) | Self::Frozen(who) => Some(who),
            _ => None,
        }
    }
}

impl Operation {
    /// What it is counted as.
    pub fn kind(self) -> String {
        match self {
            Self::Do(deed) => deed.kind().to_owned(),
            Self::Break(breakage) => breakage.kind(),
            Self::Mend(_) => "mend".to_owned(),
            Self::Look => "look at readiness".to_owned(),
        }
    }
}

impl Deed {
    fn kind(self) -> &'static str {
        match self {
            Self::Burst(_) => "burst of tasks",
            Self::Lose(_) => "lose deliveries for good",
            Self::Reverse => "two of one job in reverse",
            Self::SubmitByKey => "submission without an id",
            Self::TestDelivery => "test delivery",
            Self::NonFinal => "non-final body",
            Self::Unreadable => "unreadable body",
            Self::Divergent(_) => "divergent result",
            Self::Redeliver => "redelivery by hand",
            Self::DeleteConsumer => "delete the consumer",
            Self::ChangeConsumer(_) => "change the consumer",
            Self::EndSessions => "end all database sessions",
            Self::BackUp => "back up the database",
            Self::PutBack => "put the database back",
            Self::PowerCut => "power cut",
            Self::Corrupt => "corrupt the tables",
            Self::Rebuild(_) => "rebuild",
        }
    }
}

impl Breakage {
    fn kind(self) -> String {
        match self {
            Self::Killed(who) => format!("kill {}", who.kind().name()),
            Self::Stopped(who) => format!("stop {}", who.kind().name()),
            Self::Frozen(who) => format!("freeze {}", who.kind().name()),
            Self::Link(_, _, ill) => format!("link: {ill}"),
            Self::BrokerKilled => "kill the broker".to_owned(),
            Self::BrokerFrozen => "freeze the broker".to_owned(),
            Self::StreamFull => "fill the stream".to_owned(),
            Self::DiskFull => "fill the broker's disk".to_owned(),
            Self::DatabaseKilled => "kill the database".to_owned(),
            Self::DatabaseFrozen => "freeze the database".to_owned(),
            Self::ReadOnly => "read-only database".to_owned(),
            Self::RowsLocked => "lock the rows".to_owned(),
            Self::ApiAway => "api away".to_owned(),
            Self::ApiWrong(..) => "api: wrong answers".to_owned(),
            Self::Rotation(_) => "rotate the secret".to_owned(),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Do(deed) => match deed {
                Deed::Burst(tasks) | Deed::Lose(tasks) => write!(f, "{} ({tasks})", deed.kind()),
                Deed::Divergent(true) => write!(f, "{} ahead of the true one", deed.kind()),
                Deed::ChangeConsumer(change) => write!(f, "{} ({change:?})", deed.kind()),
                _ => f.write_str(deed.kind()),
            },
            Self::Break(breakage) => breakage.fmt(f),
            Self::Mend(breakage) => write!(f, "mend: {breakage}"),
            Self::Look => f.write_str("look at readiness"),
        }
    }
}

impl fmt::Display for Breakage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed(who) => write!(f, "kill {who}"),
            Self::Stopped(who) => write!(f, "stop {who}"),
            Self::Frozen(who) => write!(f, "freeze {who}"),
            Self::Link(who, side, ill) => write!(f, "{who} and {side:?}: {ill}"),
            Self::ApiWrong(wrong, times) => write!(f, "api: {wrong:?} ({times})"),
            Self::Rotation(order) => write!(f, "rotate the secret, {order:?}"),
            other => f.write_str(&other.kind()),
        }
    }
}

impl fmt::Display for Ill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cut => "cut",
            Self::Mute => "mute",
            Self::AnswersHeld => "answers held back",
            Self::RequestsHeld => "requests held back",
            Self::Slow => "slow",
        })
    }
}
