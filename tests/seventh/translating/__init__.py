"""Translations in a git repository: an agent translates, a model reads, a person accepts."""

import interlock as il

SYSTEM = il.System(
    name="translating",
    machines={"translation": "translating.table:MACHINE"},
    effects="translating.agent",
    resources=("interlock.system.models:open_model",),
    sweeps="translating.sweeps",
    settings="translating.settings:TranslationSettings",
    commands=(il.CommandRow("translation", "translating.cli:app", il.Panel.WORK, "Translations."),),
    page="translating.page:PAGE",
    evidence={"translation": "translating.page:evidence"},
    outputs={"translation": "translating.agent:output"},
    diffs={"translation": "translating.agent:DIFF"},
    counted=("translation",),
    shown=("title", "language", "attempt", "reason", "error"),
    asked={"translation": ("title", "source", "language")},
    came={"translation": ("translated",)},
    folders=("translations",),
)
