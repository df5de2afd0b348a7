//! What append and replace do to the messages, and what they refuse.

use expect_test::expect;

use super::sample::*;
use crate::*;

/// 0 system, 1 user, 2 answer with two calls, 3 and 4 their results, 5 answer, 6 user.
fn history() -> Session {
    session([
        system("s"),
        user("u"),
        calls("a", &["c1", "c2"]),
        result("c1", "r1"),
        result("c2", "r2"),
        answer("b"),
        user("v"),
    ])
}

#[test]
fn messages_stand_in_the_order_of_their_events() {
    let mut session = history();
    append(&mut session, turn_start(1)).unwrap();
    assert_eq!(
        surface(&session),
        ["system:s", "user:u", "answer:a", "result:c1:r1", "result:c2:r2", "answer:b", "user:v"]
    );
}

#[test]
fn a_projection_is_frozen() {
    let mut session = session([system("s"), user("u")]);
    let before = session.projection();
    append(&mut session, user("v")).unwrap();
    assert_eq!(before.messages().count(), 2);
    assert_eq!(session.projection().messages().count(), 3);
}

#[test]
fn a_replacement_stands_where_the_covered_nodes_stood() {
    let mut session = history();
    append(&mut session, replacing(user("summary"), &[1, 2, 3, 4, 5])).unwrap();
    assert_eq!(surface(&session), ["system:s", "user:summary", "user:v"]);
    // Its node is now in the middle although its position in the log is the last.
    append(&mut session, replacing(user("again"), &[7, 6])).unwrap();
    append(&mut session, replacing(system("t"), &[0])).unwrap();
    assert_eq!(surface(&session), ["system:t", "user:again"]);
    assert_eq!(session.events().len(), 10);
}

#[test]
fn a_result_may_change_its_content_only() {
    let mut session = history();
    append(&mut session, replacing(result("c1", "cut"), &[3])).unwrap();
    assert_eq!(surface(&session)[3], "result:c1:cut");
    let failed = ToolResult { error: Some(ToolErrorCode::Failed), ..tool_result("c1", "x") };
    let renamed = ToolResult { name: "write".into(), ..tool_result("c1", "x") };
    for draft in [Draft::new(failed), Draft::new(renamed), result("c2", "x")] {
        let said = refusal(&session, replacing(draft, &[7]));
        assert_eq!(said, "surface: of a tool result only the content may change");
    }
}

#[test]
fn what_does_not_fit_the_surface_is_refused() {
    let session = history();
    let off_surface = Draft { surface: None, ..user("x") };
    let on_surface = Draft { surface: Some(SurfaceOp::Append), ..turn_start(1) };
    let unnamed = Draft {
        surface: Some(SurfaceOp::Replace { first: Seq(5), last: Seq(6), covers: vec![Seq(5)] }),
        ..user("x")
    };
    let drafts = [
        off_surface,
        on_surface,
        unnamed,
        system("second"),
        replacing(user("x"), &[9]),
        replacing(user("x"), &[1, 9]),
        replacing(user("x"), &[6, 5]),
        replacing(user("x"), &[0]),
        replacing(user("x"), &[0, 1]),
        replacing(system("x"), &[1]),
        replacing(system("x"), &[0, 1]),
        replacing(answer("x"), &[5]),
        replacing(result("c1", "x"), &[3, 4]),
        replacing(result("c1", "x"), &[1]),
        replacing(user("x"), &[2]),
        replacing(user("x"), &[1, 2, 3]),
        replacing(user("x"), &[3]),
        replacing(user("x"), &[4, 5]),
    ];
    let said: Vec<_> = drafts.into_iter().map(|draft| refusal(&session, draft)).collect();
    expect![[r#"
        surface: a message must be on the surface
        surface: only a message can be on the surface
        surface: the covered nodes are not named exactly
        surface: the system message is the first node; a later one replaces it
        surface: the first node to replace is not on the surface
        surface: the last node to replace is not on the surface
        surface: the nodes to replace are in the wrong order
        surface: the system message is replaced only by another one
        surface: the system message is replaced only by another one
        surface: a system message replaces the system message
        surface: a system message replaces the system message
        surface: an answer is never put in another's place
        surface: a tool result replaces only its earlier form
        surface: a tool result replaces only its earlier form
        surface: a tool call and its result cannot be separated
        surface: a tool call and its result cannot be separated
        surface: a tool call and its result cannot be separated
        surface: a tool call and its result cannot be separated"#]]
    .assert_eq(&said.join("\n"));
}

#[test]
fn an_unknown_event_is_never_on_the_surface() {
    let line = r#"{"seq":0,"time":0,"type":"x/y","data":1,"surface_op":"append","ignorable":true}"#;
    let event = Event::from_line(line).unwrap();
    let error = Session::replay(header(), [event]).unwrap_err();
    assert_eq!(error.to_string(), "event 0: surface: only a message can be on the surface");
}

/// How many pointers to events there are: each copy of a list adds one for each of its nodes.
fn pointers(session: &Session) -> usize {
    session.events().iter().map(std::sync::Arc::strong_count).sum()
}

#[test]
fn an_append_beside_a_projection_does_not_copy_the_list() {
    let mut session = session((0..10_000).map(|n| user(&format!("{n}"))));
    let mut copied = Vec::new();
    for _ in 0..200 {
        let (before, count) = (session.projection(), pointers(&session));
        append(&mut session, user("u")).unwrap();
        // The log and the surface hold the new event; whatever else is new is a copy.
        copied.push(pointers(&session) - count - 2);
        drop(before);
    }
    let (all, most) = (copied.iter().sum::<usize>(), copied.iter().max().unwrap());
    println!("200 appends to 10000 nodes copied {all} pointers, the worst of them {most}");
    assert!(*most < 64, "{copied:?}");
}

#[test]
fn nodes_are_replaced_anywhere_in_a_long_list() {
    let mut session = session((0..200).map(|n| user(&format!("{n}"))));
    let mut expected: Vec<String> = (0..200).map(|n| format!("user:{n}")).collect();
    for (place, len) in [(0, 1), (63, 2), (64, 1), (150, 48), (10, 120), (0, 1), (1, 30)] {
        let seqs: Vec<u64> = session.projection().entries().map(|(seq, _)| seq.0).collect();
        append(&mut session, replacing(user("new"), &seqs[place..place + len])).unwrap();
        expected.splice(place..place + len, ["user:new".to_owned()]);
        assert_eq!(surface(&session), expected);
        let backwards =
            session.projection().entries().rev().map(|(seq, _)| seq).collect::<Vec<_>>();
        let forwards = session.projection().entries().map(|(seq, _)| seq).collect::<Vec<_>>();
        assert_eq!(backwards.into_iter().rev().collect::<Vec<_>>(), forwards);
    }
}
