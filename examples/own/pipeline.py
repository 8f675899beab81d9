"""A document: split into chunks, each summarised within one budget of tokens, then joined."""

from typing import Literal

from model import ask_model

from interlock import Budget, Data, Work, Workflow


class Chunk(Data):
    text: str
    summary: str = ""


class Document(Data):
    text: str
    tokens: int = 10_000
    chunks: list[Chunk] = []
    skipped: int = 0
    summary: str = ""


document = Workflow("document", Document, budget=Budget(tokens=lambda d: d.tokens))


@document.step
def split(d: Document) -> Literal["summarise"]:
    d.chunks = [Chunk(text=part) for part in d.text.split("\n\n")]
    return "summarise"


@document.each("chunks", then="join", on_failure="skip")
def summarise(chunk: Chunk, work: Work) -> None:
    work.reserve(tokens=100)
    chunk.summary, used = ask_model(chunk.text)
    work.spend(tokens=used)


@document.step
def join(d: Document, work: Work) -> Literal["done"]:
    chunks = work.results(summarise)
    d.skipped = chunks.count(None)
    d.summary = " ".join(chunk.summary for chunk in chunks if chunk)
    return "done"


document.ends(done=True)
