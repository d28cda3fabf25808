"""Noun phrases and clauses: drawn once, then spelled in the order of each language."""

import random
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import Optional, TypeVar

from pet_fairseq.toy.lexicon import BE, FRAMES, WERDEN, Lexicon, Noun, Verb
from pet_fairseq.toy.words import (
    AUXILIARIES,
    COMPANIONS,
    CONTRACTIONS,
    DEFINITE,
    ENGLISH_PRONOUNS,
    GERMAN_NUMBERS,
    GERMAN_PRONOUNS,
    MODALS,
    OFTEN,
    RELATIVE,
    SPAN_UNITS,
    SPANS,
    STRONG,
    TENSES,
    TIMES,
    Pair,
    number_words,
    word_table,
)

T = TypeVar("T")

# --- phrases -------------------------------------------------------------------------------------


@cache
def _zipf_sums(size: int) -> list[float]:
    return list(accumulate(1 / rank for rank in range(1, size + 1)))


@dataclass(frozen=True)
class Draw:
    """The source of every random decision about a sentence."""

    rng: random.Random
    lexicon: Lexicon

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def zipf(self, items: Sequence[T]) -> T:
        """An item with a probability proportional to 1 / rank."""
        sums = _zipf_sums(len(items))
        return items[bisect(sums, self.rng.random() * sums[-1], hi=len(items) - 1)]

    def weighted(self, table: Mapping[T, float]) -> T:
        return self.rng.choices(list(table), list(table.values()))[0]

    def synonym(self, words: Sequence[str]) -> str:
        return words[-1] if self.chance(0.15) else words[0]

    def noun(self, **kinds: float) -> Noun:
        return self.zipf(self.lexicon.nouns[self.weighted(kinds)])

    def number(self) -> Pair:
        return number_words(2 + self.zipf(range(98)))


@dataclass(frozen=True)
class Determiner:
    """An article or its like."""

    stem: str
    english: Pair  # singular, plural; "-": not used
    style: str  # declension: definite, strong (dieser), ein, open (viele), bare


# Stem, singular, plural, style, weight.
_ROWS = word_table("""
    d the the definite 50, ein a - ein 20, kein no no ein 5, dies this these strong 7,
    jed every - strong 4, all - all strong 6, viel - many open 7, einig - some open 6,
    _ - _ bare 10, number - number bare 20
""")
DETERMINERS = {Determiner(row[0], row[1:3], row[3]): int(row[4]) for row in _ROWS}
THE = next(iter(DETERMINERS))


@dataclass(frozen=True)
class Phrase:
    """A noun phrase or pronoun, spelled for every role it may play, and what agrees with it."""

    german: Mapping[str, str]  # by case
    english: Pair  # as a subject, as an object
    form: str  # m, f, n, p (plural), ich, du or wir
    pronoun: str  # the English subject pronoun for it
    person: bool
    light: bool = False  # a pronoun: stands early in the German clause
    wh: bool = False  # opens its clause in both languages

    @property
    def agreement(self) -> int:
        """Its place among the four present tense forms of a German verb."""
        return {"ich": 0, "du": 1, "p": 3, "wir": 3}.get(self.form, 2)

    def attach(self, german: str, english: str) -> "Phrase":
        cases = {case: f"{words} {german}" for case, words in self.german.items()}
        return replace(self, german=cases, english=(f"{self.english[0]} {english}",) * 2)


def pronoun_for(phrase: Phrase) -> Phrase:
    """The personal pronoun that refers back to the phrase."""
    german = dict(zip(("nom", "acc", "dat"), GERMAN_PRONOUNS[phrase.form], strict=False))
    english = ENGLISH_PRONOUNS[phrase.pronoun][:2]
    return replace(phrase, german=german, english=english, light=True, wh=False)


def relative_for(phrase: Phrase) -> Phrase:
    german = {case: words[phrase.form] for case, words in RELATIVE.items()}
    english = ("who", "whom") if phrase.person else ("which", "which")
    return replace(phrase, german=german, english=english, wh=True)


