"""Documents name rooms, files and headings that are there."""

import re
from pathlib import Path

import pytest

from tests.test_rooms import FLOORS

REPO = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "scripts/*.md")
    for path in REPO.glob(pattern)
)
DEVELOPMENT = REPO / "docs/development.md"


def test_development_lists_every_room_from_the_top_down():
    text = DEVELOPMENT.read_text().split("## Floors")[1].split("\n## ")[0]
    rooms = [
        room.replace("__init__", "") for room in re.findall(r"^\|[^|]*\| `(\w+)` \|", text, re.M)
    ]
    floor = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
    assert sorted(rooms) == sorted(floor)
    floors = [floor[room] for room in rooms]
    assert floors == sorted(floors, reverse=True)


def test_development_names_files_that_are_there():
    names = re.findall(r"`([\w/]+\.(?:py|sh|md))`", DEVELOPMENT.read_text())
    names = [name for name in names if "NAME" not in name and "/" in name]
    places = (REPO, REPO / "pet_fairseq")
    assert names
    assert [name for name in names if not any((place / name).is_file() for place in places)] == []


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(REPO)))
def test_links_lead_somewhere(path):
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if re.match(r"\w+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []
