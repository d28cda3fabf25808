"""What fairseq is to know of the package is registered, all of it."""

import ast
from pathlib import Path

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

import pet_fairseq
from pet_fairseq.registry import REGISTERED

PACKAGE = Path(__file__).parents[1] / "pet_fairseq"


def registrations(tree: ast.Module) -> list[tuple[str, str]]:
    """Decorators such as @register_model("variator"): function and name."""
    calls = [
        decorator
        for node in ast.walk(tree)
        if isinstance(node, (ast.ClassDef, ast.FunctionDef))
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name)
    ]
    return [
        (call.func.id, call.args[0].value) for call in calls if call.func.id.startswith("register_")
    ]


MODULES = {
    str(file.relative_to(PACKAGE)): names
    for file in sorted(PACKAGE.rglob("*.py"))
    if (names := registrations(ast.parse(file.read_text(encoding="utf-8"))))
}


def test_the_registry_lists_the_modules_that_register():
    """Else a name would be known in some processes only: where another import has led to it."""
    names = {".".join(Path(module).with_suffix("").parts) for module in MODULES}
    assert names == set(REGISTERED)
    assert len(REGISTERED) == len(names)


def test_all_names_are_registered():
    pet_fairseq.register()
    registries = {
        "register_model": MODEL_REGISTRY,
        "register_task": TASK_REGISTRY,
        "register_criterion": CRITERION_REGISTRY,
    }
    names = [entry for entries in MODULES.values() for entry in entries if entry[0] in registries]
    assert len(names) > 8
    assert not [(kind, name) for kind, name in names if name not in registries[kind]]
