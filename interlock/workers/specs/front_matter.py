"""Parts Markdown into its front matter, which is YAML between two lines of dashes, and its text."""

from __future__ import annotations

from interlock.workers.specs.node import UnreadableError, place_of

LENGTH_MAX = 64 * 1024
_FENCE = "---"


def split(text: str) -> tuple[str, str]:
    """Return the front matter, after as many empty lines as come before it, and the body.

    Each line ends with a newline alone. Raises UnreadableError.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        place = place_of(text, text.index("\0"))
        raise UnreadableError(*place, "it has a NUL character; take it out")
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return "", text
    for number, line in enumerate(lines[1:], start=2):
        if line.rstrip() == _FENCE:
            front, body = "\n".join(["", *lines[1 : number - 1]]), "\n".join(lines[number:])
            if len(front) > LENGTH_MAX:
                problem = f"the front matter is longer than {LENGTH_MAX} characters; shorten it"
                raise UnreadableError(2, 1, problem)
            return front, body
    problem = "the front matter is not closed; end it with a line of three dashes"
    raise UnreadableError(1, 1, problem)
