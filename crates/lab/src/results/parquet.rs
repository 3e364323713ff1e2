use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use super::{Cells, Row, TableColumn, VERSION, table};

/// Writes rows of one experiment as a Parquet file: the columns of [`table`], all of them optional, and in
/// the file's metadata `quickset.experiment`, `quickset.commit`, `quickset.version` and `quickset.format`.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write_parquet(rows: &[Row], path: &Path) -> io::Result<()> {
    write(rows, File::create(path)?).map_err(io::Error::other)
}

fn write(rows: &[Row], file: File) -> Result<()> {
    let columns = table(rows);
    let fields = columns.iter().map(field).collect::<Result<_>>()?;
    let schema = Arc::new(Type::group_type_builder("quickset").with_fields(fields).build()?);
    let first = |of: fn(&Row) -> &str| rows.first().map(of).unwrap_or_default().to_owned();
    let metadata = [
        ("quickset.experiment", first(|row| &row.experiment)),
        ("quickset.commit", first(|row| &row.commit)),
        ("quickset.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("quickset.format", VERSION.to_string()),
    ];
    let metadata = metadata.map(|(key, value)| KeyValue::new(key.to_owned(), value));
    let properties = WriterProperties::builder()
        .set_created_by(concat!("quickset ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(metadata.to_vec()))
        .build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in columns {
        let Some(mut to) = group.next_column()? else { break };
        match column.cells {
            Cells::Text(cells) => {
                let bytes = |cell: Option<String>| cell.map(|text| ByteArray::from(text.into_bytes()));
                put::<ByteArrayType>(&mut to, cells.into_iter().map(bytes))?;
            }
            Cells::Whole(cells) => put::<Int64Type>(&mut to, cells.into_iter())?,
            Cells::Number(cells) => put::<DoubleType>(&mut to, cells.into_iter())?,
            Cells::Flag(cells) => put::<BoolType>(&mut to, cells.into_iter())?,
        }
        to.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

fn field(column: &TableColumn) -> Result<TypePtr> {
    let (physical, logical) = match column.cells {
        Cells::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Cells::Whole(_) => (Physical::INT64, None),
        Cells::Number(_) => (Physical::DOUBLE, None),
        Cells::Flag(_) => (Physical::BOOLEAN, None),
    };
    let builder = Type::primitive_type_builder(&column.name, physical);
    Ok(Arc::new(builder.with_logical_type(logical).with_repetition(Repetition::OPTIONAL).build()?))
}

/// Values that are there, and for each row whether it has one.
fn put<T: DataType>(
    to: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = Option<T::T>>,
) -> Result<()> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    for cell in cells {
        levels.push(i16::from(cell.is_some()));
        values.extend(cell);
    }
    to.typed::<T>().write_batch(&values, Some(&levels), None).map(drop)
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    use super::*;
    use crate::catalogue;
    use crate::results::{Detail, Histogram, RunMetrics};

    #[test]
    fn what_is_written_is_read_with_its_types() {
        let row = |seed: u64| Row {
            experiment: "screen-streaming".into(),
            seed,
            commit: "abc".into(),
            world: "sim".into(),
            params: catalogue::find("screen-streaming").unwrap().base(),
            metrics: RunMetrics { completion_s: (seed == 2).then_some(0.1 + 0.2), ..RunMetrics::default() },
            detail: Detail {
                histograms: [("blocking_ms".to_owned(), Histogram::of_sorted(&[0.0]))].into(),
                ..Detail::default()
            },
        };
        let path = std::env::temp_dir().join(format!("quickset-{}.parquet", std::process::id()));
        write_parquet(&[row(1), row(2)], &path).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let file = reader.metadata().file_metadata();
        let commit = file.key_value_metadata().unwrap().iter().find(|pair| pair.key == "quickset.commit");
        assert_eq!(commit.unwrap().value.as_deref(), Some("abc"));
        let rows: Vec<Vec<(String, Field)>> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().into_columns()).collect();
        std::fs::remove_file(&path).unwrap();
        let cell =
            |n: usize, name: &str| rows[n].iter().find(|(column, _)| column == name).unwrap().1.clone();
        assert_eq!(rows.len(), 2);
        assert_eq!(cell(1, "seed"), Field::Long(2));
        assert_eq!(cell(0, "mode"), Field::Str("partial".into()));
        assert_eq!(cell(0, "rtt_ms"), Field::Double(100.0));
        assert_eq!(
            (cell(0, "completion_s"), cell(1, "completion_s")),
            (Field::Null, Field::Double(0.1 + 0.2))
        );
        assert_eq!(cell(0, "finished"), Field::Bool(false));
        assert_eq!(cell(1, "histograms"), Field::Str(r#"{"blocking_ms":[[0,1]]}"#.into()));
    }
}
