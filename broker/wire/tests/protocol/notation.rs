//! The notation of the schema files: what it means, and that mistakes are found with their line.

use crate::schema::{Item, Versions, parse};

/// An API whose request has the given fields.
fn with(fields: &str) -> Result<Vec<crate::schema::Field>, String> {
    let text =
        format!("api Test 1\nrequest 2-9 flexible 5\n{fields}\nresponse 2-9 flexible 5\n  errorCode error\n");
    parse(&text).map(|api| api.request.fields)
}

#[test]
fn a_field_has_versions_null_tag_and_default() {
    let fields = with("  plain int32\n  all []string?7+ 5-8 tag 3 = null # why\n").unwrap();

    assert_eq!(fields[0].versions, Versions { first: 2, last: 9 });
    assert_eq!(
        (fields[0].nullable, fields[0].tag, fields[0].default.as_deref()),
        (None, None, None)
    );
    let all = &fields[1];
    assert_eq!((all.array, &all.item, all.tag), (true, &Item::String, Some(3)));
    assert_eq!(all.versions, Versions { first: 5, last: 8 });
    assert_eq!(all.nullable, Some(Versions { first: 7, last: 9 }));
    assert_eq!(all.default.as_deref(), Some("null"));
}

#[test]
fn a_struct_is_defined_where_it_is_used_first() {
    let text = "  a []Inner\n    x int8\n  b Inner?";
    assert_eq!(with(text).unwrap().len(), 2);
    let twice = with("  a Inner\n    x int8\n  b Inner\n    x int8").unwrap_err();
    assert_eq!(
        twice,
        "line 5: Inner must be defined exactly once, where it is used first"
    );
    let never = with("  a Inner").unwrap_err();
    assert_eq!(
        never,
        "line 3: Inner must be defined exactly once, where it is used first"
    );
}

#[test]
fn a_mistake_is_named_with_its_line() {
    assert_eq!(
        with("  a").unwrap_err(),
        "line 3: a field is `name type [versions] [tag N] [= default]`"
    );
    assert_eq!(with("  a int33").unwrap_err(), "line 3: `int33` is no type");
    assert_eq!(
        with("  a int32 3+ always").unwrap_err(),
        "line 3: what is `always`?"
    );
    assert_eq!(
        with("  a int32 3+5").unwrap_err(),
        "line 3: `3+5` is not a number that fits"
    );
    assert_eq!(
        with("  a int32\n    b int8").unwrap_err(),
        "line 4: indented too far"
    );
    assert_eq!(
        parse("api X").unwrap_err(),
        "line 1: the first line is `api NAME NUMBER`"
    );
    assert_eq!(parse("api X 1").unwrap_err(), "no request");
    let head = parse("api X 1\nanswer 0").unwrap_err();
    assert_eq!(head, "line 2: expected `request VERSIONS [flexible VERSION]`");
    let more = parse("api X 1\nrequest 0\nresponse 0\nmore 0").unwrap_err();
    assert_eq!(more, "line 4: nothing may follow the response");
}