SPEAKERS = [
    pronoun_for(Phrase({}, ("", ""), form, pronoun, True))
    for form, pronoun in word_table("ich i, wir we, du you")
]
WHO = Phrase(dict(nom="wer", acc="wen", dat="wem"), ("who", "whom"), "m", "he", True, wh=True)


def determine(determiner: Determiner, case: str, form: str) -> Pair:
    """The German determiner and the ending of the adjectives after it."""
    strong, style = STRONG[case][form], determiner.style
    endless = style == "ein" and (case + form) in ("nomm", "nomn", "accn")
    word = determiner.stem + ("" if style == "bare" or endless else strong)
    if endless or style in ("open", "bare"):
        return word, strong
    weak_e = form != "p" and (case == "nom" or (case == "acc" and form != "m"))
    return DEFINITE[case][form] if style == "definite" else word, "e" if weak_e else "en"


def choose_determiner(draw: Draw, plural: bool, owner: Optional[Phrase]) -> Determiner:
    """Any determiner; sometimes the owner's possessive ("seinen hut", "his hat")."""
    if owner and not owner.wh and draw.chance(0.12):
        word = ENGLISH_PRONOUNS[owner.pronoun][2]
        return Determiner(GERMAN_PRONOUNS[owner.form][4], (word, word), "ein")
    choice = draw.weighted({d: w for d, w in DETERMINERS.items() if d.english[plural] != "-"})
    if choice.stem != "number":
        return choice
    german, english = draw.number()
    return replace(choice, stem=german, english=("-", english))


def plain_phrase(draw: Draw, noun: Noun, determiner: Determiner, plural: bool) -> Phrase:
    """Determiner, adjectives, noun."""
    form = "p" if plural else noun.gender
    count = draw.weighted({0: 62, 1: 32, 2: 6})
    adjectives = [draw.zipf(draw.lexicon.adjectives) for _ in range(count)]
    german = {}
    for case, at in dict(nom=0, acc=1, dat=1, gen=2).items():
        word, ending = determine(determiner, case, form)
        at = 3 + (case == "dat") if plural else at
        german[case] = " ".join([word, *(stem + ending for stem, _ in adjectives), noun.german[at]])
    words = [determiner.english[plural], *(draw.synonym(words) for _, words in adjectives)]
    english = " ".join([*words, noun.english[plural]])
    pronoun = "they" if plural else noun.pronoun
    return Phrase(german, (english, english), form, pronoun, noun.kind == "person")


def noun_phrase(draw: Draw, noun: Noun, depth: int, owner: Optional[Phrase] = None) -> Phrase:
    """A phrase with, the less likely the deeper, a relative clause, a possessor or an equal."""
    plural = draw.chance(0.3)
    determiner = choose_determiner(draw, plural, owner)
    phrase = plain_phrase(draw, noun, determiner, plural)
    if draw.chance((0.1, 0.06, 0.03, 0)[min(depth, 3)]):
        return with_relative(draw, phrase, depth)
    if determiner is THE and depth < 2 and draw.chance(0.12):
        return with_possessor(draw, phrase)
    if depth == 0 and draw.chance(0.05):
        other = plain_phrase(draw, draw.noun(**{noun.kind: 1}), THE, draw.chance(0.3))
        cases = {case: f"{words} und {other.german[case]}" for case, words in phrase.german.items()}
        english = f"{phrase.english[0]} and {other.english[0]}"
        return Phrase(cases, (english, english), "p", "they", phrase.person)
    return phrase


def with_possessor(draw: Draw, phrase: Phrase) -> Phrase:
    """For a person "the teacher 's book" ("das buch des lehrers"), else "the roof of the house"."""
    owner = plain_phrase(draw, draw.noun(person=2, thing=1), THE, draw.chance(0.3))
    longer = phrase.attach(owner.german["gen"], f"of {owner.english[0]}")
    if not owner.person:
        return longer
    mark = "'" if owner.form == "p" else "'s"
    english = f"{owner.english[0]} {mark} {phrase.english[0].removeprefix('the ')}"
    return replace(longer, english=(english, english))


