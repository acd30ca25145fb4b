//! Avro's binary encoding (Avro specification 1.11, "Binary Encoding") of values that follow each other without a container, as in Hadoop's job
//! histories. Values are converted to what Avro's JSON encoding would be.
//!
//! A file and its schema may be damaged or forged, so depth, number and size of values are bounded. The `apache-avro` crate has no bound on depth
//! (a recursive schema overflows the stack), and brings sixteen crates for the few types that are needed here.

use serde_json::{Map, Number, Value};
use std::collections::HashMap;
use std::io::{self, BufRead, Read};

/// Bounds on one value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) values: usize,
    pub(crate) string_bytes: u64,
}

const DEPTH_MAX: usize = 64;

/// A schema: a type, and the named types that it refers to.
#[derive(Debug)]
pub(crate) struct Schema {
    root: Type,
    /// Records, enums and fixed types, by name without the namespace.
    named: HashMap<String, Type>,
}

#[derive(Clone, Debug, PartialEq)]
enum Type {
    Null,
    Boolean,
    /// `int` and `long`, which are encoded alike.
    Integer,
    Float,
    Double,
    Bytes,
    String,
    Fixed(u64),
    Enum(Vec<String>),
    Array(Box<Type>),
    Map(Box<Type>),
    /// Each branch with its name in JSON.
    Union(Vec<(String, Type)>),
    Record(Vec<(String, Type)>),
    Reference(String),
}

impl Schema {
    /// Parses a schema in JSON. None if it is invalid.
    pub(crate) fn parse(json: &str) -> Option<Schema> {
        let mut named = HashMap::new();
        let root = parse(&serde_json::from_str(json).ok()?, &mut named)?;
        Some(Schema { root, named })
    }

    /// Decodes the next value; `Ok(None)` at the end of the input.
    pub(crate) fn read(&self, input: &mut impl BufRead, bounds: Bounds) -> io::Result<Option<Value>> {
        if input.fill_buf()?.is_empty() {
            return Ok(None);
        }
        Decoder { schema: self, input, bounds }.value(&self.root, 0).map(Some)
    }
}

