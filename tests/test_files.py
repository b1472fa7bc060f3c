"""Files that appear whole or not at all."""

import io
import os
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits._util.files import archive, write_whole
from trials import examples


def test_failed_write_leaves_only_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, lambda stream: stream.write(b"old"))

    def fail(stream: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, fail)
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
    assert path.read_bytes() == b"old"


def test_only_lasting_files_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    write_whole(tmp_path / "a", lambda stream: stream.write(b"a"))
    assert len(waited) == 1
    write_whole(tmp_path / "b", lambda stream: stream.write(b"b"), lasting=False)
    assert len(waited) == 1
    assert (tmp_path / "b").read_bytes() == b"b"


def test_two_writers_at_once_publish_one_or_the_other(tmp_path: Path) -> None:
    path = tmp_path / "a"
    contents = [letter * 100_000 for letter in (b"x", b"y")]
    seen = []

    def write(content: bytes) -> None:
        for _ in range(20):
            write_whole(path, lambda stream: stream.write(content))
            seen.append(path.read_bytes())

    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(seen) == 40
    assert set(seen) <= set(contents)
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def test_error_names_the_path_that_was_given(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(tmp_path / "nowhere" / "file", lambda stream: stream.write(b""))
    assert caught.value.filename == str(tmp_path / "nowhere" / "file")


def test_a_folder_is_named_as_one(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="is a folder") as caught:
        write_whole(tmp_path, lambda stream: stream.write(b"new"))
    assert caught.value.filename == str(tmp_path)
    assert list(tmp_path.parent.glob(".draft-*")) == []


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read = []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    write_whole(path, lambda stream: stream.write(b"new"))
    reader.join(timeout=60)
    assert read == [b"new"]
    assert path.is_fifo()


def test_a_link_stays_and_leads_to_the_new_file(tmp_path: Path) -> None:
    target, link = tmp_path / "there" / "a", tmp_path / "link"
    target.parent.mkdir()
    link.symlink_to(target)
    for content in (b"first", b"second"):
        write_whole(link, lambda stream, content=content: stream.write(content))  # type: ignore[misc]
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert [file.name for file in target.parent.iterdir()] == ["a"]


@examples(50)
@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.lists(st.floats(width=64), min_size=2, max_size=2))))
def test_an_archive_is_what_numpy_writes(columns: dict[str, list[list[float]]]) -> None:
    arrays: dict[str, Any] = {name: np.array(rows).reshape(-1, 2) for name, rows in columns.items()}
    arrays |= {
        "words": np.array("ε 滑"),
        "whole": np.arange(6)[::2],
        "turned": np.eye(2, 3).T,
        "none": np.zeros((0, 3)),
    }
    stream = io.BytesIO(archive(arrays))
    assert zipfile.ZipFile(stream).testzip() is None
    stream.seek(0)
    with np.load(stream, allow_pickle=False) as loaded:
        assert list(loaded) == list(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(loaded[name], array, strict=True)
