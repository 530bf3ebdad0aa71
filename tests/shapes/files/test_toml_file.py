"""TOML that is damaged or hostile: a table, or one line with file, place and way out."""

import pytest
from rooflens.shapes.errors import UsageError, quote
from rooflens.shapes.files import file_text
from rooflens.shapes.files.toml_file import parse_toml, read_toml


@pytest.mark.parametrize(
    "text, says",
    [
        ("a = \n", "s.toml: not valid TOML: Invalid value .at line 1, column 5."),
        ("a = " + "[" * 100_000, "s.toml: nested too deeply"),
        ("a = " + "[" * 60 + "]" * 60, "s.toml: nested too deeply"),
        ("[" + "a." * 100 + "b]\n", "s.toml: nested too deeply"),
        ("a" + ".a" * 50_000 + " = 1", "s.toml: nested too deeply"),
        ("[" + 'a . \'b"\' . "\\"" . ' * 20_000 + "a]", "s.toml: nested too deeply"),
        ("a = " + "1" * 5000, "s.toml: an integer has thousands of digits"),
    ],
)
def test_anything_else_is_one_line(text, says):
    with pytest.raises(UsageError, match=says) as raised:
        parse_toml(text, "s.toml")
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize("text", ["x = '" + "a." * 1000 + "'", "x = [" + "1.5," * 1000 + "]"])
def test_dots_of_values_are_no_levels(text):
    assert parse_toml(text, "s.toml")


def test_as_deep_as_we_read():
    deep = "[" * (file_text.DEEPEST - 1) + "1" + "]" * (file_text.DEEPEST - 1)
    value = parse_toml(f"a = {deep}", "s.toml")["a"]
    for _ in range(file_text.DEEPEST - 1):
        (value,) = value
    assert value == 1
    with pytest.raises(UsageError, match="nested too deeply"):
        parse_toml(f"a = [{deep}]", "s.toml")


def test_files(tmp_path):
    path = tmp_path / "s.toml"
    with pytest.raises(UsageError, match=r"cannot read suite .*s\.toml: No such file"):
        read_toml(path, "suite")
    path.write_bytes("\ufeffa = 'ß'\n".encode())
    assert read_toml(path) == {"a": "ß"}
    path.write_bytes(b"a = 1\nb = '\xff'\n")
    with pytest.raises(UsageError, match=r"s\.toml line 2: not a text file in UTF-8"):
        read_toml(path)


def test_a_message_repeats_80_characters_of_a_value():
    assert quote("short") == "'short'"
    assert quote("x" * 78) == f"'{'x' * 78}'"
    assert len(quote("x" * 100_000)) == 80
    assert quote([10**5000]) == "a value of type list"
