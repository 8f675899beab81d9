"""The English phrases by which a request says that it is not simply to be done."""

from __future__ import annotations

import re

from interlock.systems.threads.inference.reading.courtesy import POLITE_IF
from interlock.systems.threads.inference.reading.words import ACTION_VERBS

# These hold a negation or a condition, and take nothing back.
HARMLESS = re.compile(
    r"\b(?:do not|don't|dont|never|mustn't|must not|shouldn't|can't|cannot|let's not|lets not)"
    r" (?:let (?:me|us) )?forget\b"
    r"|\b(?:don't|do not) want to (?:forget|lose)\b"
    r"|\b(?:wanted|needed|required)\b(?=\W*$)"
    r"|\b(?:not|nothing|isn't) (?:that |so |very )?urgent"
    r"|\bnothing (?:more |left |else )?to (?:do|sign|pay|answer|add|see|worry)\b[^.;]*"
    r"|\b(?:i|we) (?:no longer|don't|do not) need \w+(?: any ?more)?"
    r" (?:on (?:my|the|our) desk|in the tray)"
    r"|\bno (?:hurry|rush|worries|problem)\b|\bwhy not\b|\bnot (?:only|least)\b|\bwithout fail\b"
    r"|\bbefore (?:i|we) (?:forget|lose)\b"
    rf"|{POLITE_IF}"
    r"|\bif not\b.*|\bnot (?:more|less|fewer)\b|\bno (?:more|less|fewer) than\b"
    r"|\bor not\b|\b(?:no|not) later than\b|\bcan't wait\b"
    r"|\b(?:so that|so nobody|so no one|because|since|otherwise|in order)\b.*",
    re.IGNORECASE,
)
# "Do not write that down in the notes" is no heading of a note.
FORBIDS = re.compile(
    r"\W*(?:please )?(?:do not|don't|dont|never|no need|stop|avoid)\b", re.IGNORECASE
)
NEGATION = re.compile(
    r"\b(?:not|never|no longer|no need|no more|nobody|nothing|none|neither|cannot|without|instead"
    r"|rather than|unnecessary|needless|skip|stop|avoid|refrain|ignore|disregard|except|leave"
    r"|forget|hold off|false alarm|scrap|nope|isnt|dont|wont|cant|doesnt|didnt|never mind|nvm"
    r"|off the (?:list|calendar|table)|called off|no(?= \D))\b|\w+n['\u2019]t\b",
    re.IGNORECASE,
)
# Words with which people take back or turn around what they said.
TURNS = re.compile(
    r"\b(?:unfortunately|sadly|(?:i'm|i am|we're) afraid|actually|on second thoughts?|hang on"
    r"|hold on|clash\w*|conflicts? with|dealt with|doing (?:it|this|that)|does it|arranged"
    r"|will do (?:it|that)|handl(?:ed|es|ing)(?: it| this| that)?|settled(?! on)|seen to|wait,"
    r"|giv\w+ (?:it|this) a miss|pass(?:ing)? (?:this time|on it)|you can relax"
    r"|should be \d[^,]*, not)\b",
    re.IGNORECASE,
)
OVER = re.compile(
    r"\bthank(?:s| you)(?: so much| a lot| very much)? for (?!your)\w+ing\b"
    r"|\b(?:already|cancelled|canceled|postponed|rescheduled|(?:was|been|got|has) moved"
    r"|taken care of|sorted out|done (?:it|that|this)|(?:is|was|been|it's|got) done)\b",
    re.IGNORECASE,
)
_DONE = "|".join(sorted(f"{verb.removesuffix('e')}ed" for verb in ACTION_VERBS)).title()
_NO_NAME = r"(?!(?:The|A|An|My|Our|This|These|That|His|Her|All|Any|Some|New|Old)\b)[A-Z]\w+"
PAST = re.compile(
    rf"\b(?:(?i:i|we|he|she|they|you|somebody|someone)|{_NO_NAME})(?:'ve|'s| have| has| had)? "
    r"(?:just |finally |only |also |then |once |\w+ly )?"
    r"(?:(?!(?:need|feed|weed|seed|shed|speed|proceed|exceed)\b)[a-z]+ed|made|did|had|put|got"
    r"|found|left|ran|hung|lent|built|done|been|gone|written|taken|given)\b"
    r"|\b(?:was|were|used to|has been|have been|had been)\b"
    # These are forms of the past alone, whatever their subject is.
    r"|\b(?:ate|began|bought|broke|brought|came|chose|drove|fell|flew|forgot|gave|grew|happened"
    r"|kept|knew|met|paid|rang|said|saw|sent|sold|spoke|taught|threw|thought|told|took|went|wrote)\b"
    # "Filed it under plans" leaves its subject out.
    rf"|^\W*(?:{_DONE})\b(?! \w+(?:$|\W*[:,]))"
)
# What a statement beside a wish says of the wish itself.
ABOUT_THE_WISH = re.compile(r"^\W*(?:it|that|this|i|we|you|the)\b", re.IGNORECASE)
TAKES_BACK = re.compile(
    r"\b(?:not (?:needed|necessary|required|any ?more)|done|no longer|already did|instead"
    r"|cancelled|canceled|don't|do not|won't|never)\b",
    re.IGNORECASE,
)
# What no capability has a place for: "with high priority", "an hour before", "remind me that".
ATTRIBUTES = re.compile(
    r"\b(?:then|also|as well|too(?=\W*$)|recurring|repeating|repeated"
    r"|(?:(?:high(?:est)?|low|top|first)[- ])?priority"
    r"|with (?:an? )?(?:reminder|alarm|alert|notification)"
    r"|^(?:\W*please )?remind (?:me|us)\b(?! to\b)"
    r"|(?:an hour|a day|the day|the evening|a week|\d+ (?:minutes|hours|days)|half an hour) "
    r"(?:before|ahead|earlier|in advance|beforehand)"
    r"|in (?:red|blue|green|yellow|black|white|bold|capitals|large letters|colou?r))\b",
    re.IGNORECASE,
)
# What is said of a coming event, and not of a habit or a wish.
TAKES_PLACE = re.compile(
    r"\b(?:comes|is coming|are coming|arrives?|leaves|departs|starts|begins|takes place|will be"
    r"|opens|visits|is (?=on\b|at\b|$)|meets?"
    r"|(?:i|we) have|(?:i'm|we're|i am|we are) having)(?:\b|$)",
    re.IGNORECASE,
)
CONDITION = re.compile(
    r"\b(?:if (?!possible|you (?:can|could|don't mind|have)|need be)|unless|in case|whenever"
    r"|as soon as|provided|depending)\b[^,.;]*",
    re.IGNORECASE,
)
UNCLEAR = re.compile(
    r"\b(?:(?:the|that|this|some) (?:thing|stuff|matter|usual thing)s?"
    r"|like (?:last time|before|always)"
    r"|as (?:usual|always|before|discussed|agreed|last time)|same as|something|whatever|somehow"
    r"|you know (?:what|which|who)|the usual(?! place)|and so on|et cetera|etc|or so"
    r"|what we discussed)\b",
    re.IGNORECASE,
)
# A short order that ends like this says nothing of what it is about.
LOST = re.compile(r"\b(?:it|him|her|them|this|that|these|those)\W*$", re.IGNORECASE)
# Orders that undo or shift what is there: "call off", "bring forward".
REVERSES = re.compile(
    r"^(?:take|call|put|push|bring|get|cross|strike|tick|pull|hand|move|give|swap)\b.*?"
    r"\b(?:off|back|forward|forwards|out of|earlier|later|ahead)\b",
    re.IGNORECASE,
)
# An appointment that one of these is about is there already.
CHANGES = re.compile(
    r"\b(?:move|reschedule|postpone|cancel|shift|change|push|swap|confirm|accept|decline|invite"
    r"|earlier|later|sooner|longer|shorter|make it)\b",
    re.IGNORECASE,
)
# "Call me a cab" is asked of somebody who does it at once.
FOR_ME = re.compile(r"^(?!remind|give)\w+ (?:me|us) (?:a|an|the|some|another)\b", re.IGNORECASE)
# A sentence that begins like this is a wish of its own.
ADDS = re.compile(
    r"^\W*(?:oh\W+|ps\W+|p\.s\.\W*)?"
    r"(?:also|and|plus|besides|additionally|another thing|one more)\b",
    re.IGNORECASE,
)
# What stands between two wishes of one sentence.
JOINT = re.compile(
    r"(?:[,;.\s\u2013-]+(?:and|then|also|plus|&)+)+(?: then| also| please)*\s+|[,;]\s+(?:please )?",
    re.IGNORECASE,
)


def with_next(text: str, match: re.Match[str]) -> str:
    """Return the words of a match with the two behind it, in quotes."""
    rest = re.match(r"(?:\W+\w+){0,2}", text[match.end() :])
    shown = f"{match.group()}{rest.group() if rest else ''}".strip(" ,.;")
    return f"'{shown}'"