/// Parses a type and collects the named types in it. The depth is bounded by that of the JSON parser.
fn parse(json: &Value, named: &mut HashMap<String, Type>) -> Option<Type> {
    match json {
        Value::String(name) => Some(primitive(name).unwrap_or_else(|| Type::Reference(short_name(name)))),
        Value::Array(branches) => {
            let branch = |branch: &Value| Some((branch_name(branch)?, parse(branch, named)?));
            Some(Type::Union(branches.iter().map(branch).collect::<Option<_>>()?))
        }
        Value::Object(definition) => {
            let text = |key: &str| definition.get(key).and_then(Value::as_str);
            let kind = text("type");
            let parsed = match kind {
                Some("array") => return Some(Type::Array(Box::new(parse(definition.get("items")?, named)?))),
                Some("map") => return Some(Type::Map(Box::new(parse(definition.get("values")?, named)?))),
                Some("record" | "error") => {
                    let fields = definition.get("fields")?.as_array()?.iter();
                    let field = |field: &Value| {
                        Some((field.get("name")?.as_str()?.to_owned(), parse(field.get("type")?, named)?))
                    };
                    Type::Record(fields.map(field).collect::<Option<_>>()?)
                }
                Some("enum") => {
                    let symbols = definition.get("symbols")?.as_array()?.iter();
                    Type::Enum(symbols.map(|symbol| symbol.as_str().map(Into::into)).collect::<Option<_>>()?)
                }
                Some("fixed") => Type::Fixed(definition.get("size")?.as_u64()?),
                // A primitive type with attributes, or a type within a type.
                _ => return parse(definition.get("type")?, named),
            };
            let name = short_name(text("name")?);
            named.insert(name.clone(), parsed);
            Some(Type::Reference(name))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn primitive(name: &str) -> Option<Type> {
    Some(match name {
        "null" => Type::Null,
        "boolean" => Type::Boolean,
        "int" | "long" => Type::Integer,
        "float" => Type::Float,
        "double" => Type::Double,
        "bytes" => Type::Bytes,
        "string" => Type::String,
        _ => return None,
    })
}

/// The name of a union's branch in JSON.
fn branch_name(branch: &Value) -> Option<String> {
    match branch {
        Value::String(name) => Some(name.clone()),
        Value::Object(definition) => {
            let name = definition.get("name").or_else(|| definition.get("type"))?;
            name.as_str().map(Into::into)
        }
        _ => None,
    }
}

fn short_name(name: &str) -> String {
    name.rsplit('.').next().unwrap_or(name).to_owned()
}

struct Decoder<'a, R> {
    schema: &'a Schema,
    input: &'a mut R,
    /// What is left of them.
    bounds: Bounds,
}

impl<R: BufRead> Decoder<'_, R> {
    fn value(&mut self, kind: &Type, depth: usize) -> io::Result<Value> {
        self.bounds.values = self.bounds.values.checked_sub(1).ok_or_else(|| invalid("too many values in one"))?;
        if depth > DEPTH_MAX {
            return Err(invalid("values are nested too deeply"));
        }
        let depth = depth + 1;
        Ok(match kind {
            Type::Null => Value::Null,
            Type::Boolean => Value::Bool(self.byte()? != 0),
            Type::Integer => self.integer()?.into(),
            Type::Float => number(f32::from_le_bytes(self.array()?).into()),
            Type::Double => number(f64::from_le_bytes(self.array()?)),
            Type::Bytes | Type::String => {
                let bytes = u64::try_from(self.integer()?).map_err(|_| invalid("a negative length"))?;
                self.text(bytes)?
            }
            Type::Fixed(bytes) => self.text(*bytes)?,
            Type::Enum(symbols) => self.choose(symbols)?.clone().into(),
            Type::Array(items) => {
                let mut values = Vec::new();
                while let Some(count) = self.block()? {
                    for _ in 0..count {
                        values.push(self.value(items, depth)?);
                    }
                }
                values.into()
            }
            Type::Map(items) => {
                let mut values = Map::new();
                while let Some(count) = self.block()? {
                    for _ in 0..count {
                        let key = self.value(&Type::String, depth)?;
                        let value = self.value(items, depth)?;
                        values.insert(key.as_str().unwrap_or_default().to_owned(), value);
                    }
                }
                values.into()
            }
            Type::Union(branches) => {
                let (name, branch) = self.choose(branches)?;
                match self.value(branch, depth)? {
                    Value::Null => Value::Null,
                    value => Map::from_iter([(name.clone(), value)]).into(),
                }
            }
            Type::Record(fields) => {
                let mut values = Map::new();
                for (name, kind) in fields {
                    let value = self.value(kind, depth)?;
                    values.insert(name.clone(), value);
                }
                values.into()
            }
            Type::Reference(name) => {
                let kind =
                    self.schema.named.get(name).ok_or_else(|| invalid("a type that the schema does not have"))?;
                self.value(kind, depth)?
            }
        })
    }

    /// The element with the index that is encoded here.
    fn choose<'b, T>(&mut self, from: &'b [T]) -> io::Result<&'b T> {
        let index = self.integer()?;
        let chosen = usize::try_from(index).ok().and_then(|index| from.get(index));
        chosen.ok_or_else(|| invalid("an index that the schema does not have"))
    }

    /// Number of items in the next block of an array or map; None at its end.
    fn block(&mut self) -> io::Result<Option<u64>> {
        let count = self.integer()?;
        if count < 0 {
            // The block's size in bytes follows, for readers that skip it.
            self.integer()?;
        }
        Ok(Some(count.unsigned_abs()).filter(|count| *count > 0))
    }

    /// A number in zigzag encoding, seven bits a byte.
    fn integer(&mut self) -> io::Result<i64> {
        let mut encoded = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            encoded |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((encoded >> 1).cast_signed() ^ -(encoded & 1).cast_signed());
            }
        }
        Err(invalid("a number of more than 64 bits"))
    }

    fn byte(&mut self) -> io::Result<u8> {
        self.array().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Bytes as text, with invalid UTF-8 replaced. Memory is allocated as bytes arrive, not as the length announces them.
    fn text(&mut self, bytes: u64) -> io::Result<Value> {
        self.bounds.string_bytes =
            self.bounds.string_bytes.checked_sub(bytes).ok_or_else(|| invalid("strings that are too long"))?;
        let mut text = Vec::new();
        let read = self.input.by_ref().take(bytes).read_to_end(&mut text)?;
        if (read as u64) < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&text).into_owned().into())
    }
}

