use super::*;

#[test]
fn names_keep_their_numbers_and_are_bounded() {
    let labels = Labels::default();
    let txn_type = |name: &[u8]| labels.txn_type(name, || false);
    assert_eq!(txn_type(b"checkout"), Ok(1));
    assert_eq!((txn_type(b"browse"), txn_type(b"checkout")), (Ok(2), Ok(1)));
    let vertex = |txn_type, name: &[u8]| labels.vertex(txn_type, name, || false);
    assert_eq!((vertex(1, b"cart"), vertex(1, b"pay")), (Ok(1), Ok(2)));
    assert_eq!((vertex(2, b"pay"), vertex(1, b"pay")), (Ok(1), Ok(2)));
    assert_eq!(labels.vertices(2), [(2, 1, b"pay".as_slice().into())]);
    assert!(vertex(0, &[0; LABEL_BYTES_MAX + 1]).is_err());
    for n in labels.txn_types(1).len()..TXN_TYPES_MAX {
        txn_type(n.to_string().as_bytes()).unwrap();
    }
    // Nobody can use them up: the one goes that was asked for longest ago and has no graph.
    assert_eq!(labels.graphed_type(b"checkout"), Ok(1));
    assert_eq!(labels.txn_type(b"one more", || true), Ok(0));
    assert_eq!((txn_type(b"browse"), vertex(3, b"step")), (Ok(2), Ok(1)));
    assert_eq!((txn_type(b"one more"), txn_type(b"one more")), (Ok(3), Ok(3)));
    assert!(labels.vertices(0).iter().all(|(of, ..)| *of != 3), "its steps are not those of the type before");
    assert!(labels.graphed_type(b"another").is_err());
}

/// One client makes up names of steps, in one type or in two. Others keep theirs, and have new ones.
#[test]
fn one_client_does_not_use_up_the_names_of_steps() {
    let made_up = |types: u16| {
        let labels = Labels::default();
        let vertex = |txn_type, name: &[u8]| labels.vertex(txn_type, name, || false);
        let number = labels.graphed_type(b"checkout").unwrap();
        assert_eq!((number, vertex(1, b"cart"), vertex(2, b"look"), vertex(2, b"leave")), (1, Ok(1), Ok(1), Ok(2)));
        for n in 0..2 * VERTICES_MAX {
            vertex(3 + n as u16 % types, n.to_string().as_bytes())?;
            assert!(n % 1000 > 0 || labels.vertices(0).len() <= VERTICES_MAX);
        }
        assert_eq!((vertex(1, b"cart"), vertex(2, b"leave"), vertex(2, b"come")), (Ok(1), Ok(2), Ok(3)));
        Ok::<_, Reply>(labels)
    };
    for types in 1..3 {
        let labels = made_up(types).unwrap();
        let free = VERTICES_MAX - labels.vertices(0).len();
        (0..free).for_each(|n| _ = labels.vertex(1, n.to_string().as_bytes(), || true).unwrap());
        assert_eq!(labels.vertex(4, b"new", || true), Ok(0), "a trace is written");
        assert!(labels.vertex(4, b"new", || false).unwrap() > 0);
    }
    let _fault = mutation::put_back(Some(Fault::StepsUsedUp));
    assert!(made_up(1).is_err(), "the fault is found");
}

