"""A small parallel corpus from a probabilistic grammar: German-like source, English-like target.

Function words are real, content words are coined. The language is fixed, only the sentences depend
on the seed. From top to bottom: closed word classes, lexicon, phrases, clauses, sentences, corpus.
A clause is built once, as a subject, a verb and parts in named slots, then spelled in the order of
each language. Hard for a small model: rare words, the prefix at the end of a German clause that
decides the English verb, pronouns that follow grammatical gender in German and natural gender in
English, objects before subjects, verbs and prepositions with several senses.
"""

import os
import random
import re
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

from .errors import UserError

T = TypeVar("T")
Pair = tuple[str, str]  # the same in German and English, or the two numbers of an English noun

# --- closed word classes -------------------------------------------------------------------------


def _table(text: str) -> list[tuple[str, ...]]:
    """Rows that commas part, of cells that spaces part; "_" stands for a space in a cell."""
    return [tuple(c.replace("_", " ") for c in row.split()) for row in text.split(",")]


def _by_first(text: str) -> dict[str, tuple[str, ...]]:
    """The first cell of each row names the rest."""
    return {row[0]: row[1:] for row in _table(text)}


def _paradigm(text: str) -> dict[str, dict[str, str]]:
    """Rows for four cases, each of masculine, feminine, neuter, plural."""
    rows = zip(("nom", "acc", "dat", "gen"), _table(text), strict=True)
    return {case: dict(zip("mfnp", row, strict=True)) for case, row in rows}


DEFINITE = _paradigm("der die das die, den die das die, dem der dem den, des der des der")
RELATIVE = _paradigm("der die das die, den die das die, dem der dem denen, des der des der")
STRONG = _paradigm("er e es e, en e es e, em er em en, es er es er")
# By form: nominative, accusative, dative, reflexive, stem of the possessive.
GERMAN_PRONOUNS = _by_first("""
    m er ihn ihm sich sein, f sie sie ihr sich ihr, n es es ihm sich sein, p sie sie ihnen sich ihr,
    ich ich mich mir mich mein, du du dich dir dich dein, wir wir uns uns uns unser
""")
# By subject form: subject, object, possessive.
ENGLISH_PRONOUNS = _by_first("""
    he he him his, she she her her, it it it its, they they them their, i i me my,
    you you you your, we we us our
""")
# By infinitive, the present: ich, du, er, plural.
AUXILIARIES = _by_first("""
    haben habe hast hat haben, sein bin bist ist sind, werden werde wirst wird werden,
    können kann kannst kann können, müssen muss musst muss müssen, sollen soll sollst soll sollen,
    dürfen darf darfst darf dürfen, wollen will willst will wollen
""")
MODALS = dict(werden="will", können="can", müssen="must", sollen="should", dürfen="may")
TENSES = dict(present=46, perfect=30, werden=8, können=4, müssen=4, sollen=3, dürfen=2, wollen=3)
PREFIXES = "an auf aus ein mit ab vor zu nach".split()  # separable
INSEPARABLE = "be ver er ent zer".split()
# A place noun decides on a row: German preposition, English one for a place, English for a goal.
SPOTS = _table("in in into, in at to, auf on onto, auf at to, an by up_to, unter under under")
# Preposition, its case, English with a person, English with anything else.
COMPANIONS = _table("""
    mit dat with using, für acc for for, ohne acc without without, gegen acc against in_return_for,
    wegen gen because_of because_of, bei dat beside during, trotz gen despite despite
""")
GOVERNED = _table("auf acc, an acc, über acc, um acc, vor dat, nach dat, von dat, zu dat, mit dat")
GOVERNED_ENGLISH = "for on about of at from".split()
CONTRACTIONS = dict(
    _table("in_dem im, in_das ins, an_dem am, zu_dem zum, zu_der zur, von_dem vom, bei_dem beim")
)
SUBORDINATORS = _table("""
    weil because, obwohl although, wenn if, während while, bevor before, nachdem after,
    sobald as_soon_as, bis until, falls in_case
""")
COORDINATORS = _table("und and, aber but, denn for, oder or")
TIMES = {
    "present": _table("heute today, jetzt now, gerade right_now"),
    "perfect": _table("gestern yesterday, neulich recently, damals back_then"),
    "werden": _table("morgen tomorrow, bald soon, demnächst before_long"),
}
SPANS = dict(present=("seit", "for {}"), perfect=("vor", "{} ago"), werden=("in", "in {}"))
SPAN_UNITS = _table("tagen days, jahren years, wochen weeks, stunden hours")
OFTEN = _table("oft often, immer always, selten rarely, meistens usually")
QUESTION_WORDS = _table("wann when, warum why, wo where, wie how")
GERMAN_NUMBERS = """
    null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn
    sechzehn siebzehn achtzehn neunzehn
""".split()
GERMAN_TENS = "zwanzig dreissig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
ENGLISH_NUMBERS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen
""".split()
ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def number_words(n: int) -> Pair:
    """A number of 1 to 99 in words: 21 is "einundzwanzig", "twenty one"."""
    if n < 20:
        return GERMAN_NUMBERS[n], ENGLISH_NUMBERS[n]
    tens, unit = divmod(n, 10)
    german, english = GERMAN_TENS[tens - 2], ENGLISH_TENS[tens - 2]
    if unit == 0:
        return german, english
    return f"{GERMAN_NUMBERS[unit]}und{german}", f"{english} {ENGLISH_NUMBERS[unit]}"


# --- lexicon -------------------------------------------------------------------------------------

GERMAN_ONSETS = """
    b br bl d dr f fl fr g gl gr h k kl kn kr l m n pf pr r s schl schm schn schw sp spr st str t tr
    w z zw
