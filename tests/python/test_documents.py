"""Reading files: what is read, what is refused, and with which words."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrag.errors import IngestError
from pgrag.ingest import SourceDocument, read_document, walk_documents


def read(root: Path, content: str | bytes, name: str = "policy.md") -> SourceDocument:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_document(path, root)


def refused(root: Path, content: str | bytes, name: str = "policy.md") -> IngestError:
    with pytest.raises(IngestError) as caught:
        read(root, content, name)
    assert caught.value.code == "RG412"
    assert caught.value.hint
    assert str(root) not in f"{caught.value}{caught.value.hint}"
    return caught.value


def utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type, misc]


def test_a_plain_document(tmp_path: Path) -> None:
    document = read(tmp_path, "Intro\r\n\r\n# The *Travel* policy\r\n\r\nText\u2028more", "hr/travel.MD")
    assert document.key == "hr/travel.MD"
    assert document.body == "Intro\r\n\r\n# The *Travel* policy\r\n\r\nText\u2028more"
    assert document.title == "The Travel policy"
    assert document.parser == "markdown-1"
    assert document.readers is None
    assert document.tags == ()
    stated = (document.language, document.product, document.version, document.revision, document.date)
    assert stated == (None,) * 5
    assert (document.effective_from, document.effective_to) == (None, None)


def test_all_of_the_front_matter(tmp_path: Path) -> None:
    document = read(
        tmp_path,
        """---
title: "Travel: abroad"
language: no
product: Desk
version: 1.10
tags: [travel, "2024", travel]
readers: group:staff
revision: 007
effective_from: 2024-06-01
effective_to: 2025-06-01T00:00:00+02:00
date: 2024-05-31
---