fn args(text: &'static str) -> impl Iterator<Item = &'static [u8]> {
    text.split_whitespace().map(str::as_bytes)
}

#[test]
fn the_same_values_of_the_same_schema_have_the_same_number() {
    let labels = Labels::default();
    let shop = labels.hint_schema(1, b"shop", args("table op")).unwrap();
    assert_eq!(labels.hint_schema(1, b"shop", args("table op")), Ok(shop));
    assert!(labels.hint_schema(1, b"shop", args("table")).is_err());
    let other = labels.hint_schema(1, b"other", args("table op")).unwrap();
    let set = labels.hint_set(1, shop, args("orders read")).unwrap();
    assert_eq!((set, labels.hint_set(1, shop, args("orders read"))), (HintSet(1), Ok(set)));
    assert_eq!(labels.hint_set(1, other, args("orders read")), Ok(HintSet(2)));
    assert!(labels.hint_set(1, shop, args("orders")).is_err());
    assert!(labels.hint_set(1, 9, args("orders read")).is_err());
    assert_eq!((labels.hint_schemas(2).len(), labels.hint_sets(2).len(), labels.hints_len()), (1, 1, (2, 2)));
}

#[test]
fn values_of_a_type_are_bounded_and_sets_have_a_meaning() {
    let labels = Labels::default();
    let schema = labels.hint_schema(1, b"s", args("user kind")).unwrap();
    for user in 0..HINT_VALUES_MAX / 2 {
        labels.hint_set(1, schema, [user.to_string().as_bytes(), b"k"].into_iter()).unwrap();
    }
    let one_more = [b"one more".as_slice(), b"k"];
    let refused = Reply::error(format!("LIMIT hint_values_max {HINT_VALUES_MAX}"));
    assert_eq!(labels.hint_set(1, schema, one_more.into_iter()), Err(refused));
    labels.hint_set(2, schema, one_more.into_iter()).unwrap();
    let known = labels.hint_set(1, schema, [b"7".as_slice(), b"another kind"].into_iter()).unwrap();
    let meaning = labels.hint_meaning(known).unwrap();
    assert_eq!((meaning.schema, &*meaning.types[1], &*meaning.values[1]), (schema, &b"kind"[..], &b"another kind"[..]));
    assert_eq!((labels.hint_meaning(HintSet(0)), labels.hints_refused()), (None, 1));
}

#[test]
fn hints_are_bounded() {
    let labels = Labels::default();
    assert!(labels.hint_schema(1, b"wide", std::iter::repeat_n(b"t".as_slice(), HINT_TYPES_MAX + 1)).is_err());
    let wide = labels.hint_schema(1, b"wide", std::iter::repeat_n(b"t".as_slice(), HINT_TYPES_MAX)).unwrap();
    let mut sets = 0;
    let error = loop {
        let mut value = [b'v'; LABEL_BYTES_MAX];
        value[..4].copy_from_slice(&u32::to_be_bytes(sets));
        let values = std::iter::repeat_n(value.as_slice(), HINT_TYPES_MAX);
        match labels.hint_set(1, wide, values) {
            Ok(_) => sets += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error, Reply::error(format!("LIMIT hint_bytes_max {HINT_BYTES_MAX}")));
    assert!(sets > 125);
    assert_eq!(labels.hints_refused(), 2);
}

/// One user makes up schemas, sets, values and ids until it is refused each: others have some. Its ids go with it.
#[test]
fn one_user_does_not_use_up_the_names_of_hints() {
    let labels = Labels::default();
    let shop = labels.hint_schema(1, b"shop", args("table")).unwrap();
    let until_refused = |take: &dyn Fn(&str) -> bool| {
        (0..usize::MAX).take_while(|n| take(&n.to_string())).count();
    };
    let named = |user, schema, id: &str, set| labels.name_hints((user, || true), schema, id.as_bytes(), set);
    until_refused(&|name| labels.hint_schema(2, name.as_bytes(), args("type")).is_ok());
    let own = labels.hint_schema(2, b"0", args("type")).unwrap();
    until_refused(&|value| labels.hint_set(2, shop, std::iter::once(value.as_bytes())).is_ok());
    until_refused(&|value| labels.hint_set(2, own, std::iter::once(value.as_bytes())).is_ok());
    let set = labels.hint_set(2, own, args("0")).unwrap();
    let before = lock(&labels.hints).bytes.taken();
    for schema in 1..HINT_SCHEMAS_MAX as u32 {
        until_refused(&|id| named(2, schema, id, set).is_ok());
    }
    assert!(labels.hint_set(2, shop, args("orders")).is_err() && named(2, shop, "one more", set).is_err());
    let orders = labels.hint_set(1, shop, args("orders")).unwrap();
    assert_eq!(named(1, shop, "7", orders), Ok(()));
    assert!(labels.hint_schema(3, b"another", args("table op")).is_ok());
    // It goes: so do its ids, with the bytes that they took, and its sets stay what they are.
    labels.forget_user(1);
    labels.forget_user(2);
    assert_eq!((labels.hints_named(2, own, b"0"), labels.hints_named(1, shop, b"7")), (None, None));
    assert!(lock(&labels.hints).bytes.taken() < before + 1024);
    assert_eq!((labels.hint_set(3, shop, args("orders")), labels.hint_set(3, own, args("0"))), (Ok(orders), Ok(set)));
    let gone = labels.name_hints((2, || false), own, b"0", set);
    assert!(gone.is_err() && labels.hints_named(2, own, b"0").is_none(), "it was removed meanwhile");
}