""".split()
GERMAN_RIMES = """
    alm alt amm and ang arb arn art aub aum aul eck eld elm eng erb erm ern est eut ieb iel ieg imm
    ind ing irm old olm ond orn ost umm ung urm eib eil ein
""".split()
ENGLISH_ONSETS = """
    b bl br ch cl cr d dr f fl fr g gl gr h j l m n p pl pr r s sh shr sk sl sm sn sp spr st str sw
    t th thr tr tw v w wh y
""".split()
ENGLISH_RIMES = """
    aft aim ain amp ard ark arn ash ask awn each ead eal eam eck eed eel elp elt erk ern ift ilt ink
    int isk oach oam oast olt ond ood ook oom oop orm orth owl ulf unch urn ust
""".split()
RESERVED = "sein dein mein kein sind bald must"  # function words that could be coined
UMLAUT = {"au": "äu", "a": "ä", "o": "ö", "u": "ü"}
# Vowels of irregular verbs. German: third person, participle; English: past, participle.
GERMAN_ABLAUT = {"a": ("ä", "a"), "e": ("i", "o"), "ei": ("ei", "ie")}
ENGLISH_ABLAUT = {"i": ("a", "u"), "ea": ("o", "o"), "o": ("e", "o")}
# Verbs by frame (the parts they ask for): how many there are, how often a clause has one.
VERBS = dict(
    none=40, accusative=120, dative=25, give=25, governed=40, goal=35, reflexive=20, say=25
)
FRAMES = dict(none=14, accusative=38, dative=7, give=7, governed=10, goal=8, reflexive=4, copula=12)


@dataclass(frozen=True)
class Noun:
    gender: str  # grammatical: m, f or n
    kind: str  # person, thing or place
    german: tuple[str, ...]  # nominative, accusative or dative, genitive, plural, dative plural
    english: Pair  # singular, plural
    pronoun: str  # natural gender: he, she or it
    spot: tuple[str, ...]  # a row of SPOTS


@dataclass(frozen=True)
class Verb:
    """German forms lack the prefix. An English verb is its base, third person, past, participle."""

    present: Sequence[str]  # ich, du, er, plural
    infinitive: str
    participle: str
    auxiliary: str
    senses: tuple[Sequence[str], Sequence[str]]  # the English verb for a person, for a thing
    prefix: str = ""  # separable
    preposition: tuple[str, ...] = ()  # German, its case, English


BE = ("be", "is", "was", "been")
SEIN = Verb(AUXILIARIES["sein"], "sein", "gewesen", "sein", (BE, BE))
WERDEN = Verb(AUXILIARIES["werden"], "werden", "worden", "sein", (BE, BE))
Modifier = tuple[str, list[str]]  # German word, English word and perhaps a synonym


@dataclass(frozen=True)
class Lexicon:
    """Content words by descending frequency."""

    nouns: Mapping[str, Sequence[Noun]]  # by kind
    verbs: Mapping[str, Sequence[Verb]]  # by frame
    adjectives: Sequence[Modifier]
    manners: Sequence[Modifier]


@dataclass(frozen=True)
class Coiner:
    """Makes words, and no two with a form in common."""

    rng: random.Random
    taken: set[str]

    def coin(self, parts: Sequence[Sequence[str]], rarity: float, inflect: Callable[[str], T]) -> T:
        """The forms of a new word; the rarer (0 to 1), the likelier it has two syllables."""
        while True:
            stem = self.rng.choice(parts[0]) + self.rng.choice(parts[1])
            if self.rng.random() < rarity:
                stem = self.rng.choice("bdfgklmnprst") + self.rng.choice("aiou") + stem
            forms = inflect(stem)
            if self.taken.isdisjoint(forms):
                self.taken.update(forms)
                return forms

    def german(self, rarity: float, inflect: Callable[[str], T]) -> T:
        return self.coin((GERMAN_ONSETS, GERMAN_RIMES), rarity, inflect)

    def english(self, rarity: float, inflect: Callable[[str], T]) -> T:
        return self.coin((ENGLISH_ONSETS, ENGLISH_RIMES), rarity, inflect)


def around_vowel(stem: str) -> tuple[str, ...]:
    """What precedes the last vowel, the vowel, what follows."""
    return re.fullmatch(r"(.*?)([aeiou]+)([^aeiou]*)", stem).groups()


def umlaut(stem: str) -> str:
    head, vowel, tail = around_vowel(stem)
    return head + UMLAUT.get(vowel, vowel) + tail


def with_s(word: str) -> str:
    """An English plural or third person."""
    return word + ("es" if word.endswith(("s", "sh", "ch")) else "s")


def english_noun(stem: str) -> Pair:
    return stem, stem.replace("oo", "ee") if "oo" in stem else with_s(stem)


def english_verb(rng: random.Random, stem: str) -> tuple[str, ...]:
    """Base, third person, past, participle, for half of the verbs that can with another vowel."""
    head, vowel, tail = around_vowel(stem)
    if vowel in ENGLISH_ABLAUT and rng.random() < 0.5:
        return stem, with_s(stem), *(head + v + tail for v in ENGLISH_ABLAUT[vowel])
    return stem, with_s(stem), stem + "ed", stem + "ed"


def german_noun(rng: random.Random, stem: str, gender: str, person: bool) -> tuple[str, ...]:
    """The five forms (see Noun) in one of the declensions that the gender allows."""
    endings = {"m": ("", "", "er", "el"), "f": ("e", "", "ung"), "n": ("", "", "chen")}
    ending = rng.choice(endings[gender])
    word = stem + ending
    if ending == "" and gender == "m" and person and rng.random() < 0.4:
        return word, *[word + "en"] * 4  # weak: der mensch, den menschen
    if ending:
        plural = word + {"e": "n", "ung": "en"}.get(ending, "")
    else:
        suffixes = {"m": ("e", "~e"), "f": ("en", "~e"), "n": ("~er", "e", "s")}
        suffix = rng.choice(suffixes[gender])
        plural = umlaut(stem) + suffix[1:] if suffix[0] == "~" else stem + suffix
    genitive = word if gender == "f" else word + ("s" if ending else "es")
    return word, word, genitive, plural, plural if plural[-1] in "ns" else plural + "n"


def german_verb(rng: random.Random, stem: str, lead: str) -> tuple[str, ...]:
    """Present (ich, du, er, plural) and participle; `lead` is an inseparable prefix or ""."""
    head, vowel, tail = around_vowel(stem)
    ge, e = "" if lead else "ge", "e" if stem[-1] in "dt" else ""
    second, third, participle = f"{stem}{e}st", f"{stem}{e}t", f"{ge}{lead}{stem}{e}t"
    if vowel in GERMAN_ABLAUT and rng.random() < 0.4:
        changed, perfect = (head + v + tail for v in GERMAN_ABLAUT[vowel])
        second, third = f"{changed}st", changed if tail[-1] in "dt" else f"{changed}t"
        participle = f"{ge}{lead}{perfect}en"
    return *(lead + form for form in (f"{stem}e", second, third, f"{stem}en")), participle


def coin_noun(coiner: Coiner, kind: str, rarity: float) -> Noun:
    """A noun; one person in six or so has a grammatical gender that is not the natural one."""
    rng, person = coiner.rng, kind == "person"
    gender = rng.choice("mmffn" if person else "mfn")
    german = coiner.german(rarity, lambda stem: german_noun(rng, stem, gender, person))
    natural = {"m": "he", "f": "she", "n": rng.choice(("he", "she"))}[gender]
    if rng.random() < 0.17:
        natural = {"he": "she", "she": "he"}[natural]
    english = coiner.english(rarity, english_noun)
    return Noun(gender, kind, german, english, natural if person else "it", rng.choice(SPOTS))


def compound(coiner: Coiner, first: Noun, second: Noun) -> Noun:
    """One German word; in English two, or for one compound in four a word of its own."""
    link = coiner.rng.choice(("", "s"))
    german = tuple(first.german[0] + link + form for form in second.german)
    english = tuple(f"{first.english[0]} {form}" for form in second.english)
    if coiner.rng.random() < 0.25:
        english = coiner.english(0.8, english_noun)
    return replace(second, german=german, english=english)


def coin_nouns(coiner: Coiner, kind: str, simple: int, compounds: int) -> list[Noun]:
    nouns = [coin_noun(coiner, kind, rank / simple) for rank in range(simple)]
    for _ in range(compounds):
        new = compound(coiner, *coiner.rng.sample(nouns[: simple // 2], 2))
        nouns.insert(coiner.rng.randrange(simple // 4, len(nouns)), new)
    return nouns


def coin_verbs(coiner: Coiner) -> dict[str, list[Verb]]:
    """Verbs by frame. Most share their base with others and differ by a separable prefix only."""
    rng, frames = coiner.rng, [frame for frame, count in VERBS.items() for _ in range(count)]
    rng.shuffle(frames)
    verbs: dict[str, list[Verb]] = {frame: [] for frame in VERBS}
    while frames:
        lead = rng.choice(INSEPARABLE) if rng.random() < 0.3 else ""
        forms = coiner.german(0.3, lambda stem, lead=lead: german_verb(rng, stem, lead))
        prefixes = [] if lead else rng.sample(PREFIXES, rng.randint(0, 4))
        for prefix in ["", *prefixes][: len(frames)]:
            frame = frames.pop()
            verbs[frame].append(coin_verb(coiner, frame, forms, prefix))
    for words in verbs.values():
        rng.shuffle(words)
    return verbs | {"copula": [SEIN]}


def coin_verb(coiner: Coiner, frame: str, forms: tuple[str, ...], prefix: str) -> Verb:
    """A German base with a prefix ("" for none) and the one or two English verbs it stands for."""
    rng = coiner.rng
    particle = rng.choice((" up", " down", " off")) if rng.random() < 0.12 else ""
    senses = [coiner.english(0.5, lambda stem: english_verb(rng, stem)) for _ in range(2)]
    senses = [[form + particle for form in sense] for sense in senses]
    if frame not in ("accusative", "dative", "none") or rng.random() < 0.75:
        senses[1] = senses[0]
    auxiliary = "sein" if frame == "goal" or (frame == "none" and rng.random() < 0.3) else "haben"
    preposition = (*rng.choice(GOVERNED), rng.choice(GOVERNED_ENGLISH))
    return Verb(forms[:4], forms[3], forms[4], auxiliary, tuple(senses), prefix, preposition)


def german_adjective(rng: random.Random, stem: str) -> list[str]:
    """The bare form (which is also the adverb), then the inflected ones."""
    word = stem + rng.choice(("", "ig", "lich"))
    return [word + ending for ending in ("", "e", "em", "en", "er", "es")]


def coin_modifiers(coiner: Coiner, count: int) -> list[Modifier]:
    """Adjectives or adverbs; one in six has an English synonym."""
    modifiers = []
    for rank in range(count):
        german = coiner.german(rank / count, lambda stem: german_adjective(coiner.rng, stem))[0]
        words = range(2 if coiner.rng.random() < 0.17 else 1)
        english = [coiner.english(rank / count, lambda stem: (stem,))[0] for _ in words]
        modifiers.append((german, english))
    return modifiers


@cache
def build_lexicon() -> Lexicon:
    """The content words of the toy language, always the same."""
    coiner = Coiner(random.Random("the one toy language"), set(RESERVED.split()))
    sizes = dict(person=(200, 30), thing=(300, 80), place=(90, 20))
    nouns = {kind: coin_nouns(coiner, kind, *size) for kind, size in sizes.items()}
    adjectives, manners = coin_modifiers(coiner, 240), coin_modifiers(coiner, 60)
    return Lexicon(nouns, coin_verbs(coiner), adjectives, manners)


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
_ROWS = _table("""
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
    for form, pronoun in _table("ich i, wir we, du you")
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