/// JSON has no infinite numbers.
fn number(number: f64) -> Value {
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

fn invalid(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const BOUNDS: Bounds = Bounds { values: 1_000, string_bytes: 1_000 };

    fn read(schema: &str, bytes: &[u8]) -> io::Result<Option<Value>> {
        Schema::parse(schema).expect("a schema").read(&mut &bytes[..], BOUNDS)
    }

    /// The examples of the specification.
    #[test]
    fn values_are_decoded() {
        for (encoded, number) in [(&[0][..], 0), (&[1], -1), (&[2], 1), (&[0x7f], -64), (&[0x80, 1], 64)] {
            assert_eq!(read(r#""long""#, encoded).unwrap(), Some(json!(number)));
        }
        assert_eq!(read(r#""string""#, b"\x06foo").unwrap(), Some(json!("foo")));
        let record =
            r#"{"type":"record","name":"test","fields":[{"name":"a","type":"long"},{"name":"b","type":"string"}]}"#;
        assert_eq!(read(record, b"\x36\x06foo").unwrap(), Some(json!({ "a": 27, "b": "foo" })));
        assert_eq!(read(r#"{"type":"array","items":"long"}"#, b"\x04\x06\x36\x00").unwrap(), Some(json!([3, 27])));
        let with_size = b"\x03\x04\x06\x36\x00";
        assert_eq!(read(r#"{"type":"array","items":"long"}"#, with_size).unwrap(), Some(json!([3, 27])));
        assert_eq!(read(r#"["null","string"]"#, b"\x02\x02a").unwrap(), Some(json!({ "string": "a" })));
        assert_eq!(read(r#"["null","string"]"#, b"\x00").unwrap(), Some(Value::Null));
        assert_eq!(read(r#"{"type":"map","values":"int"}"#, b"\x02\x02k\x04\x00").unwrap(), Some(json!({ "k": 2 })));
        assert_eq!(read(r#"{"type":"enum","name":"e","symbols":["A","B"]}"#, b"\x02").unwrap(), Some(json!("B")));
        assert_eq!(read(r#""double""#, &1.5_f64.to_le_bytes()).unwrap(), Some(json!(1.5)));
        assert_eq!(read(r#""long""#, b"").unwrap(), None);
    }

    #[test]
    fn a_named_type_is_known_from_its_definition_on() {
        let schema = r#"{"type":"record","name":"n.R","fields":[
            {"name":"a","type":{"type":"fixed","name":"F","size":2}},{"name":"b","type":["null","n.F"]}]}"#;
        assert_eq!(read(schema, b"xy\x02zw").unwrap(), Some(json!({ "a": "xy", "b": { "n.F": "zw" } })));
    }

    #[test]
    fn forged_input_is_an_error() {
        let recursive = r#"{"type":"record","name":"R","fields":[{"name":"next","type":["null","R"]}]}"#;
        let endless = r#"{"type":"record","name":"R","fields":[{"name":"next","type":"R"}]}"#;
        let nulls = r#"{"type":"array","items":"null"}"#;
        let many = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00";
        for (schema, bytes) in [
            (recursive, &[2; 1_000][..]),
            (endless, &[0]),
            (nulls, many),
            (r#"{"type":"array","items":{"type":"array","items":"null"}}"#, &[0xfe, 0x0f].repeat(500)),
            (r#""string""#, many),
            (r#""string""#, b"\x01"),
            (r#""string""#, b"\x80\x08x"),
            (r#""long""#, &[0xff; 11]),
            (r#"["null"]"#, b"\x02"),
            (r#""unknown""#, b"\x00"),
        ] {
            assert!(read(schema, bytes).is_err(), "{schema} {bytes:?}");
        }
        for schema in ["", "7", "[7]", r#"{"type":"array"}"#, r#"{"type":"record","fields":[]}"#] {
            assert!(Schema::parse(schema).is_none(), "{schema}");
        }
    }
}
