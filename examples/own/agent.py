"""An agent: asks a model, uses tools, asks a person before a dangerous one, takes mail."""

from typing import Any, Literal

from model import TOOLS, ask_for_tool

from interlock import Because, Budget, Data, Inbox, Log, Work, Workflow

DANGEROUS = {"delete_files"}


class Mail(Data):
    text: str


class Agent(Data):
    goal: str
    messages: Log[dict[str, Any]] = []
    mail: Inbox[str] = []
    tool: str = ""
    arguments: dict[str, Any] = {}
    reason: str = ""


agent = Workflow("assistant", Agent, start="think", budget=Budget(tokens=20_000, over="spent"))


@agent.step
def think(a: Agent, work: Work) -> Literal["consent", "act", "done"]:
    if a.reason:
        a.messages.append({"role": "tool", "output": f"a person refused: {a.reason}"})
    a.messages += [{"role": "mail", "text": text} for text in a.mail]
    a.mail, a.reason = [], ""
    work.reserve(tokens=100)
    reply = work.saved("reply", ask_for_tool, a.goal, a.messages)
    work.spend(tokens=reply.pop("tokens"))
    a.messages.append({"role": "model", **reply})
    a.tool, a.arguments = reply.get("tool", ""), reply.get("arguments", {})
    if not a.tool:
        return "done"
    return "consent" if a.tool in DANGEROUS else "act"


agent.ask("consent", "May it call {tool}({arguments})?", approve="act", refuse=("think", Because))


@agent.step
def act(a: Agent, work: Work) -> Literal["think"]:
    output = work.once(a.tool, TOOLS[a.tool], **a.arguments)
    a.messages.append({"role": "tool", "output": output})
    return "think"


@agent.on("tell")
def tell(a: Agent, mail: Mail) -> None:
    a.mail.append(mail.text)


agent.ends(done=True, spent=False)
