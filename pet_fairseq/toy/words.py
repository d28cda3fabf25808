"""Closed word classes of the toy languages: articles, pronouns, auxiliaries, numbers, times."""

Pair = tuple[str, str]  # the same in German and English, or the two numbers of an English noun


def word_table(text: str) -> list[tuple[str, ...]]:
    """Rows that commas part, of cells that spaces part; "_" stands for a space in a cell."""
    return [tuple(c.replace("_", " ") for c in row.split()) for row in text.split(",")]


def _by_first(text: str) -> dict[str, tuple[str, ...]]:
    """The first cell of each row names the rest."""
    return {row[0]: row[1:] for row in word_table(text)}


def _paradigm(text: str) -> dict[str, dict[str, str]]:
    """Rows for four cases, each of masculine, feminine, neuter, plural."""
    rows = zip(("nom", "acc", "dat", "gen"), word_table(text), strict=True)
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
SPOTS = word_table("in in into, in at to, auf on onto, auf at to, an by up_to, unter under under")
# Preposition, its case, English with a person, English with anything else.
COMPANIONS = word_table("""
    mit dat with using, für acc for for, ohne acc without without, gegen acc against in_return_for,
    wegen gen because_of because_of, bei dat beside during, trotz gen despite despite
""")
GOVERNED = word_table(
    "auf acc, an acc, über acc, um acc, vor dat, nach dat, von dat, zu dat, mit dat"
)
GOVERNED_ENGLISH = "for on about of at from".split()
CONTRACTIONS = dict(
    word_table(
        "in_dem im, in_das ins, an_dem am, zu_dem zum, zu_der zur, von_dem vom, bei_dem beim"
    )
)
SUBORDINATORS = word_table("""
    weil because, obwohl although, wenn if, während while, bevor before, nachdem after,
    sobald as_soon_as, bis until, falls in_case
""")
COORDINATORS = word_table("und and, aber but, denn for, oder or")
TIMES = {
    "present": word_table("heute today, jetzt now, gerade right_now"),
    "perfect": word_table("gestern yesterday, neulich recently, damals back_then"),
    "werden": word_table("morgen tomorrow, bald soon, demnächst before_long"),
}
SPANS = dict(present=("seit", "for {}"), perfect=("vor", "{} ago"), werden=("in", "in {}"))
SPAN_UNITS = word_table("tagen days, jahren years, wochen weeks, stunden hours")
OFTEN = word_table("oft often, immer always, selten rarely, meistens usually")
QUESTION_WORDS = word_table("wann when, warum why, wo where, wie how")
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
