"""Settings: where they come from, what is refused, and that no secret is shown."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pgrag.config import Settings
from pgrag.errors import IdentityError, InvalidInput

KEY = "0123456789abcdef" * 4


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory and no settings in the environment."""
    for name in list(os.environ):
        if name.startswith("PGRAG_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_arguments_then_environment_then_file(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.load() == Settings()
    (alone / "pgrag.toml").write_text('dsn = "dbname=file"\ntenant = "file"\nsubject = "file"\n')
    monkeypatch.setenv("PGRAG_TENANT", "environment")
    monkeypatch.setenv("PGRAG_SUBJECT", "environment")
    monkeypatch.setenv("PGRAG_SOURCE", "")  # set to nothing is not set
    settings = Settings.load(subject="argument", token=None)
    assert (settings.dsn, settings.tenant, settings.subject) == ("dbname=file", "environment", "argument")
    assert settings.source is None and settings.token is None


def test_another_file(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (alone / "pgrag.toml").write_text('tenant = "here"\n')
    for name in ("a.toml", "b.toml"):
        (alone / name).write_text(f'tenant = "{name}"\n')
    monkeypatch.setenv("PGRAG_CONFIG", "a.toml")
    assert Settings.load().tenant == "a.toml" and Settings.load(config="b.toml").tenant == "b.toml"
    for missing in ("c.toml", alone):
        with pytest.raises(InvalidInput, match="cannot be read") as error:
            Settings.load(config=missing)
        assert error.value.code == "RG414"


def test_the_signing_key_is_hexadecimal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGRAG_SIGNING_KEY", KEY)
    assert Settings.load().signing_key == bytes.fromhex(KEY)
    for wrong in (KEY[:-1], KEY.replace("0", "g"), "secret secret secret secret secret"):
        with pytest.raises(InvalidInput, match="not hexadecimal") as error:
            Settings.load(signing_key=wrong)
        assert wrong not in str(error.value)
    with pytest.raises(IdentityError) as short:
        Settings.load(signing_key=KEY[:62])
    assert short.value.code == "RG211"


def test_no_secret_is_shown(alone: Path) -> None:
    secrets = {"token": "eyJ0b2tlbg.e30.sig", "signing_key": KEY, "embedder_options": {"api_key": "sk-12345"}}
    for dsn in (
        "postgresql://app:pass-word@db/knowledge",
        "host=db user=app password='pass-word' sslpassword=pass-word",
    ):
        settings = Settings.load(dsn=dsn, tenant="halvorsen", **secrets)  # type: ignore[arg-type]
        shown = repr(settings) + str(settings) + f"{settings}"
        for secret in ("pass-word", "eyJ0b2tlbg", KEY, str(bytes.fromhex(KEY)), "sk-12345"):
            assert secret not in shown
        assert "halvorsen" in shown and "host=db" in shown and "api_key" in shown
    assert "pass-word" not in repr(Settings.load(dsn="postgresql://app:pass-word@[db/x"))
    assert repr(Settings()) == "Settings()"


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ('tenat = "a"', "there is no setting 'tenat'"),
        ("tenant = 5", "the setting tenant is not text"),
        ('token = "sekrit', "is not TOML"),
        ('embedder_options = "sekrit"', "the setting embedder_options is no table"),
        ("[embedder]\nname = 'x'", "the setting embedder is not text"),
    ],
)
def test_what_a_file_may_not_say(alone: Path, text: str, fact: str) -> None:
    (alone / "pgrag.toml").write_text(text)
    with pytest.raises(InvalidInput, match=fact) as error:
        Settings.load()
    assert error.value.code == "RG414" and "sekrit" not in str(error.value) + error.value.detail
    assert error.value.hint.startswith("Did you mean tenant?") == (text.startswith("tenat"))


def test_options_that_are_nested_too_deeply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGRAG_EMBEDDER_OPTIONS", '{"a":' * 20_000)
    with pytest.raises(InvalidInput, match="embedder_options is no table"):
        Settings.load()


def test_arguments_that_are_not_known() -> None:
    with pytest.raises(InvalidInput, match="there is no setting 'subjekt'"):
        Settings.load(subjekt="alice")


def test_the_embedder(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.load().open_embedder() is None
    options: dict[str, Any] = {"model": "m", "dimension": 3, "processor": "encoder"}
    monkeypatch.setenv("PGRAG_EMBEDDER", "http:https://encoder.example/v1")
    monkeypatch.setenv("PGRAG_EMBEDDER_OPTIONS", json.dumps(options))
    embedder = Settings.load().open_embedder()
    assert embedder is not None and (embedder.processor, embedder.space.dimension) == ("encoder", 3)
    monkeypatch.delenv("PGRAG_EMBEDDER_OPTIONS")
    (alone / "pgrag.toml").write_text("[embedder_options]\nmodel = 'm'\ndimension = 4\n")
    embedder = Settings.load().open_embedder()
    assert embedder is not None and embedder.space.dimension == 4


def test_the_next_embedder(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.load(embedder="wordllama").open_next_embedder() is None
    (alone / "pgrag.toml").write_text(
        "next_embedder = 'http:https://e.example'\n[next_embedder_options]\nmodel = 'n'\ndimension = 5\napi_key = 'sk-12345'\n"
    )
    settings = Settings.load()
    embedder = settings.open_next_embedder()
    assert embedder is not None and embedder.space.dimension == 5 and settings.open_embedder() is None
    assert "api_key" in repr(settings) and "sk-12345" not in repr(settings)
    monkeypatch.setenv("PGRAG_NEXT_EMBEDDER_OPTIONS", '{"model": "n", "dimension": 6}')
    embedder = Settings.load().open_next_embedder()
    assert embedder is not None and embedder.space.dimension == 6


@pytest.mark.parametrize("setting", ["embedder", "next_embedder"])
@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("http:https://encoder.example/v1", {}, "nothing is given"),
        ("http:https://encoder.example/v1", {"model": "m", "dimension": 3, "api_kei": "sk-12345"}, "api_kei, dimension, model"),
        ("wordllama", {"name": "sk-12345"}, "name"),
    ],
)
def test_options_that_are_not_the_embedders(setting: str, name: str, options: dict[str, Any], said: str) -> None:
    settings = Settings.load(**{setting: name, f"{setting}_options": options})
    with pytest.raises(InvalidInput, match=f"{setting}_options does not fit the embedder: {said}") as error:
        settings.open_embedder() if setting == "embedder" else settings.open_next_embedder()
    assert error.value.code == "RG414" and "sk-12345" not in f"{error.value}" and "dimension" in error.value.hint
