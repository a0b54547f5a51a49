"""Packaging, documentation and public names cover all folders."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import passat

HOME = Path(__file__).resolve().parents[2]
FOLDERS = ("ir", "passmgr", "rules", "runtime", "src/passat")


def project() -> dict[str, Any]:
    return tomllib.loads((HOME / "pyproject.toml").read_text())


def python_files() -> list[Path]:
    found = [path for folder in FOLDERS for path in sorted((HOME / folder).rglob("*.py"))]
    return [path for path in found if not any(parent.is_symlink() for parent in path.parents)]


def test_packages_are_the_folders_with_an_init() -> None:
    expected = set()
    for path in python_files():
        if path.name == "__init__.py":
            parts = path.parent.relative_to(HOME).parts
            expected.add(".".join(parts[1:] if parts[0] == "src" else ("passat", *parts)))
    declared = project()["tool"]["setuptools"]["packages"]
    assert set(declared) == expected
    assert len(declared) == len(set(declared))


def test_every_folder_of_modules_is_a_package() -> None:
    assert not [path for path in python_files() if not (path.parent / "__init__.py").exists()]


def test_the_links_for_type_checkers_lead_to_the_rooms() -> None:
    for name, folder in project()["tool"]["setuptools"]["package-dir"].items():
        if name != "passat":
            link = HOME / "src" / Path(*name.split("."))
            assert link.is_symlink(), f"{link} is missing: cd src/passat && ln -s ../../{folder} {folder}"
            assert link.resolve() == HOME / folder


def test_every_public_name_is_there_and_documented() -> None:
    for name in passat.__all__:
        value = getattr(passat, name)
        assert value
        assert isinstance(value, str) or value.__doc__
    assert set(passat.__all__) <= set(dir(passat))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="optimse"):
        getattr(passat, "optimse")  # noqa: B009  # a type checker would reject the plain form


def test_the_changelog_has_the_version() -> None:
    assert project()["project"]["version"] == passat.__version__
    versions = re.findall(r"^## \[?([^\] ]+)", (HOME / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert passat.__version__ in versions or versions[0] == "Unreleased"


def test_the_license_is_the_one_that_is_declared() -> None:
    assert project()["project"]["license"] == "Apache-2.0 AND MIT"  # MIT is the license of dagre, which draws the pages of reports
    assert "Apache License\n                           Version 2.0, January 2004" in (HOME / "LICENSE").read_text()
