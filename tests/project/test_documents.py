"""Documents name rooms, files and headings that are there, and lead to one another."""

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
    names = re.findall(r"`([\w/]+\.(?:py|sh|md|yaml))`", DEVELOPMENT.read_text())
    names = [name for name in names if "NAME" not in name and "/" in name]
    places = (REPO, REPO / "pet_fairseq", REPO / "examples/_recipes")
    assert names
    assert [name for name in names if not any((place / name).is_file() for place in places)] == []


def prose(path: Path) -> str:
    """A document without its blocks of code."""
    return re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them: the second equal one gets -1."""
    names: list[str] = []
    for heading in re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        names.append(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return {
        name + (f"-{names[:i].count(name)}" if name in names[:i] else "")
        for i, name in enumerate(names)
    }


def links(path: Path) -> list[tuple[Path, str]]:
    """The files, or folders, that a document links to, and the anchors in them, if any."""
    targets = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if not re.match(r"\w+:", link):
            file, _, anchor = link.partition("#")
            targets.append(((path.parent / file).resolve() if file else path, anchor))
    return targets


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(REPO)))
def test_links_lead_somewhere(path):
    broken = [
        f"{target}#{anchor}"
        for target, anchor in links(path)
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]
    assert broken == []


def test_every_page_can_be_reached_from_the_index():
    index = REPO / "docs/index.md"
    reached, ahead = {index}, [index]
    while ahead:
        for target, _ in links(ahead.pop()):
            if target.suffix == ".md" and target not in reached:
                reached.add(target)
                ahead.append(target)
    assert set((REPO / "docs").rglob("*.md")) - reached == set()


def test_the_site_lists_every_page():
    """mkdocs adds pages of examples/ and scripts/ by scripts/docs/hooks.py."""
    names = re.findall(r"(\S+\.md)$", (REPO / "mkdocs.yml").read_text(), re.MULTILINE)
    assert len(names) > 30
    names.remove("readme.md")  # README.md
    missing = [n for n in names if not any((REPO / top / n).is_file() for top in ("docs", ""))]
    assert missing == []
    pages = {str(page.relative_to(REPO / "docs")) for page in (REPO / "docs").rglob("*.md")}
    assert pages - set(names) == set()
