"""JSON files that are damaged or hostile: an object, or one line with file, place and way out."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.shapes.errors import UsageError
from rooflens.shapes.files import json_file
from rooflens.shapes.files.json_file import parse_object, read_object

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.text(), VALUES))
def test_an_object_comes_back(content):
    assert parse_object(json.dumps(content).encode(), "run.json") == content


@pytest.mark.parametrize(
    "content, says",
    [
        (b"", "run.json line 1, column 1: Expecting value"),
        (b'{"a": 1,\n "b": }', "run.json line 2, column 7: Expecting value"),
        (b"[1]", "run.json: a JSON object is expected"),
        (b'{"a": "\xff"}', "cannot read run.json: 'utf-8' codec can't decode byte 0xff in position 7"),
        (b'{"a":' * 100_000, "run.json: nested too deeply"),
        (b'{"a": ' + b"1" * 5000 + b"}", "run.json: an integer has thousands of digits"),
    ],
    ids=["nothing", "half", "a list", "no UTF-8", "nested", "a long integer"],
)
def test_anything_else_is_one_line(content, says):
    with pytest.raises(UsageError) as raised:
        parse_object(content, "run.json")
    assert str(raised.value).startswith(says)
    assert str(raised.value).endswith("; restore the file from a copy")
    assert len(str(raised.value)) < 250


@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
def test_whatever_the_bytes_are(content):
    try:
        found = parse_object(content, "run.json")
    except UsageError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017
    else:
        assert isinstance(found, dict)


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(json_file, "MOST_BYTES", 1000)
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"a": "b" * 900}))
    assert read_object(path)["a"] == "b" * 900
    path.write_text(json.dumps({"a": "b" * 1000}))
    with pytest.raises(UsageError, match=r"run\.json is larger than"):
        read_object(path)


def test_a_file_that_is_not_there_and_one_that_is_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_object(tmp_path / "run.json")
    with pytest.raises(UsageError, match=r"cannot read .*Is a directory"):
        read_object(tmp_path)
