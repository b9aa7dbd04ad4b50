//! Java's properties: what is read, and that what is written reads back.

use proptest::prelude::*;

use crate::config::{Decimal, PropertiesError, parse_properties, render_property};

fn read(text: &str) -> Vec<(String, String)> {
    parse_properties(text).unwrap()
}

#[test]
fn separators_comments_and_continuations_are_those_of_java() {
    let cases: &[(&str, &str, &str)] = &[
        ("key=value", "key", "value"),
        ("key:value", "key", "value"),
        ("key value", "key", "value"),
        ("  key  =  value  ", "key", "value  "),
        ("key\t:\tvalue", "key", "value"),
        ("key==value", "key", "=value"),
        ("key = : value", "key", ": value"),
        ("key", "key", ""),
        ("key=", "key", ""),
        ("=value", "", "value"),
        ("a\\ b\\=c\\:d=e", "a b=c:d", "e"),
        ("key=one,\\\n    two,\\\r\n\tthree", "key", "one,two,three"),
        ("key=ends\\", "key", "ends"),
        ("key=even\\\\", "key", "even\\"),
        ("key=\\t\\n\\r\\f\\q\\u0041", "key", "\t\n\r\u{c}qA"),
        ("key=\\ud83d\\ude00", "key", "\u{1f600}"),
        ("key=\\ud83d", "key", "\u{fffd}"),
        ("key=a#b!c", "key", "a#b!c"),
        ("# no\n! no\n\n   # no\nkey=value\n", "key", "value"),
        ("key=a\\\n# not a comment", "key", "a# not a comment"),
        ("\u{c}key=value", "key", "value"),
    ];
    for (text, key, value) in cases {
        assert_eq!(read(text), [((*key).to_owned(), (*value).to_owned())], "{text:?}");
    }
}

#[test]
fn pairs_come_in_order_and_as_often_as_they_stand() {
    let keys: Vec<String> = read("b=1\na=2\rb=3").into_iter().map(|pair| pair.0).collect();
    assert_eq!(keys, ["b", "a", "b"]);
}

#[test]
fn a_unicode_escape_without_four_digits_names_its_line() {
    assert_eq!(
        parse_properties("a=b\nc=d\\\n\\u00g0"),
        Err(PropertiesError { line: 2 })
    );
    assert_eq!(parse_properties("a=\\u+123"), Err(PropertiesError { line: 1 }));
}

#[test]
fn decimals_are_compared_by_size_and_printed_as_java_prints_them() {
    let ascending = [
        "-1e3",
        "-0.5",
        "0",
        "1E-5",
        "0.001",
        "0.5",
        ".50001",
        "1",
        "9.99",
        "10",
        "1e7",
        "1.7976931348623157E308",
    ];
    for pair in ascending.windows(2) {
        assert!(
            Decimal::parse(pair[0]).unwrap() < Decimal::parse(pair[1]).unwrap(),
            "{pair:?}"
        );
    }
    let printed = [
        ("0.50", "0.5"),
        ("1", "1.0"),
        ("-0", "0.0"),
        ("123.4560", "123.456"),
        ("0.001", "0.001"),
        ("0.0001", "1.0E-4"),
        ("9999999", "9999999.0"),
        ("12345678", "1.2345678E7"),
        ("1.7976931348623157E308", "1.7976931348623157E308"),
    ];
    for (text, java) in printed {
        assert_eq!(Decimal::parse(text).unwrap().text(), java);
    }
    for text in [
        "", ".", "-", "1e", "e5", "1.2.3", "NaN", "Infinity", "1e999", "0x10", "1 ",
    ] {
        assert_eq!(Decimal::parse(text), None, "{text:?}");
    }
}

proptest! {
    #[test]
    fn what_is_rendered_reads_back(key in any::<String>(), value in any::<String>()) {
        prop_assert_eq!(read(&render_property(&key, &value)), [(key, value)]);
    }

    #[test]
    fn many_rendered_pairs_read_back_in_order(given in proptest::collection::vec(("[a-z.]{1,8}", "[ -~]{0,12}"), 0..8)) {
        let text: String = given.iter().map(|(key, value)| render_property(key, value) + "\n").collect();
        prop_assert_eq!(read(&text), given);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = parse_properties(&text);
        let _ = Decimal::parse(&text);
    }

    #[test]
    fn a_decimal_reads_back_from_its_text(text in "-?[0-9]{1,9}(\\.[0-9]{0,9})?([eE]-?[0-9]{1,2})?") {
        let number = Decimal::parse(&text).unwrap();
        prop_assert_eq!(Decimal::parse(&number.text()), Some(number));
    }
}
