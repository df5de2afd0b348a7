//! The bytes a signature covers: a value as it stood in the request, without cache breakpoints.

/// The secret of one server.
pub(crate) type Key = [u8; 32];

/// Removes every `cache_control` member, with its comma, and copies all other bytes as they are.
/// Members of a tool's `input` and `input_schema` are the tool's and stay. `json` is valid JSON.
pub(super) fn without_markers(json: &str) -> Vec<u8> {
    let bytes = json.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte != b'"' {
            out.push(*byte);
            at += 1;
            continue;
        }
        let end = string_end(bytes, at);
        let token = bytes.get(at..end).unwrap_or_default();
        let colon = skip_space(bytes, end);
        let is_key = bytes.get(colon) == Some(&b':');
        match token {
            b"\"cache_control\"" if is_key => at = drop_member(bytes, colon + 1, &mut out),
            b"\"input\"" | b"\"input_schema\"" if is_key => {
                let value = value_end(bytes, skip_space(bytes, colon + 1));
                out.extend_from_slice(bytes.get(at..value).unwrap_or_default());
                at = value;
            }
            _ => {
                out.extend_from_slice(token);
                at = end;
            }
        }
    }
    out
}

/// Skips the value after a dropped key and the comma behind it; for a last member takes back the
/// comma before it. Returns where to go on.
fn drop_member(bytes: &[u8], colon_end: usize, out: &mut Vec<u8>) -> usize {
    let end = skip_space(bytes, value_end(bytes, skip_space(bytes, colon_end)));
    if bytes.get(end) == Some(&b',') {
        return skip_space(bytes, end + 1);
    }
    let kept = out.trim_ascii_end();
    let kept = kept.strip_suffix(b",").unwrap_or(kept).len();
    out.truncate(kept);
    end
}

fn skip_space(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// The end of the string whose opening quote is at `from`.
fn string_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of the value that begins at `from`.
fn value_end(bytes: &[u8], from: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = from;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(bytes, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' if depth == 1 => return at + 1,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::without_markers;

    fn check(json: &str, expected: &str) {
        assert_eq!(String::from_utf8(without_markers(json)).unwrap(), expected, "of {json}");
    }

    #[test]
    fn a_marker_goes_with_its_comma_and_everything_else_stays() {
        check(r#"{"a":1,"cache_control":{"type":"ephemeral"}}"#, r#"{"a":1}"#);
        check(r#"{"a": 1, "cache_control" : {"ttl": "1h"}, "b": "x"}"#, r#"{"a": 1, "b": "x"}"#);
        check(r#"{"cache_control":null,"b":2}"#, r#"{"b":2}"#);
        check(r#"{"cache_control":{}}"#, "{}");
        check(
            r#"[{"t":"\"cache_control\":{}"}, 1.0e3]"#,
            r#"[{"t":"\"cache_control\":{}"}, 1.0e3]"#,
        );
        check(r#"{"v":"cache_control","b":2}"#, r#"{"v":"cache_control","b":2}"#);
    }

    #[test]
    fn a_tools_own_members_stay() {
        let json = r#"{"input":{"cache_control":{"a":[1]}},"cache_control":{}}"#;
        check(json, r#"{"input":{"cache_control":{"a":[1]}}}"#);
    }
}