def with_relative(draw: Draw, phrase: Phrase, depth: int) -> Phrase:
    """The phrase is the subject, the object or the company in a verb-final relative clause."""
    pronoun, role = relative_for(phrase), draw.weighted(dict(subject=50, goal=35, company=15))
    clause = make_clause(draw, depth + 1, **{} if role == "company" else {role: pronoun})
    if role == "company":
        clause = replace(clause, parts=(*clause.parts, companion(draw, pronoun)))
    return phrase.attach(f", {german_clause(clause, 'final')} ,", english_clause(clause))


# --- clauses -------------------------------------------------------------------------------------

GERMAN_ORDER = "time dative accusative negation often manner company governed predicate place after"
ENGLISH_ORDER = "often predicate accusative dative governed manner company place time after"
GERMAN_ORDER, ENGLISH_ORDER = GERMAN_ORDER.split(), ENGLISH_ORDER.split()


@dataclass(frozen=True)
class Part:
    """What a clause has besides its subject and verb."""

    slot: str
    german: str
    english: str
    phrase: Optional[Phrase] = None  # of a direct object
    light: bool = False
    wh: bool = False


@dataclass(frozen=True)
class Clause:
    subject: Phrase
    verb: Verb
    tense: str
    parts: tuple[Part, ...]
    passive: bool = False
    negated: bool = False

    @property
    def english_verb(self) -> Sequence[str]:
        """It depends on whether the object, or else the subject, is a person."""
        about = next((part.phrase for part in self.parts if part.phrase), self.subject)
        return self.verb.senses[0 if about.person else 1]


def german_group(verb: Verb, tense: str, agreement: int) -> tuple[str, str, str]:
    """The finite verb, what closes the clause, and the prefix that may part from the former."""
    if tense == "present":
        return verb.present[agreement], "", verb.prefix
    if tense == "perfect":
        return AUXILIARIES[verb.auxiliary][agreement], verb.prefix + verb.participle, ""
    return AUXILIARIES[tense][agreement], verb.prefix + verb.infinitive, ""


def german_clause(clause: Clause, order: str, front: Optional[Part] = None) -> str:
    """The clause with its finite verb "first", "second" or "final", and with `front` in front."""
    verb, agreement = clause.verb, clause.subject.agreement
    finite, rest, prefix = german_group(WERDEN if clause.passive else verb, clause.tense, agreement)
    if clause.passive:
        rest = f"{verb.prefix}{verb.participle} {rest}"
    parts = [*clause.parts, *([Part("negation", "nicht", "")] if clause.negated else [])]
    parts.sort(key=lambda part: (not part.light, GERMAN_ORDER.index(part.slot)))
    front = front or next((part for part in parts if part.wh), None)
    after = [part.german for part in parts if part.slot == "after"]
    field = [part.german for part in parts if part.slot != "after" and part is not front]
    field = [*([front.german] if front else []), clause.subject.german["nom"], *field]
    if order == "final":
        return " ".join([*field, rest, prefix + finite, *after])
    field.insert(("first", "second").index(order), finite)
    return " ".join([*field, rest, prefix, *after])


def english_group(verb: Sequence[str], tense: str, pronoun: str, auxiliary: bool) -> Pair:
    """The auxiliary ("" if there is none and none is asked for) and the rest of the verb."""
    third = pronoun in ("he", "she", "it")
    if tense in MODALS:
        return MODALS[tense], verb[0]
    if tense == "wollen":
        verb, tense = (f"want to {verb[0]}", f"wants to {verb[0]}"), "present"
    if verb is BE and tense == "present":
        return "am" if pronoun == "i" else "is" if third else "are", ""
    if verb is BE:
        return "was" if third or pronoun == "i" else "were", ""
    if auxiliary:
        return "did" if tense == "perfect" else "does" if third else "do", verb[0]
    return "", verb[2 if tense == "perfect" else 1 if third else 0]


