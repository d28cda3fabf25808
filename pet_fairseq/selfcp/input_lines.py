"""Lines of text that a model is to answer: QUERY <prompt> PROMPT, or only a prompt."""

from fairseq.data import Dictionary
from torch import Tensor

from pet_fairseq.byte_pieces import SPACE
from pet_fairseq.errors import UserError
from pet_fairseq.selfcp.template import Template

BLANKS = (SPACE, "\u0120")  # a space alone, in pieces of SentencePiece and of bytes


def complete_line(line: str, template: Template, symbol: str) -> str:
    """A line with the template's text in front.

    Args:
        symbol: --prompt-symbol.
    Raises:
        UserError: that text has the symbol, at which the line would be divided.
    """
    before = template.before
    if symbol in before:
        raise UserError(
            f"--prompt-symbol {symbol}: stands in the text in front of each query, too; give "
            "a word of the dictionary that does not"
        )
    if before and symbol not in line:
        return f"{before}{symbol}{template.between}{line}"
    return before + line


def symbol_index(symbol: str, dictionary: Dictionary) -> int:
    """The number of --prompt-symbol.

    Raises:
        UserError: the dictionary lacks it.
    """
    index = dictionary.index(symbol)
    if index == dictionary.unk():
        raise UserError(
            f"--prompt-symbol {symbol}: not in the dictionary; give a word of "
            "it that no text has, such as <|endoftext|> where the tokenizer has that"
        )
    return index


def divide_line(
    tokens: Tensor, symbol: int, dictionary: Dictionary, before: list[int]
) -> tuple[Tensor, Tensor]:
    """Query and prompt of a completed line.

    Args:
        tokens: of the line, which may end in </s>; symbol: `symbol_index`.
        before: tokens of the template's text in front.
    """
    if len(tokens) and tokens[-1] == dictionary.eos():  # a chat's text may hold more
        tokens = tokens[:-1]
    if not tokens.eq(symbol).any():
        return tokens[:0], tokens  # all is prompt
    query, prompt = split_at(tokens, symbol)
    # what "query <prompt> text" has before the symbol
    blanks = {dictionary.index(name) for name in BLANKS} - {dictionary.unk()}
    ends_in_blank = len(query) > 0 and int(query[-1]) in blanks
    if ends_in_blank and query.tolist() != before:
        query = query[:-1]
    return query, prompt


def split_at(tokens: Tensor, symbol: int) -> tuple[Tensor, Tensor]:
    """Return the tokens before and after the first such symbol."""
    first = int(tokens.eq(symbol).nonzero()[0])
    return tokens[:first], tokens[first + 1 :]


def find_query_ends(src_tokens: Tensor, boundary: int, before: list[int]) -> Tensor:
    """Where each query ends, B: at the first boundary behind those of the template.

    Args:
        src_tokens: as PromptDataset makes them. boundary: <s>.
        before: tokens of the template's text in front.
    Raises:
        UserError: a line has more of them.
    """
    starts = src_tokens.eq(boundary).int()
    ending = before.count(boundary) + 1
    if starts.sum(dim=1).max() > ending:
        raise UserError(
            "input: a line has <s> in its text, and fairseq-interactive does not say where the "
            "query ends; use pet_fairseq.from_pretrained, or leave it out"
        )
    return starts.cumsum(dim=1).eq(ending).int().argmax(dim=1)