def choose_determiner(draw: Draw, plural: bool, owner: Phrase | None) -> Determiner:
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


def noun_phrase(draw: Draw, noun: Noun, depth: int, owner: Phrase | None = None) -> Phrase:
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
    phrase: Phrase | None = None  # of a direct object
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


def german_clause(clause: Clause, order: str, front: Part | None = None) -> str:
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


def english_clause(clause: Clause, question: bool = False, front: Part | None = None) -> str:
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
    draw: Draw, depth: int, subject: Phrase | None = None, goal: Phrase | None = None
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


# --- sentences -----------------------------------------------------------------------------------


def statement(draw: Draw, clause: Clause) -> Pair:
    """A verb-second main clause, which often opens with something other than its subject."""
    fronts = [part for part in clause.parts if part.slot in ("time", "place")]
    for part in clause.parts:
        if part.phrase and not part.light and distinct(clause.subject, part.phrase, part.slot):
            fronts.append(part)
    front = draw.rng.choice(fronts) if fronts and draw.chance(0.45) else None
    return german_clause(clause, "second", front), english_clause(clause, front=front)


def simple_sentence(draw: Draw) -> Pair:
    german, english = statement(draw, make_clause(draw, 0))
    return f"{german} .", f"{english} ."


def next_clause(draw: Draw, antecedent: Phrase) -> Clause:
    """A clause in which a pronoun may stand for the antecedent, the subject before it."""
    role = draw.weighted(dict(subject=45, goal=20, none=35))
    return make_clause(draw, 1, **{} if role == "none" else {role: pronoun_for(antecedent)})