def english_clause(clause: Clause, question: bool = False, front: Optional[Part] = None) -> str:
    """Subject, verb, objects, manner, place, time; of `front`, only a time stays in front."""
    verb, pronoun = BE if clause.passive else clause.english_verb, clause.subject.pronoun
    auxiliary, main = english_group(verb, clause.tense, pronoun, question or clause.negated)
    if clause.passive:
        main = f"{main} {clause.english_verb[3]}"
    parts = sorted(clause.parts, key=lambda part: ENGLISH_ORDER.index(part.slot))
    first = [part for part in parts if part.wh or (part is front and part.slot == "time")]
    often = [part.english for part in parts if part.slot == "often"]
    rest = [part.english for part in parts if part.slot != "often" and part not in first]
    subject = clause.subject.english[0]
    opening = [auxiliary, subject] if question else [subject, auxiliary]
    negation = ["not"] if clause.negated else []
    return " ".join([*(p.english for p in first), *opening, *negation, *often, main, *rest])


def prepositional(preposition: str, words: str) -> str:
    """Preposition and phrase, contracted where German does so ("in dem haus": "im haus")."""
    article, space, rest = words.partition(" ")
    short = CONTRACTIONS.get(f"{preposition} {article}") if space else None  # not for a relative
    return f"{short} {rest}" if short else f"{preposition} {words}"


def object_part(phrase: Phrase, slot: str, to: str = "") -> Part:
    english = f"{to} {phrase.english[1]}"
    return Part(slot, phrase.german[slot[:3]], english, phrase, phrase.light, phrase.wh)


def companion(draw: Draw, phrase: Phrase) -> Part:
    """A preposition and the phrase, such as "mit": with a person, but using a thing."""
    choices = [row for row in COMPANIONS if row[1] != "gen" or not phrase.wh]
    word, case, *english = draw.zipf(choices)
    english = f"{english[0 if phrase.person else 1]} {phrase.english[1]}"
    return Part("company", prepositional(word, phrase.german[case]), english, wh=phrase.wh)


def place_part(draw: Draw, goal: bool, depth: int) -> Part:
    """In German the case tells a goal from a place ("in die stadt", "in der stadt")."""
    noun = draw.noun(place=1)
    phrase = noun_phrase(draw, noun, depth)
    german = prepositional(noun.spot[0], phrase.german["acc" if goal else "dat"])
    return Part("place", german, f"{noun.spot[2 if goal else 1]} {phrase.english[1]}")


def time_part(draw: Draw, tense: str) -> Part:
    """An adverb that suits the tense, a time of day, or a span such as "vor drei tagen"."""
    if tense in TIMES and draw.chance(0.5):
        return Part("time", *draw.zipf(TIMES[tense]))
    if tense in TIMES and draw.chance(0.6):
        (number, english), (unit, units) = draw.number(), draw.zipf(SPAN_UNITS)
        word, pattern = SPANS[tense]
        return Part("time", f"{word} {number} {unit}", pattern.format(f"{english} {units}"))
    hour = draw.rng.randint(1, 12)
    german, english = number_words(hour)
    if draw.chance(0.4):  # German counts to the full hour, English from it
        german = GERMAN_NUMBERS[hour + 1] if hour < 12 else "eins"
        return Part("time", f"um halb {german}", f"at half past {english}")
    return Part("time", f"um {german} uhr", f"at {english} o'clock")


def distinct(subject: Phrase, other: Phrase, slot: str) -> bool:
    """Whether the German forms tell the subject from the object in either order."""
    if slot == "dative" or subject.agreement != other.agreement:
        return True
    return subject.form in ("m", "ich", "du", "wir") or other.form == "m"


