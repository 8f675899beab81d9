"""What people ask an assistant for in general; it names no capability and decides nothing.

One phrase for each usual intent of the public benchmarks for assistants, by their domains. What a
note, todo, calendar, file or shell capability would do is left out.
"""

from __future__ import annotations

_MONEY = (
    "transfer money to another account",
    "what is my account balance",
    "pay a bill",
    "show my last transactions",
    "freeze my bank account",
    "report a lost credit card",
    "what is my credit score",
    "what is the exchange rate",
    "what is the interest rate",
)
_FOOD = (
    "give me a recipe for this dish",
    "how long does it have to cook",
    "how many calories does it have",
    "suggest a restaurant",
    "reserve a table at a restaurant",
    "what are the ingredients",
)
_HOME = (
    "play a song",
    "skip to the next song",
    "what song is this",
    "order this product",
    "where is my order",
    "turn on the lights",
    "change the temperature",
    "turn up the volume",
)
_ROAD = (
    "how is the traffic",
    "give me directions",
    "how far is it",
    "call a taxi",
    "check the tire pressure",
    "where can I get gas",
)
_TRAVEL = (
    "book a flight",
    "book a hotel",
    "rent a car",
    "where should I go on vacation",
    "is the flight on time",
    "do I need a visa",
    "my luggage is lost",
    "translate a sentence",
    "what time is it in another city",
)
_UTILITY = (
    "what is the weather like",
    "set a timer or an alarm",
    "send a text message",
    "send an email",
    "make a phone call",
    "how do you spell this word",
    "what does this word mean",
    "calculate this",
    "convert the measurement",
    "flip a coin",
    "share my location",
)
_WORK = (
    "request days off",
    "when is payday",
    "how do I do my taxes",
    "change my insurance",
)
_KNOWLEDGE = (
    "tell me a fun fact",
    "read the news to me",
    "answer a question about history, science or people",
    "write a text for me",
    "summarize a text",
    "recommend something to watch",
    "post on social media",
    "give me advice",
    "cancel a subscription",
)
_TALK = (
    "hello, how are you",
    "goodbye",
    "thank you",
    "tell me a joke",
    "who are you",
    "what can you do",
    "what is the meaning of life",
    "yes or no",
)

BACKGROUND = (
    *_MONEY,
    *_FOOD,
    *_HOME,
    *_ROAD,
    *_TRAVEL,
    *_UTILITY,
    *_WORK,
    *_KNOWLEDGE,
    *_TALK,
)
