//! The skills that are part of the program.

/// One of them.
pub(super) struct Bundled {
    pub(super) name: &'static str,
    /// Its SKILL.md.
    pub(super) text: &'static str,
}

/// All.
pub(super) const BUNDLED: [Bundled; 2] = [
    Bundled { name: "configure-bridle", text: include_str!("bundled/configure-bridle.md") },
    Bundled { name: "write-a-skill", text: include_str!("bundled/write-a-skill.md") },
];

#[cfg(test)]
mod tests {
    use super::super::front_matter::{FrontMatter, is_name};
    use super::*;

    #[test]
    fn each_is_a_skill_of_its_name() {
        for Bundled { name, text } in BUNDLED {
            let said = FrontMatter::read(text).unwrap();
            assert_eq!(said.name.as_deref(), Some(name));
            assert!(is_name(name) && said.description.len() <= 200, "{name}");
        }
    }
}
