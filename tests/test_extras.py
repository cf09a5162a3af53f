import pytest

from torchsets._extras import import_extra


def test_a_missing_extra_names_the_command():
    with pytest.raises(ImportError, match=r"pip install 'torchsets\[fast\]'"):
        import_extra("no_such_module_at_all", "fast")


def test_an_extra_that_is_there_is_returned():
    assert import_extra("json", "app").dumps([1]) == "[1]"


def test_an_error_inside_an_extra_is_not_hidden(tmp_path, monkeypatch):
    (tmp_path / "broken_extra.py").write_text("import another_missing_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="another_missing_module"):
        import_extra("broken_extra", "app")
