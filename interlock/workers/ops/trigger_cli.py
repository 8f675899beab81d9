"""The commands about what moves a record: why it waits, its triggers, and another try."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from interlock.workers.ops import explained_page
from interlock.workers.ops.explained import explained
from interlock.workers.terminal.command import Actor, Id, Reason, Shell, guarded

Fields = Annotated[
    str, typer.Option("--payload", help="The fields of the trigger, as a JSON object.")
]


@guarded
def explain(
    shell: Shell,
    record_id: Id,
    trigger: Annotated[
        str,
        typer.Argument(
            help="A choice of its card, or a trigger. Default: say why the record waits.",
            show_default=False,
        ),
    ] = "",
    fields_json: Fields = "{}",
    name: Actor = "person",
) -> None:
    """Show why a record waits and what would move it, or what one trigger would do. Fires nothing.

    Without a trigger: what it waits for, since when and until when, and who may fire which trigger.
    """
    opened = shell.caller(name)
    if not trigger:
        value = explained(opened, record_id)
        shell.answer(value, show=explained_page.explained, now_ms=opened.now_ms())
        return
    payload = shell.json_object(fields_json, "--payload")
    found = opened.explain(record_id, trigger, payload)
    value = {"id": record_id, "answer": found.sentence, "accepted": bool(found.target)}
    shell.answer(value | asdict(found))


@guarded(actor="person")
def fire(
    shell: Shell,
    record_id: Id,
    trigger: Annotated[
        str,
        typer.Argument(
            help="A trigger of its machine. Default: list those that its state takes, and fire"
            " none.",
            show_default=False,
        ),
    ] = "",
    fields_json: Fields = "{}",
    version: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The version with which it entered the state that you saw. The trigger is refused"
            " if it has left that state; some triggers need this.",
        ),
    ] = None,
    reason: Reason = "",
) -> None:
    """Fire a trigger that the table lets a person or a program fire."""
    fields, opened = shell.json_object(fields_json, "--payload"), shell.caller()
    if not trigger:
        value = explained(opened, record_id)
        shell.answer(value, show=explained_page.triggers)
        raise typer.Exit(2)
    record = opened.fire_by_hand(record_id, trigger, fields, reason=reason, version=version)
    shell.answer_record(record)


@guarded(actor="person")
def retry(shell: Shell, record_id: Id, reason: Reason = "") -> None:
    """Let effects that failed, or were given up, try again now with new attempts.

    A record that has failed itself is opened again by a command of its own, such as `interlock task
    retry`: where no effect waits for another try, that command is named.
    """
    opened = shell.caller()
    status = opened.retry(record_id, reason=reason)
    if status == "nothing" and not shell.as_json:
        value = explained(opened, record_id)
        nothing = f"no effect of {record_id}, which is {value['state']}, waits for another attempt"
        shell.fail(f"{nothing}{explained_page.instead(value)}", kind="")
    shell.answer_flag(record_id, status)
