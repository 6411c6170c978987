//! JSON that is on its way to the database as it came.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// JSON text as a parameter of type `jsonb`: a version byte, then the text, which the database alone parses.
#[derive(Debug)]
pub(crate) struct Jsonb<'b>(pub(crate) &'b [u8]);

impl ToSql for Jsonb<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&[1]);
        out.extend_from_slice(self.0);
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::JSONB
    }

    to_sql_checked!();
}