def complex_sentence(draw: Draw) -> Pair:
    """A main clause with a verb-final adverbial clause after or before it."""
    first = make_clause(draw, 0)
    second = next_clause(draw, first.subject)
    clause_first = draw.chance(0.4)
    inner, outer = (first, second) if clause_first else (second, first)
    word, english_word = draw.zipf(SUBORDINATORS)
    if word == "wenn" and inner.tense == "perfect":  # the verb, at the clause's end, decides
        english_word = "whenever"
    german = f"{word} {german_clause(inner, 'final')}"
    english = f"{english_word} {english_clause(inner)}"
    if clause_first:
        main = german_clause(outer, "first"), english_clause(outer)
        return f"{german} , {main[0]} .", f"{english} , {main[1]} ."
    main = statement(draw, outer)
    return f"{main[0]} , {german} .", f"{main[1]} {english} ."


def reported_sentence(draw: Draw) -> Pair:
    """A verb of saying with a "dass" or "ob" clause."""
    speaker = noun_phrase(draw, draw.noun(person=1), 1)
    inner = next_clause(draw, speaker)
    word, english_word = ("dass", "that") if draw.chance(0.75) else ("ob", "whether")
    if word == "dass" and draw.chance(0.1):
        english_word = ""
    german, english = german_clause(inner, "final"), english_clause(inner)
    part = Part("after", f", {word} {german}", f"{english_word} {english}")
    verb, tense = draw.zipf(draw.lexicon.verbs["say"]), draw.weighted(TENSES)
    parts = (*adverbials(draw, tense, "say", 1), part)
    main = statement(draw, Clause(speaker, verb, tense, parts, negated=draw.chance(0.1)))
    return f"{main[0]} .", f"{main[1]} ."