def complements(draw: Draw, verb: Verb, frame: str, subject: Phrase, depth: int) -> Iterator[Part]:
    """The parts that the verb's frame asks for."""
    if frame in ("accusative", "dative", "governed"):
        phrase = noun_phrase(draw, draw.noun(thing=6, person=4), depth, subject)
        if frame != "governed":
            yield object_part(phrase, frame)
        else:
            word, case, english = verb.preposition
            german = prepositional(word, phrase.german[case])
            yield Part("governed", german, f"{english} {phrase.english[1]}")
    elif frame == "give":
        yield object_part(noun_phrase(draw, draw.noun(thing=1), depth, subject), "accusative")
        yield object_part(noun_phrase(draw, draw.noun(person=1), depth + 1), "dative", "to")
    elif frame == "goal":
        yield place_part(draw, True, depth)
    elif frame == "reflexive":
        yield Part("accusative", GERMAN_PRONOUNS[subject.form][3], "", light=True)
    elif frame == "copula":
        yield predicate(draw, subject, depth)


def predicate(draw: Draw, subject: Phrase, depth: int) -> Part:
    """An adjective, or a comparison."""
    german, words = draw.zipf(draw.lexicon.adjectives)
    english = draw.synonym(words)
    if draw.chance(0.5):
        return Part("predicate", german, english)
    other = noun_phrase(draw, draw.noun(**{"person" if subject.person else "thing": 1}), depth + 1)
    more = f"{english}er" if len(english) < 6 else f"more {english}"
    german = f"{german}er als {other.german['nom']}"
    return Part("predicate", german, f"{more} than {other.english[1]}")


def adverbials(draw: Draw, tense: str, frame: str, depth: int) -> Iterator[Part]:
    """Free additions; fewer in embedded clauses."""
    scale = 0.7**depth
    if draw.chance(0.3 * scale):
        yield time_part(draw, tense)
    if draw.chance(0.1 * scale):
        yield Part("often", *draw.zipf(OFTEN))
    if draw.chance(0.2 * scale) and frame != "copula":
        german, words = draw.zipf(draw.lexicon.manners)
        yield Part("manner", german, draw.synonym(words))
    if draw.chance(0.1 * scale):
        yield companion(draw, noun_phrase(draw, draw.noun(person=1, thing=1), depth + 1))
    if draw.chance(0.16 * scale) and frame != "goal":
        yield place_part(draw, False, depth + 1)


def random_subject(draw: Draw, depth: int) -> Phrase:
    if draw.chance(0.11):
        return draw.zipf(SPEAKERS)
    return noun_phrase(draw, draw.noun(person=68, thing=27, place=5), depth)


def make_clause(
    draw: Draw, depth: int, subject: Optional[Phrase] = None, goal: Optional[Phrase] = None
) -> Clause:
    """A random clause, perhaps with a given subject or a given object (`goal`)."""
    frame = draw.weighted({"accusative": 80, "dative": 20} if goal else FRAMES)
    verb, tense = draw.zipf(draw.lexicon.verbs[frame]), draw.weighted(TENSES)
    subject = subject or random_subject(draw, depth)
    while goal and not distinct(subject, goal, frame):
        subject = random_subject(draw, depth)
    passive = frame == "accusative" and not goal and draw.chance(0.14)
    if goal:
        parts = [object_part(goal, frame)]
    elif passive:
        agent = noun_phrase(draw, draw.noun(person=1), depth + 1)
        german = prepositional("von", agent.german["dat"])
        parts = [Part("company", german, f"by {agent.english[1]}")] if draw.chance(0.6) else []
    else:
        parts = list(complements(draw, verb, frame, subject, depth))
    parts += adverbials(draw, tense, frame, depth)
    spelled = " ".join([subject.english[0], *(part.english for part in parts)])
    negated = "no" not in spelled.split() and draw.chance(0.11)
    return Clause(subject, verb, tense, tuple(parts), passive, negated)
