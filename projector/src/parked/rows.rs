//! Rows of `parked` as they are read.

use bytes::Bytes;
use serde::Serialize;
use time::OffsetDateTime;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::config::Which;
use database::DatabaseError;

/// What [`Parked::read`] reads.
const COLUMNS: &str = "
p.stream_created, p.stream_seq, p.subject, p.task_id, p.reason, p.detail, octet_length(p.body)::bigint, p.parked_at,
exists (select from projection r where r.stream_created = p.stream_created)";

const WHICH: &str = "
 where ($1::text is null or p.reason = $1) and ($2::text is null or p.task_id = $2)
   and (cardinality($3::bigint[]) = 0 or p.stream_seq = any($3))
   and (p.stream_created, p.stream_seq) > (coalesce($4::timestamptz, '-infinity'), $5)
 order by p.stream_created, p.stream_seq
 limit $6";

const OF_TASKS: &str = "
 where p.task_id = any($1) or (p.stream_created = $2 and p.stream_seq = any($3))
 order by p.stream_created, p.stream_seq";

const COUNTS: &str = "
select reason, count(*) from parked p
 where ($1::text is null or p.reason = $1) and ($2::text is null or p.task_id = $2)
 group by 1 order by 2 desc, 1";

/// A row of `parked`, without its body.
#[derive(Debug, Clone, Serialize)]
pub struct Parked {
    /// Column `stream_seq`.
    pub stream_seq: u64,
    /// Column `stream_created`.
    #[serde(with = "time::serde::rfc3339")]
    pub stream_created: OffsetDateTime,
    /// It is of a stream that the rows do not follow now: its sequence means nothing on the one that is there.
    pub is_of_older_stream: bool,
    /// Column `subject`.
    pub subject: String,
    /// Column `task_id`.
    pub task_id: Option<String>,
    /// Column `reason`.
    pub reason: String,
    /// Column `detail`.
    pub detail: Option<String>,
    /// Size of the body.
    pub bytes: u64,
    /// Column `parked_at`.
    #[serde(with = "time::serde::rfc3339")]
    pub parked_at: OffsetDateTime,
}

/// A row of `parked`.
#[derive(Debug, Clone)]
pub struct Kept {
    /// All but the body.
    pub row: Parked,
    /// Column `body`.
    pub body: Bytes,
}

/// A place in the order of the table.
pub type Place = (OffsetDateTime, i64);

impl Parked {
    /// Its place in the order of the table.
    pub fn place(&self) -> Place {
        let seq = i64::try_from(self.stream_seq).unwrap_or(i64::MAX);
        (self.stream_created, seq)
    }

    fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        let followed: bool = row.try_get(8)?;
        Ok(Self {
            stream_created: row.try_get(0)?,
            stream_seq: row.try_get::<_, i64>(1)?.unsigned_abs(),
            is_of_older_stream: !followed,
            subject: row.try_get(2)?,
            task_id: row.try_get(3)?,
            reason: row.try_get(4)?,
            detail: row.try_get(5)?,
            bytes: row.try_get::<_, i64>(6)?.unsigned_abs(),
            parked_at: row.try_get(7)?,
        })
    }
}

/// At most `limit` rows behind `after`, oldest first.
///
/// # Errors
/// When the database fails.
pub async fn list(
    client: &Client,
    which: &Which,
    after: Option<Place>,
    limit: i64,
) -> Result<Vec<Parked>, DatabaseError> {
    let rows = select(client, which, after, limit, false).await?;
    each(&rows, Parked::read)
}

/// The rows of these tasks, and those of the events with these sequences on the stream that was created then.
///
/// # Errors
/// When the database fails.
pub async fn of_tasks(
    client: &Client,
    tasks: &[String],
    created: Option<OffsetDateTime>,
    seqs: &[i64],
) -> Result<Vec<Parked>, DatabaseError> {
    let statement = format!("select {COLUMNS} from parked p {OF_TASKS}");
    let values: [(&(dyn ToSql + Sync), Type); 3] = [
        (&tasks, Type::TEXT_ARRAY),
        (&created, Type::TIMESTAMPTZ),
        (&seqs, Type::INT8_ARRAY),
    ];
    let rows = client
        .query_typed(&statement, &values)
        .await
        .map_err(DatabaseError::of(READING))?;
    each(&rows, Parked::read)
}

/// All rows with this sequence, those of the newest stream first.
///
/// # Errors
/// When the database fails.
pub async fn with_bodies(client: &Client, seq: u64) -> Result<Vec<Kept>, DatabaseError> {
    let which = Which {
        seqs: vec![seq],
        ..Which::default()
    };
    let rows = select(client, &which, None, i64::MAX, true).await?;
    let mut kept = each(&rows, kept)?;
    kept.reverse();
    Ok(kept)
}

/// The row at this place; None when there is none any more.
///
/// # Errors
/// When the database fails.
pub async fn at(client: &Client, place: Place) -> Result<Option<Kept>, DatabaseError> {
    let kept = with_bodies(client, place.1.unsigned_abs()).await?;
    Ok(kept.into_iter().find(|kept| kept.row.place() == place))
}

/// How many there are of each reason, the most first.
///
/// # Errors
/// When the database fails.
pub async fn counts(client: &Client, which: &Which) -> Result<Vec<(String, u64)>, DatabaseError> {
    let task = which.task.as_ref().map(|id| id.as_str());
    let values: [(&(dyn ToSql + Sync), Type); 2] = [(&which.reason, Type::TEXT), (&task, Type::TEXT)];
    let rows = client
        .query_typed(COUNTS, &values)
        .await
        .map_err(DatabaseError::of(READING))?;
    each(&rows, |row| {
        Ok((row.try_get(0)?, row.try_get::<_, i64>(1)?.unsigned_abs()))
    })
}

const READING: &str = "reading parked messages";

async fn select(
    client: &Client,
    which: &Which,
    after: Option<Place>,
    limit: i64,
    bodies: bool,
) -> Result<Vec<Row>, DatabaseError> {
    let task = which.task.as_ref().map(|id| id.as_str());
    // A sequence that Postgres cannot hold is of no row.
    let seqs: Vec<i64> = which
        .seqs
        .iter()
        .map(|seq| i64::try_from(*seq).unwrap_or(-1))
        .collect();
    let (created, seq) = after.map_or((None, i64::MIN), |(created, seq)| (Some(created), seq));
    let body = if bodies { ", p.body" } else { "" };
    let statement = format!("select {COLUMNS}{body} from parked p {WHICH}");
    let values: [(&(dyn ToSql + Sync), Type); 6] = [
        (&which.reason, Type::TEXT),
        (&task, Type::TEXT),
        (&seqs, Type::INT8_ARRAY),
        (&created, Type::TIMESTAMPTZ),
        (&seq, Type::INT8),
        (&limit, Type::INT8),
    ];
    client
        .query_typed(&statement, &values)
        .await
        .map_err(DatabaseError::of(READING))
}

fn kept(row: &Row) -> Result<Kept, tokio_postgres::Error> {
    let body: Vec<u8> = row.try_get(9)?;
    Ok(Kept {
        row: Parked::read(row)?,
        body: Bytes::from(body),
    })
}

/// Each row as what `read` makes of it.
fn each<T>(
    rows: &[Row],
    read: impl Fn(&Row) -> Result<T, tokio_postgres::Error>,
) -> Result<Vec<T>, DatabaseError> {
    rows.iter()
        .map(read)
        .collect::<Result<_, _>>()
        .map_err(DatabaseError::of(READING))
}
