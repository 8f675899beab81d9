"""What people see of translations: their text, what is beside a card, the page of the console."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from interlock import Client
from interlock.system import pages
from interlock.system.tables import Record
from translating.table import OPEN, TranslationData


def listing(rows: Sequence[dict[str, Any]]) -> Iterator[pages.Part]:
    """Yield the table that `interlock translation list` prints."""
    yield pages.Table(("Translation", "Title", "State", "Since"), [cells(row) for row in rows])


def cells(row: dict[str, Any]) -> list[object]:
    state = pages.StateName("translation", row["state"])
    return [pages.Link(row["id"]), row["title"], state, pages.Time(row["since_ms"])]


def details(data: TranslationData) -> Iterator[pages.Part]:
    """Yield the glossary of a translation and its text."""
    yield pages.Sentence(f"{data['source']} to {data['language']}, attempt {data['attempt']}")
    terms = [(each["term"], each["translation"]) for each in data["glossary"]]
    yield pages.Table(("Term", "Translation"), terms, empty="The glossary is empty.")
    if text := data.get("translated"):
        yield pages.Verbatim(text, "The translation")
    if remark := data.get("remark"):
        yield pages.Sentence(remark)


def evidence(_: Client, record: Record[TranslationData]) -> Iterator[pages.Section]:
    """Yield what the console shows beside the card."""
    yield pages.Section("Glossary and translation", list(details(record.data)), place="wide")


def panel(_: Client, record: Record[TranslationData]) -> list[pages.Section]:
    """Show on the page of a translation what its agent prints and changes."""
    printed, changed = pages.LivePart("output", record), pages.LivePart("diff", record)
    return [pages.Section("Its agent printed", [printed]), pages.Section("It changed", [changed])]


def view(client: Client, _: Mapping[str, str]) -> list[pages.Section]:
    """Show the translations that go on, each with a button that cancels it."""
    rows = [
        [*cells(asdict(row)), pages.Button("cancel", "Cancel", {"translation": row.id})]
        for row in client.list(machine="translation")
        if row.state in OPEN
    ]
    columns = ("Translation", "Title", "State", "Since", "Do")
    return [pages.Section("Open", [pages.Table(columns, rows, empty="None is open.")])]


def cancel(client: Client, fields: Mapping[str, str]) -> pages.Link:
    client.cancel(fields["translation"])
    return pages.Link(fields["translation"])


PAGE = pages.SystemPage(
    title="Translations",
    question="Which translations are open?",
    machines=["translation"],
    view=view,
    panels={"translation": panel},
    acts={"cancel": pages.PageAct("operate", cancel)},
)
