"""What the release notes example makes of a commit's words: Markdown that shows exactly them."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.examples.release_notes_chain import modules_of_steps

prose = modules_of_steps()["prose"]
first_block, markdown = prose.first_block, prose.markdown
LINE = st.text(
    st.sampled_from("ab1 _*<>[]()!#&;-+=.~\\`'\"/:|$%ü")
    | st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    max_size=60,
)


@given(LINE)
@example("- x")
@example("1. x")
@example("# x")
@example("> x")
@example("---")
@example("see!`a/b`")
@example("**a_b** _a_ [x](y) <b> &amp; a_b/1, https://x.example/a_b?c=*d*. `*` ~~x~~")
def test_markdown_shows_exactly_the_words_of_a_commit(text: str) -> None:
    paths = {"a/b", "a.b", "a_b/1"}
    written = markdown(text, paths=paths, is_commit=lambda _: False)

    for whole in (f"- {written}", f"- **x** (y)\n\n  {written}"):
        tokens = MarkdownIt("commonmark").parse(whole)
        parts = [part for token in tokens for part in token.children or []]
        kinds = [token.type.removesuffix("_open") for token in tokens if token.nesting >= 0]
        assert kinds.count("list_item") == 1
        assert set(kinds) <= {"bullet_list", "list_item", "paragraph", "inline"}
        assert not any(part.type == "image" for part in parts)
        links = [str(part.attrs["href"]) for part in parts if part.type == "link_open"]
        assert all(link.rstrip("/") in paths or link.startswith("http") for link in links)
        shown = "".join(part.content for part in parts).removeprefix("x (y)")
        assert squeezed(shown) == squeezed(text)


def squeezed(text: str) -> str:
    """Return a text without blanks and ticks, which Markdown and commits use differently."""
    return "".join(text.replace("`", "").split())


def test_of_a_long_message_its_first_block_is_told_without_trailers() -> None:
    body = "## Why\n\nThis is\nwhy:\n- one\n  more\n* two\nReviewed-by: Ann\n\nNot told."

    assert first_block(body) == ("This is why:", ["one more", "two"])
    assert first_block("Signed-off-by: Ann") == ("", [])
    assert first_block("It is so. " * 80)[0].endswith("It is so.")
