"""Test sets that sacreBLEU knows by name, such as sacrebleu:wmt19."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Optional

from pet_fairseq.errors import UserError, did_you_mean

PREFIX = "sacrebleu:"


class NamedSet(NamedTuple):
    """A test set of sacreBLEU's, and its language pair such as de-en; None where it is not said."""

    name: str
    pair: Optional[str] = None

    def __str__(self) -> str:
        return PREFIX + ":".join(filter(None, self))


def named_set(word: str, option: str) -> Optional[NamedSet]:
    """The test set that sacrebleu:NAME or sacrebleu:NAME:SOURCE-TARGET names; None for other words.

    Args:
        option: names the word in errors.
    Raises:
        UserError: sacreBLEU has no such set, or not of that pair.
    """
    if not word.startswith(PREFIX):
        return None
    from sacrebleu.utils import get_available_testsets

    name, _, pair = word.removeprefix(PREFIX).partition(":")
    known = get_available_testsets()
    if name not in known:
        raise UserError(
            f"{option} {word}: sacreBLEU has no such test set{did_you_mean(name, known)} "
            "(sacrebleu --list shows them)"
        )
    found = NamedSet(name, pair or None)
    if pair:
        check_pair(found, pair, option)
    return found


def pair_of(languages: Sequence[str]) -> str:
    """A language pair as test sets name it, without regions and scripts: `de_DE` is de."""
    return "-".join(re.split("[_-]", language)[0] for language in languages)


def check_pair(test_set: NamedSet, pair: str, option: str) -> None:
    """Raise UserError for a pair that a set does not have."""
    from sacrebleu.utils import get_langpairs_for_testset

    known = get_langpairs_for_testset(test_set.name)
    if pair not in known:
        raise UserError(
            f"{option} {test_set}: has no {pair}, only {', '.join(known)}; name one of them, such "
            f"as {PREFIX}{test_set.name}:{known[0]}"
        )


def set_files(test_set: NamedSet, option: str, languages: Sequence[str] = ()) -> tuple[Path, Path]:
    """The files of sources and of references, the first ones where there are several.

    They lie where sacreBLEU keeps them, which downloads them if they are not there yet.

    Args:
        option: names the set in errors.
        languages: source and target, for a set whose pair is not said.
    Raises:
        UserError: it has no such pair, or cannot be downloaded.
    """
    from sacrebleu.utils import SACREBLEU_DIR, get_reference_files, get_source_file

    pair = test_set.pair or pair_of(languages)
    if not pair:
        raise UserError(f"{option} {test_set}: name its languages, such as {test_set}:de-en")
    check_pair(test_set, pair, option)
    try:
        source = get_source_file(test_set.name, pair)
        return Path(source), Path(get_reference_files(test_set.name, pair)[0])
    except (OSError, SystemExit) as error:  # it ends the process if a download is damaged
        raise UserError(
            f"{option} {test_set}: sacreBLEU cannot get it ({error}); copy "
            f"{Path(SACREBLEU_DIR, test_set.name)} from a machine that has it"
        ) from error
