//! The pause that all reconcilers of a provider keep.

use std::time::Duration;

use database::DatabaseError;
use tokio_postgres::types::Type;

use super::{Submissions, seconds};

/// Never ends earlier than it would have.
const PAUSE: &str = "
insert into provider_pause as p (provider, paused_until, reason) values ($1, now() + make_interval(secs => $2), $3)
    on conflict (provider) do update set paused_until = excluded.paused_until, reason = excluded.reason
 where p.paused_until < excluded.paused_until";

impl Submissions {
    /// Nobody asks the provider anything for `pause` from now.
    ///
    /// # Errors
    /// When the database fails; the other processes then find out for themselves.
    pub async fn pause(&self, pause: Duration, reason: &str) -> Result<(), DatabaseError> {
        let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] = [
            (&self.provider, Type::TEXT),
            (&seconds(pause), Type::FLOAT8),
            (&reason, Type::TEXT),
        ];
        self.query("noting the provider's pause", PAUSE, &parameters)
            .await
            .map(drop)
    }
}
