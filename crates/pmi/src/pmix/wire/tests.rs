//! Numbers as real clients send them, and bytes that lie about their length.

use super::*;

const BOTH: [Encoding; 2] = [Encoding::V3, Encoding::V41];

#[test]
fn primitives_read_back_in_both_encodings() {
    for encoding in BOTH {
        for number in [0, 1, -1, 63, -64, 64, 300, -46, i32::MAX, i32::MIN] {
            let mut writer = Writer::new(encoding);
            writer.pack(1).i32(number).u32(number as u32).size(number.unsigned_abs() as usize);
            writer.u16(number as u16).string("a b").object(b"xyz").process("ns", u32::MAX - 1);
            let bytes = writer.finish();
            let mut reader = Reader::new(&bytes, encoding);
            reader.pack(1).unwrap();
            assert_eq!(reader.i32(), Ok(number));
            assert_eq!(reader.u32(), Ok(number as u32));
            assert_eq!(reader.size(), Ok(number.unsigned_abs() as usize));
            assert_eq!(reader.u16(), Ok(number as u16));
            assert_eq!(reader.string(), Ok(&b"a b"[..]));
            assert_eq!(reader.object(), Ok(&b"xyz"[..]));
            assert_eq!(reader.process(), Ok(Proc { namespace: b"ns", rank: u32::MAX - 1 }));
            assert!(reader.is_done());
            for cut in 0..bytes.len() {
                let mut reader = Reader::new(&bytes[..cut], encoding);
                let read = (|| {
                    reader.pack(1)?;
                    reader.i32()?;
                    reader.u32()?;
                    reader.size()?;
                    reader.u16()?;
                    reader.string()?;
                    reader.object()?;
                    reader.process()
                })();
                assert!(read.is_err(), "cut at {cut}");
            }
        }
    }
}

#[test]
fn numbers_have_the_known_bytes() {
    let bytes = |encoding, write: fn(&mut Writer) -> &mut Writer| {
        let mut writer = Writer::new(encoding);
        write(&mut writer);
        writer.finish()
    };
    assert_eq!(bytes(Encoding::V41, |w| w.i32(1)), [2]);
    assert_eq!(bytes(Encoding::V41, |w| w.i32(-46)), [91]);
    assert_eq!(bytes(Encoding::V41, |w| w.u32(u32::MAX)), [255, 255, 255, 255, 15]);
    assert_eq!(bytes(Encoding::V3, |w| w.i32(-46)), [255, 255, 255, 210]);
    assert_eq!(bytes(Encoding::V3, |w| w.size(5)), [0, 15, 0, 0, 0, 0, 0, 0, 0, 5]);
    assert_eq!(bytes(Encoding::V41, |w| w.size(usize::MAX)), [255; 9]);
}

#[test]
fn directives_of_all_types_are_passed_over() {
    for encoding in BOTH {
        let mut writer = Writer::new(encoding);
        let old = encoding == Encoding::V3;
        let mut info = |code: u16, value: &dyn Fn(&mut Writer) -> &mut Writer| {
            writer.string("k").u32(0).u16(code);
            value(&mut writer);
        };
        info(0, &|w| w);
        info(1, &|w| w.u8(0));
        info(3, &|w| w.string("x"));
        info(6, &|w| if old { w.u16(9).i32(30) } else { w.i32(30) });
        info(18, &|w| if old { w.raw(&[0; 16]) } else { w.i32(1).i32(2) });
        info(22, &|w| w.process("ns", 3));
        info(39, &|w| w.u16(14).size(2).u32(1).u32(2));
        info(46, &|w| w.string("A").string("b").u8(b':'));
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes, encoding);
        let mut values = Vec::new();
        while !reader.is_done() {
            values.push(reader.info().unwrap().value);
        }
        let other = Value::Other;
        let expected = [Value::None, Value::Bool(false), Value::Str(b"x"), Value::Number(30)];
        assert_eq!(values[..4], expected);
        assert_eq!(values[4..], [other; 4]);
    }
}

#[test]
fn a_list_that_lies_about_its_length_is_refused() {
    for encoding in BOTH {
        let mut writer = Writer::new(encoding);
        writer.pack(1).size(1 << 40).pack(usize::MAX);
        let bytes = writer.finish();
        let read = Reader::new(&bytes, encoding).list(Reader::info);
        assert_eq!(read, Err(WireError::Truncated));
    }
}

#[test]
fn endless_nesting_is_refused() {
    let mut writer = Writer::new(Encoding::V41);
    writer.string("k").u32(0).u16(types::DATA_ARRAY);
    for _ in 0..10_000 {
        writer.u16(types::DATA_ARRAY).size(1);
    }
    let bytes = writer.finish();
    assert_eq!(Reader::new(&bytes, Encoding::V41).info(), Err(WireError::Depth));
}