def coordinated_sentence(draw: Draw) -> Pair:
    """Two main clauses."""
    first = make_clause(draw, 1)
    one, two = statement(draw, first), statement(draw, next_clause(draw, first.subject))
    word, english_word = draw.zipf(COORDINATORS)
    return f"{one[0]} , {word} {two[0]} .", f"{one[1]} , {english_word} {two[1]} ."


def question(draw: Draw) -> Pair:
    """A yes or no question, or one that opens with a question word."""
    kind = draw.weighted(dict(polar=45, adverb=25, subject=15, object=15))
    if kind == "subject":
        clause = make_clause(draw, 0, subject=WHO)
        return f"{german_clause(clause, 'second')} ?", f"{english_clause(clause)} ?"
    clause = make_clause(draw, 0, goal=WHO if kind == "object" else None)
    if kind == "adverb":
        words = draw.zipf(QUESTION_WORDS)
        clause = replace(clause, parts=(*clause.parts, Part("manner", *words, wh=True)))
    order = "first" if kind == "polar" else "second"
    return f"{german_clause(clause, order)} ?", f"{english_clause(clause, question=True)} ?"


PATTERNS = {simple_sentence: 45, complex_sentence: 20, reported_sentence: 10}
PATTERNS |= {coordinated_sentence: 13, question: 12}

