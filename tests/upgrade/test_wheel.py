"""The wheel has what a checkout has: SQL, migrations, the built script, the sample corpus, the types' marker."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from pgrag import __version__, _sql, migrations

ROOT = Path(__file__).resolve().parents[2]
# As a user would say it, far from any checkout.
LOOK = """
import sys
from pathlib import Path
import pgrag
from pgrag import _sql, migrations
home = Path(pgrag.__file__).resolve().parent
assert home.is_relative_to(sys.prefix), home
for part in ("sql", "migrations", "dist", "handbook"):
    assert _sql.files(part).is_relative_to(home), part
assert (home / "py.typed").is_file()
assert _sql.install_script() == _sql.build()
assert "RG109" in _sql.uninstall_script()
assert (_sql.files("handbook") / "corpus.yaml").is_file()
sys.stdout.buffer.write(migrations.script().encode())
"""


def run(*command: str | Path, **options: object) -> bytes:
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False, **options)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    return done.stdout


def build(source: Path, target: Path) -> Path:
    """Build a wheel as pip does; in this environment, where it has the build backend."""
    here = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *here, "--wheel-dir", target, source)
    (wheel,) = target.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"))


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.contract("L1")
def test_it_contains_every_file(wheel: Path) -> None:
    expected = {"pgrag/py.typed", f"pgrag_postgres-{__version__}.dist-info/licenses/LICENSE"}
    for part in ("sql", "migrations", "dist", "handbook"):
        folder = _sql.files(part)
        expected |= {
            f"pgrag/_files/{part}/{path.relative_to(folder).as_posix()}"
            for path in folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
    expected |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "pgrag").rglob("*.py")}
    assert len(expected) > 150
    found = names(wheel)
    assert expected <= found, expected - found
    # And nothing that is not for users: no tests, no caches, no shared data.
    assert {name.split("/")[0] for name in found} == {"pgrag", f"pgrag_postgres-{__version__}.dist-info"}
    assert not [
        name for name in found if "__pycache__" in name or ("jsonl" in name and "handbook" not in name)
    ]


@pytest.mark.contract("L1")
def test_what_is_installed_from_it_finds_them(wheel: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "a fresh environment"
    run(sys.executable, "-m", "venv", "--without-pip", fresh)
    python = fresh / "bin" / "python"
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        wheel,
    )
    # The dependencies are this environment's, after the fresh one's own packages.
    (packages,) = fresh.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(
        "\n".join(path for path in sys.path if "site-packages" in path), encoding="utf-8"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    said = run(python, "-c", LOOK, cwd=tmp_path, env=environment)
    assert said.decode() == migrations.script()


@pytest.mark.contract("L1")
def test_a_wheel_from_the_source_distribution_is_the_same(wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    run(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", tmp_path, cwd=ROOT)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as unpack:
        unpack.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert names(build(source, tmp_path / "wheels")) == names(wheel)
