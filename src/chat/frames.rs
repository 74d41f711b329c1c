//! Our own frames in a text that a model wrote: it may have copied one, mark and all, and then nobody could tell it from
//! ours.

/// How every frame begins, and how it ends.
const OPENING: &str = "<agentspine-";
const CLOSING: &str = "</agentspine-";

/// The text without frames and what stands in them; a lone tag loses its bracket.
pub(super) fn without(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once(OPENING) {
        out.push_str(before);
        rest = after_frame(tag).unwrap_or_else(|| {
            out.push_str("(agentspine-");
            tag
        });
    }
    out.push_str(rest);
    out.replace(CLOSING, "(/agentspine-")
}

/// What follows the frame that this tag opens, where it is closed by the same name and mark.
fn after_frame(tag: &str) -> Option<&str> {
    let (name, inner) = tag.split_once('>')?;
    inner.split_once(&format!("{CLOSING}{name}>")).map(|(_, after)| after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_frame_goes_with_its_text_and_a_lone_tag_becomes_harmless() {
        let frame =
            "<agentspine-reference mark=\"ab\">\n[1] secret plan\n</agentspine-reference mark=\"ab\">";
        assert_eq!(without(&format!("a {frame} b")), "a  b");
        assert_eq!(without("a <agentspine-x b </agentspine-y"), "a (agentspine-x b (/agentspine-y");
        assert_eq!(without("plain < text"), "plain < text");
    }
}