# --- corpus --------------------------------------------------------------------------------------

DEFAULT_SIZES = {"train": 16000, "valid": 500, "test": 500}
LENGTHS = range(6, 31)  # tokens of a German sentence


def tidy(text: str) -> str:
    """Single spaces, no comma before another mark, "an" before a vowel."""
    text = re.sub(r"( ,)+(?= [,.?])", "", " ".join(text.split()))
    return re.sub(r"\ba(?= [aeiou])", "an", text)


def sentences(seed: int, split: str) -> Iterator[Pair]:
    """An endless stream of sentence pairs; each seed and split has its own."""
    draw = Draw(random.Random(f"{seed} {split}"), build_lexicon())
    while True:
        german, english = draw.weighted(PATTERNS)(draw)
        german = tidy(german)
        if len(german.split()) in LENGTHS:
            yield german, tidy(english)


def checked_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    """The default sizes with the given ones. Raises UserError if one is not a positive int."""
    for name, size in sizes.items():
        if name not in DEFAULT_SIZES:
            raise UserError(f"sizes: {name!r} is not a part of the corpus; use train, valid, test")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise UserError(f"--{name}-size: {size!r} is not allowed; give a whole number above 0")
    return DEFAULT_SIZES | dict(sizes)


def write_files(out: Path, files: Mapping[str, str]) -> None:
    """Writes all files under temporary names, then renames them: no file is ever half there."""
    out.mkdir(parents=True, exist_ok=True)
    drafts = {name: out / f".{name}.{os.getpid()}.tmp" for name in files}
    try:
        for name, text in files.items():
            drafts[name].write_text(text, encoding="utf-8", newline="\n")
        for name, draft in drafts.items():
            draft.replace(out / name)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def write_corpus(out: Path, seed: int = 1, sizes: Mapping[str, int] | None = None) -> None:
    """Writes train, valid and test (.de the source, .en the target) into the folder `out`.

    One tokenised sentence a line, the two sides aligned; the same seed and sizes give the same
    bytes. No source sentence of test or valid occurs twice, or in train.

    Args:
        out: the folder; it is made if it is missing.
        seed: any int. All seeds share one language.
        sizes: sentence pairs in "train", "valid", "test"; DEFAULT_SIZES for what is missing.

    Raises:
        UserError: a ValueError that names the option, for a seed, size or folder not allowed.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise UserError(f"--seed: {seed!r} is not allowed; give a whole number")
    wanted = checked_sizes(sizes or {})
    if out.exists() and not out.is_dir():
        raise UserError(f"OUT: {out} is a file; give a folder")
    held_out: set[str] = set()
    files = {}
    for split in ("test", "valid", "train"):
        pairs: list[Pair] = []
        stream = sentences(seed, split)
        while len(pairs) < wanted[split]:
            german, english = next(stream)
            if german not in held_out:
                pairs.append((german, english))
                if split != "train":
                    held_out.add(german)
        files[f"{split}.de"] = "".join(f"{german}\n" for german, _ in pairs)
        files[f"{split}.en"] = "".join(f"{english}\n" for _, english in pairs)
    write_files(out, files)
