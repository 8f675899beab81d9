"""The tables of English words by which a request is read, and the way a text becomes words."""

from __future__ import annotations

import re
from collections.abc import Collection

# A word may hold an apostrophe, a hyphen or a dot: "mum's", "heat-pump", "10482.6".
WORD = re.compile(r"[^\W_]+(?:['\u2019.\-][^\W_]+)*")
_ENDINGS = ("ies", "ing", "ed", "es", "s", "e")
_STEM_MIN = 3

_FUNCTION_WORDS = """
a about also am an and another are as at be been being belong belongs by can could did do does
for from get go goes had has have he her here hers him his how i if in into is it its just let
me mine my now of off on one onto or our ours out over per say she should since so some such
than that the their them then there these they this those to too until up upon us via was we
were what when where which while who whom whose will with within would you your yours
"""
# Words by which people are polite or say that a request is a request.
_COURTESY_WORDS = """
afternoon anybody anyone asap best cheers dear do done enough evening everyone fine good
grateful greetings hello hey hi hurry kind kindly like love many maybe mean morning much need needed
needs new no ok okay please plenty pls plz possible possibly problem quite rather really regards
rush somebody someone sorry thank thanks thx urgent urgently very want wants way welcome well
worries yeah yes
"""
# Verbs with which people begin an order, beside those of a catalog's examples.
_ACTION_VERBS = """
add apply archive arrange ask assemble bake bleed block book borrow bring build buy call cancel
change chase check choose clean clear close collect compare contact cook copy count create defrost
delete deliver descale donate download draft draw drop email empty enter extend feed fetch file
fill find finish fix follow forward get give go grease hand hang help hem hire hoover inform
install invite iron jot keep lend let list lock look mail make measure meet mend message mop move
mow nag note notify open order organise organize pack paint park pay pencil phone pick place plan
polish pop post prepare print prune publish put rake read record refill register remember remind
remove renew repair replace reply report request reschedule reserve return review ring rinse run
save scan schedule scrub sell send set sew sharpen ship shovel show sign soak sort stick store stow
straighten submit swap sweep take talk tell text throw tidy tighten transfer translate trim
tuck turn unblock unload unpack unplug update upload vacuum varnish visit warn wash water weed
weigh wipe withdraw wrap write
"""
# What a capability cannot do unless its own words say so: what undoes, changes, sends or answers.
_OTHER_DEEDS = """
alter amend answer approve book bump calculate call-off cancel change clear compare confirm
correct cross decline delay delete discard download draft drop edit email empty erase extend fax
find forward give hire inform invite let mail mark message move notify open order play post
postpone print publish push read reject remove rename rent reopen reply reschedule reserve reset
restore retrieve revert scratch search sell send set share shift shorten show strike subscribe
summarise summarize swap switch tell text tick transfer translate turn undo unfile unsubscribe
update upload wake wipe withdraw
"""
# What people do at an appointment; another verb says what is to be done with it.
MEETING_VERBS = frozenset({"call", "meet", "visit", "phone", "ring"})
# "In case" is no place.
_IDIOMS = "case order time total person advance future general fact full part particular short turn"
IDIOMS = frozenset(_IDIOMS.split())
# Verbs of one line are taken for one another.
ALIKE = (
    frozenset(
        {"put", "pop", "park", "stick", "place", "slot", "tuck", "stow", "store", "enter", "pencil"}
    ),
    frozenset({"make", "create", "prepare", "produce", "issue", "generate"}),
    frozenset({"write", "jot", "note", "take", "record", "log"}),
    frozenset({"keep", "save"}),
)
# "Note on the visit" and "call about the lease" name something, unlike "put on the lights".
ALSO_NOUNS = frozenset({"note", "log", "record", "report", "call", "visit", "order", "plan"})
# Where capabilities keep things: a title that names one is about it, and is not kept in it.
_STORES = "list lists to-do todo calendar diary agenda notes note task tasks reminder reminders"
# Words that say what is wanted of the one who is asked, and not what is to be done.
REMINDS = frozenset({"reminded", "nudge", "forget"})
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
COURTESY_WORDS = frozenset(_COURTESY_WORDS.split())
ACTION_VERBS = frozenset(_ACTION_VERBS.split())
OTHER_DEEDS = frozenset(_OTHER_DEEDS.split())
STORES = frozenset(_STORES.split())
MONTHS = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)


def words(text: str) -> list[str]:
    """Return the words of a text as they are written."""
    return WORD.findall(text)


def alike(verb: str) -> frozenset[str]:
    """Return a verb with those that mean the same."""
    return next((group for group in ALIKE if verb in group), frozenset({verb}))


def stem(word: str) -> str:
    """Return a word without its ending, so that "filed" and "files" are like "file"."""
    plain = word.lower().replace("\u2019", "'").removesuffix("'s").strip("'.-")
    for ending in _ENDINGS:
        if plain.endswith(ending) and len(plain) - len(ending) >= _STEM_MIN:
            plain = plain.removesuffix(ending)
            break
    # "stopped" and "stop", "bodies" and "body"
    if len(plain) > _STEM_MIN and plain[-1] == plain[-2]:
        plain = plain[:-1]
    return plain.removesuffix("y")


def stems(text: str) -> frozenset[str]:
    """Return the stems of a text's words."""
    return frozenset(map(stem, words(text)))


def content(text: str, *, explained: Collection[str] = ()) -> list[str]:
    """Return the words that say something and whose stems nothing has explained."""
    return [
        word
        for word in words(text)
        if (plain := word.lower().replace("\u2019", "'")) not in FUNCTION_WORDS
        and plain not in COURTESY_WORDS
        and plain.partition("'")[0] not in FUNCTION_WORDS
        and stem(word) not in explained
    ]
