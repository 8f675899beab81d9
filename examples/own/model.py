"""A model and tools that need no network, for the pipeline and the agent of this folder."""

from typing import Any


def ask_model(text: str) -> tuple[str, int]:
    """Return the first words of a text as its summary, and the tokens that were used."""
    words = text.split()
    return " ".join(words[:8]), len(words)


def ask_for_tool(goal: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the model wants next: a tool with its arguments, or a text as its last word."""
    done = [message["tool"] for message in messages if message["role"] == "model"]
    refused = any("a person refused" in str(message.get("output")) for message in messages)
    if "look_around" not in done:
        return {"tool": "look_around", "arguments": {"place": "tray"}, "tokens": 40}
    if "delete" in goal and "delete_files" not in done and not refused:
        return {"tool": "delete_files", "arguments": {"place": "tray"}, "tokens": 40}
    read = sum(message["role"] == "mail" for message in messages)
    return {"tool": "", "text": f"done, with {read} letters read", "tokens": 20}


def look_around(place: str) -> str:
    """Return what is in a place."""
    return f"two files are in the {place}"


def delete_files(place: str) -> str:
    """Pretend to delete files."""
    return f"the {place} is empty"


TOOLS = {"look_around": look_around, "delete_files": delete_files}
