"""The messages in docs/troubleshooting.md are those that the code has."""

import ast
import re

import pytest

from tests.project.test_documents import REPO

ROWS = re.findall(
    r"^\| (.*) \| .* \|$", (REPO / "docs/troubleshooting.md").read_text(), re.MULTILINE
)
WORDS = re.compile(r"(?<![\w-])[a-z][a-z',; ]{5,}[a-z](?![\w-])")  # no names, no numbers


@pytest.fixture(scope="module")
def code() -> str:
    """The texts in the package, with a sign where a value is put in, and the shell scripts."""
    texts = [path.read_text() for path in (REPO / "scripts").rglob("*.sh")]
    for path in (REPO / "pet_fairseq").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                values = [part.value for part in node.values]  # of a value an expression
                texts.append("".join(v if isinstance(v, str) else "%" for v in values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


def messages() -> list[str]:
    """The messages of all tables; rows without one describe what people see."""
    return [message for row in ROWS for message in re.findall(r"`([^`]+)`", row) if " " in message]


@pytest.mark.parametrize("message", messages())
def test_a_message_is_in_the_code(message, code):
    parts = WORDS.findall(message)
    assert any(part.removeprefix("fairseq ") in code for part in parts)  # {package} in the code
