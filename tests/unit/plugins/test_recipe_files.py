from pathlib import Path

import pytest

from agentcompass.contracts import PluginError
from agentcompass.plugins.registry import ComponentKind, Registry, load_registry

RECIPE = """
from agentcompass.contracts import NoParams, Recipe


class {name}(Recipe[NoParams]):
    id = "{id}"

    def matches(self, request, task, plan):
        return True

    def apply(self, plan, request, task):
        return plan.model_copy(update={{"applied_recipes": [self.id]}})
"""


def _load(*directories: Path) -> Registry:
    return load_registry([str(directory) for directory in directories], points=[])


def test_every_recipe_of_a_directory_is_registered_in_order_of_files(tmp_path: Path) -> None:
    (tmp_path / "b.py").write_text(RECIPE.format(name="B", id="b"))
    (tmp_path / "a.py").write_text(RECIPE.format(name="A", id="a") + RECIPE.format(name="A2", id="a2"))
    (tmp_path / "notes.txt").write_text("not a recipe")
    registry = _load(tmp_path)
    assert registry.ids(ComponentKind.RECIPE) == ["a", "a2", "b"]
    assert registry.get_recipe("a2").id == "a2"
    [first, *_] = registry.registrations(ComponentKind.RECIPE)
    assert first.plugin == str(tmp_path / "a.py")


def test_directories_may_hold_files_of_the_same_name(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.py").write_text(RECIPE.format(name="Same", id=name))
    registry = _load(tmp_path / "one", tmp_path / "two")
    assert [registry.get_recipe(name).id for name in ("one", "two")] == ["one", "two"]


def test_imported_and_abstract_recipes_are_not_registered(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text(
        "from agentcompass.contracts import NoParams, Recipe\n"
        "class Base(Recipe[NoParams]):\n    def matches(self, request, task, plan): return True\n"
    )
    assert _load(tmp_path).ids(ComponentKind.RECIPE) == []


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PluginError) as caught:
        _load(tmp_path / "none")
    assert str(caught.value) == f"recipe directory '{tmp_path / 'none'}' does not exist"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("def broken(:", "SyntaxError: invalid syntax (r.py, line 1)"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_file_that_cannot_be_imported_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "r.py").write_text(text)
    with pytest.raises(PluginError) as caught:
        _load(tmp_path)
    assert str(caught.value) == f"recipe file {tmp_path / 'r.py'}: {problem}"


def test_a_recipe_without_an_id_is_named(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text(RECIPE.format(name="Nameless", id=""))
    with pytest.raises(PluginError, match=f"recipe Nameless in {tmp_path}/r.py has no id"):
        _load(tmp_path)


def test_two_recipes_with_one_id_name_both_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(RECIPE.format(name="Same", id="same"))
    with pytest.raises(PluginError) as caught:
        _load(tmp_path)
    assert f"recipe 'same' of plugin '{tmp_path}/b.py' is already registered by '{tmp_path}/a.py'" in str(
        caught.value
    )