# Another title
""",
    )
    assert document.title == "Travel: abroad"
    # YAML would make a number, false, and an octal of these.
    assert (document.version, document.language, document.revision) == ("1.10", "no", "007")
    assert document.product == "Desk"
    assert document.tags == ("travel", "2024")
    assert document.readers == ("group:staff",)
    assert document.effective_from == utc(2024, 6, 1)
    assert document.effective_to == utc(2025, 5, 31, 22)
    assert document.effective_to.tzinfo is dt.UTC
    assert document.date == dt.date(2024, 5, 31)
    assert document.body == "\n# Another title\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("before", ["", "\ufeff", "\n\n", " ", "\ufeff\n \n"])
def test_front_matter_is_found_behind_what_an_editor_leaves_there(
    tmp_path: Path, before: str, end: str
) -> None:
    document = read(tmp_path, before + end.join(["---", "readers: [hr]", "--- ", "Text"]))
    assert (document.readers, document.body) == (("hr",), "Text")


def test_nobody_is_not_the_same_as_not_said(tmp_path: Path) -> None:
    assert read(tmp_path, "---\nreaders: []\n---\n").readers == ()
    assert read(tmp_path, "---\n---\nText").readers is None


@pytest.mark.parametrize(
    ("front", "fact", "hint"),
    [
        ("reader: [hr]", "unknown key 'reader'", "did you mean readers?"),
        ("owner: hr", "unknown key 'owner'", "known: title,"),
        ("? [a]\n: b", "unknown key", "known"),
        ("<<: {a: b}", "unknown key", "known"),
        ("readers: [hr]\nreaders: [all]", "key readers twice", "keep one"),
        ("readers:", "no usable readers", "leave the key out"),
        ("readers: [hr, ~]", "no usable readers", "a list of texts"),
        ("readers: [[hr]]", "no usable readers", "a list of texts"),
        ("readers: {hr: yes}", "no usable readers", "a list of texts"),
        ("title: ''", "no usable title", "one value"),
        ("title: [a]", "no usable title", "one value"),
        ("effective_from: soon", "'soon', which is not a date", "2024-06-01"),
        ("effective_from: 2024-02-30", "not a date", "2024-06-01"),
        ("effective_from: 0001-01-01T00:00:00+09:00", "not a date", "2024-06-01"),
        ("date: 2024-06-01T10:00", "not a date", "2024-06-01"),
        ("effective_from: 2024-06-01\neffective_to: 2024-06-01", "before it starts", "swap"),
        ("just text", "not a list of keys", "***"),
        ("- a\n- b", "not a list of keys", "***"),
        ("title: [", "not YAML", "syntax"),
        ("title: a: b", "not YAML", "syntax"),
        ("title: *nowhere", "not YAML", "syntax"),
        ("tags: " + "[" * 5000, "not YAML", "syntax"),
        ("tags: &a [*a]", "no usable tags", "a list of texts"),
        (r'title: "\UFFFFFFFF"', "not YAML", "syntax"),
        (r'title: "\U7FFFFFFF"', "not YAML", "syntax"),
        (r'title: "a\0b"', "a character in title", "NUL"),
        (r'readers: ["a\ud800"]', "a character in readers", "surrogate"),
        (f"metadata: {{n: {'1' * 5000}}}", "a number in metadata n that is too large", "in quotes"),
        (f"metadata: {{n: {'1' * 400}.5}}", "a number in metadata n that is too large", "in quotes"),
    ],
)
def test_front_matter_that_is_not_understood_is_refused(
    tmp_path: Path, front: str, fact: str, hint: str
) -> None:
    error = refused(tmp_path, f"---\n{front}\n---\nText")
    assert fact in str(error)
    assert hint in error.hint
    assert str(error).startswith("policy.md ")


def test_front_matter_that_does_not_end_is_not_text(tmp_path: Path) -> None:
    assert "does not end" in str(refused(tmp_path, "---\nreaders: [hr]\n\nText"))


def test_no_python_object_comes_out_of_a_file(tmp_path: Path) -> None:
    assert (
        read(tmp_path, "---\ntitle: !!python/object/apply:os.system [x]\n---\n".replace(" [x]", " x")).title
        == "x"
    )


def test_a_rule_further_down_is_text(tmp_path: Path) -> None:
    body = "Text\n\n---\nreaders: [hr]\n---\n"
    assert read(tmp_path, body).body == body


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"abc\xff", "byte 0xff at offset 3"),
        (b"\xef\xbb\xbfab\xc3", "byte 0xc3 at offset 5"),
        ("Grüße".encode("utf-16"), "byte 0xff at offset 0"),
        (b"ab\xed\xa0\x80", "byte 0xed at offset 2"),
        (b"ab\0c", "NUL byte at offset 2"),
    ],
)
def test_what_is_not_text_is_refused_with_its_place(tmp_path: Path, content: bytes, fact: str) -> None:
    assert fact in str(refused(tmp_path, content, "sub/policy.txt"))


def test_titles_fall_back_to_the_heading_and_then_to_the_name(tmp_path: Path) -> None:
    assert read(tmp_path, "```\n# code\n````\n# Real #\n").title == "Real"
    assert read(tmp_path, "## Second level\n#hashtag\n").title == "policy"
    assert read(tmp_path, "# A line of a log\n", "log.txt").title == "log"
    assert read(tmp_path, "# \n", "sub/name@2024-06-01.md").title == "name"


def test_a_dated_name_is_a_revision(tmp_path: Path) -> None:
    document = read(tmp_path, "Text", "hr/policy@2024-06-01.md")
    assert (document.key, document.revision) == ("hr/policy.md", "2024-06-01")
    assert document.effective_from == utc(2024, 6, 1)

    stated = read(tmp_path, "---\nrevision: v7\neffective_from: 2024-07-01\n---\n", "policy@2024-06-01.md")
    assert (stated.key, stated.revision, stated.effective_from) == ("policy.md", "v7", utc(2024, 7, 1))

    assert read(tmp_path, "Text", "desk@agency.md").key == "desk@agency.md"
    assert "no such date" in str(refused(tmp_path, "Text", "policy@2024-02-30.md"))


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=200))
def test_a_body_is_what_the_file_has(text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        body = f"Text\n{text}"
        assert read(Path(folder), body, "a.txt").body == body


# -- Places --------------------------------------------------------------------------------------------


@pytest.mark.contract("C6")
def test_a_key_is_relative_to_the_root_however_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    read(root, "Text", "a/b.md")
    monkeypatch.chdir(root / "a")
    for path in (root / "a/b.md", Path("b.md"), Path("../a/b.md"), root / "a/../a/./b.md"):
        document = read_document(path, root)
        assert document.key == "a/b.md"
        assert str(tmp_path) not in repr(document)
    assert read_document("b.md", "..").key == "a/b.md"


@pytest.mark.contract("C6")
def test_nothing_outside_of_the_root_is_read(tmp_path: Path) -> None:
    root = tmp_path / "root"
    read(root, "Text", "ok.md")
    (tmp_path / "secret.md").write_text("secret")
    (root / "link.md").symlink_to(tmp_path / "secret.md")
    (tmp_path / "elsewhere").mkdir()
    read(tmp_path / "elsewhere", "secret", "x.md")
    (root / "folder").symlink_to(tmp_path / "elsewhere")
    for path in (root / "link.md", root / "../secret.md", root / "folder/x.md", tmp_path / "secret.md"):
        with pytest.raises(IngestError, match="out of the root"):
            read_document(path, root)
    with pytest.raises(IngestError, match="out of the root"):
        walk_documents(root)
    (root / "link.md").unlink()
    with pytest.raises(IngestError, match=r"folder leads out of the root"):
        walk_documents(root)
    (root / "folder").unlink()
    assert [document.key for document in walk_documents(root)[0]] == ["ok.md"]


def test_walking_sorts_and_lists_what_it_skips(tmp_path: Path) -> None:
    for name in ("b.md", "a/z.txt", "a/policy@2024-06-01.md", "a/policy@2023-01-01.md", "a/policy.md"):
        read(tmp_path, "Text", name)
    for name in ("slides.pdf", ".git/HEAD.md", ".hidden.md", "no-suffix"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"\xff")
    (tmp_path / "alias.md").symlink_to("b.md")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / ".#lock.md").symlink_to("nobody@host.1")
    os.mkfifo(tmp_path / "pipe.md")

    documents, skipped = walk_documents(tmp_path)
    assert [(document.key, document.revision) for document in documents] == [
        ("a/policy.md", None),
        ("a/policy.md", "2023-01-01"),
        ("a/policy.md", "2024-06-01"),
        ("a/z.txt", None),
        ("alias.md", None),
        ("b.md", None),
    ]
    assert {(skip.path, skip.reason) for skip in skipped} == {
        (".git", "hidden"),
        (".hidden.md", "hidden"),
        (".#lock.md", "hidden"),
        ("loop", "link to a folder"),
        ("no-suffix", "unsupported type"),
        ("pipe.md", "not a regular file"),
        ("slides.pdf", "unsupported type"),
    }
    assert walk_documents(tmp_path) == (documents, skipped)


def test_two_files_for_one_revision_are_refused(tmp_path: Path) -> None:
    read(tmp_path, "---\nrevision: 2024-06-01\n---\nText", "policy.md")
    read(tmp_path, "Text", "policy@2024-06-01.md")
    with pytest.raises(IngestError, match=r"policy@2024-06-01.md and policy.md are both revision"):
        walk_documents(tmp_path)


@pytest.mark.parametrize("name", ["slides.pdf", "missing.md", "folder.md", "dangling.md", "circle.md"])
def test_what_cannot_be_read_is_a_clear_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "slides.pdf").write_bytes(b"x")
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "dangling.md").symlink_to("nowhere")
    (tmp_path / "circle.md").symlink_to("circle.md")
    with pytest.raises(IngestError, match=f"^{name} ") as caught:
        read_document(tmp_path / name, tmp_path)
    assert caught.value.code == "RG412"


@pytest.mark.parametrize("hidden", ["policy.md", "drawer"])
def test_a_folder_that_may_not_be_entered_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    read(tmp_path, "Text", "drawer/policy.md")
    stat = Path.stat

    def refuse(path: Path, **options: bool) -> os.stat_result:  # root may enter every folder
        if path.name == hidden:
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refuse)
    for root in (tmp_path, tmp_path / "drawer"):
        with pytest.raises(IngestError) as error:
            walk_documents(root)
        assert error.value.code == "RG412" and error.value.hint


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    try:
        (tmp_path / os.fsdecode(b"caf\xe9.md")).write_text("x")
        (tmp_path / os.fsdecode(b"caf\xe9.pdf")).write_text("x")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    with pytest.raises(IngestError, match="name that is not UTF-8"):
        walk_documents(tmp_path)


@pytest.mark.parametrize("root", ["missing", "file.md"])
def test_the_root_has_to_be_a_folder(tmp_path: Path, root: str) -> None:
    (tmp_path / "file.md").write_text("x")
    with pytest.raises(IngestError, match="is not a folder"):
        walk_documents(tmp_path / root)


@pytest.mark.contract("F5")
def test_metadata_are_typed_as_written(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "---\nmetadata:\n  team: billing\n  priority: 3\n  ratio: 0.5\n  urgent: true\n  build: 007\n  release: 1.10.2\n  regions: [eu, no]\n---\nText.\n", encoding="utf-8"
    )
    document = read_document(tmp_path / "a.md", tmp_path)
    assert document.metadata == {
        "team": "billing", "priority": 3, "ratio": 0.5, "urgent": True, "build": "007", "release": "1.10.2", "regions": ["eu", "no"]}
    for wrong in ("metadata: billing", "metadata:\n  team:", "metadata:\n  a: {b: c}", "metadata:\n  a: 1\n  a: 2"):
        (tmp_path / "b.md").write_text(f"---\n{wrong}\n---\nText.\n", encoding="utf-8")
        with pytest.raises(IngestError, match="metadata"):
            read_document(tmp_path / "b.md", tmp_path)
