"""Imported by fuzz.py: the readers of pet_fairseq, by name.

A reader is prepared once in a folder and then gives, for a source of random numbers, a function
that reads one input. A new reader is a function in the file of its subject, and a name in READERS.
"""

from fuzz_inputs import Prepare
from fuzz_models import bank, bert, checkpoint, manifest, packed, repair
from fuzz_options import heads, pairs, patience, ratios
from fuzz_texts import dictionary, json_lines, outputs, pronunciations, record, scores

READERS: dict[str, Prepare] = {
    reader.__name__: reader
    for reader in (
        *(pairs, heads, patience, ratios),
        *(json_lines, dictionary, outputs, pronunciations, scores, record),
        *(manifest, bank),
        *(checkpoint, repair, packed, bert),
    )
}
