"""The rooms of the package and their floors: no import leads upwards, and none in a circle."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "pet_fairseq"

# A room is a folder or a module of the package. From the ground up: a room may import the rooms on
# the floors below it; rooms on one floor do not know each other. A new room needs a place here.
FLOORS = [
    ["errors", "all_sentences", "byte_pieces", "cli_command", "number_format", "statistics"],
    ["devices", "environment", "files", "markdown", "numpy_compatibility"],
    ["nn", "runs"],
    ["checkpoints"],
    ["multilingual"],
    ["demo", "distillation", "huggingface", "runner"],
    ["pet", "quantisation", "selfcp", "variator"],
    ["baselines", "decoding"],
    ["predict"],  # the server stands on it
    ["export", "results"],
    ["recipes"],
    ["compress"],  # a use of recipes, export and reports
    ["general_commands", "registry"],
    [""],  # the package's own __init__.py
    ["serve"],  # starts a process, which registers the package's models
    ["cli"],
]


def module_name(file: Path, package: Path) -> str:
    parts = [*file.relative_to(package).parent.parts, file.stem]
    return ".".join([package.name, *parts]).removesuffix(".__init__")


def read_imports(package: Path) -> dict[str, set[str]]:
    """Every module of a package -> the modules of the package that it imports anywhere in it."""
    files = {module_name(file, package): file for file in package.rglob("*.py")}
    imports = {}
    for name, file in files.items():
        parent = name.split(".") if file.stem == "__init__" else name.split(".")[:-1]
        imports[name] = {
            imported
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            for imported in imported_modules(node, parent, files)
        }
    return imports


def imported_modules(node: ast.AST, parent: list[str], modules: dict[str, Path]) -> set[str]:
    """The modules of the package that one import statement names; `parent` resolves dots."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names} & modules.keys()
    if not isinstance(node, ast.ImportFrom):
        return set()
    base = parent[: len(parent) - node.level + 1] if node.level else []
    source = ".".join([*base, *filter(None, [node.module])])
    if source not in modules:
        return set()
    # what is imported from a package is a module of it, or a name in its __init__.py
    paths = [f"{source}.{alias.name}" for alias in node.names]
    return {path if path in modules else source for path in paths}


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def upward_imports(imports: dict[str, set[str]], floors: list[list[str]]) -> list[str]:
    """`a -> b` for every import of a room that is not on a lower floor."""
    floor = {room: number for number, rooms in enumerate(floors) for room in rooms}
    return sorted(
        f"{module} -> {imported}"
        for module, others in imports.items()
        for imported in others
        if room_of(module) != room_of(imported)
        and floor[room_of(module)] <= floor[room_of(imported)]
    )


def find_circle(imports: dict[str, set[str]]) -> list[str]:
    """The modules of a circle of imports, the first one again at the end; empty without any."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    return read_imports(PACKAGE)


def test_every_room_has_a_floor(imports):
    assert {room_of(module) for module in imports} == {room for floor in FLOORS for room in floor}


def test_no_import_leads_upwards(imports):
    assert upward_imports(imports, FLOORS) == []


def test_no_circle_of_imports(imports):
    assert find_circle(imports) == []


# --- the tests above can fail ---------------------------------------------------------------------


@pytest.fixture
def house(tmp_path):
    """Two rooms, `low` and `high`, without any import."""
    for folder in ("house", "house/low", "house/high"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    for module in ("low/a.py", "low/b.py", "high/c.py"):
        (tmp_path / "house" / module).touch()
    return tmp_path / "house"


@pytest.mark.parametrize(
    "text",
    [
        "import house.high.c",
        "from house.high import c",
        "from house.high.c import name",
        "from ..high.c import name",
        "from ..high import c",
        "def f():\n    from house.high.c import name",
        "if TYPE_CHECKING:\n    import house.high.c as c",
    ],
)
def test_an_upward_import_is_seen(house, text):
    (house / "low/a.py").write_text(text)
    floors = [["low"], ["high"], [""]]
    assert upward_imports(read_imports(house), floors) == ["house.low.a -> house.high.c"]
    assert upward_imports(read_imports(house), floors[::-1]) == []
    neighbours = [["low", "high"], [""]]
    assert upward_imports(read_imports(house), neighbours) == ["house.low.a -> house.high.c"]


def test_a_circle_is_seen(house):
    (house / "low/a.py").write_text("from house.low import b")
    (house / "low/b.py").write_text("import torch\nfrom house.high.c import name")
    assert find_circle(read_imports(house)) == []
    (house / "high/c.py").write_text("def f():\n    from house.low.a import name")
    circle = find_circle(read_imports(house))
    assert set(circle) == {"house.low.a", "house.low.b", "house.high.c"} and len(circle) == 4
