import pytest
import torch

from torchsets.data import data_folder
from torchsets.lab.cli import main
from torchsets.lab.scenes import compare_scenes, edge_shares


def test_the_command_draws_a_sheet(tmp_path, capsys):
    pillow = pytest.importorskip("PIL.Image")
    path = tmp_path / "sheet.png"
    main(["scenes", "--count", "3", "--size", "16", "--seed", "2", "-o", str(path)])
    assert capsys.readouterr().out == f"wrote {path}\n"
    plain = path.read_bytes()
    with pillow.open(path) as sheet:
        assert sheet.size == (3 * 16 + 4, 16)
    main(["scenes", "--count", "3", "--size", "16", "--seed", "2", "--boxes", "-o", str(path)])
    assert path.read_bytes() != plain


def test_a_file_that_cannot_be_written_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["scenes", "--count", "1", "--size", "4", "-o", str(tmp_path / "no" / "sheet.png")])
    assert "cannot write" in capsys.readouterr().err


def test_edges_are_counted_where_they_are():
    images = torch.zeros(1, 3, 128, 128, dtype=torch.uint8)
    images[..., :64, :] = 255  # one level edge, in the middle
    level, upright = edge_shares(images).view(2, 3, 9, 9)
    assert upright.sum() == 0
    assert (level[:, [row for row in range(9) if row != 4]] == 0).all()
    assert level[0, 4, 0] == pytest.approx(3 / 7)  # the filter spreads it over three steps


def test_missing_pictures_are_explained(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    with pytest.raises(SystemExit):
        main(["scenes", "--compare", "-o", str(tmp_path / "sheet.png")])
    assert "CLEVR_v1.0" in capsys.readouterr().err


@pytest.mark.skipif(
    not (data_folder() / "clevr" / "CLEVR_v1.0" / "images").is_dir(),
    reason="needs pictures of CLEVR in TORCHSETS_DATA/clevr",
)
@pytest.mark.slow
def test_rendered_pictures_are_close_to_the_real_ones(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    measured = compare_scenes(tmp_path / "beside.png", training=1500)
    assert max(measured.colours) < 6
    assert measured.inside < 0.5 * measured.bare
    assert measured.errors[0] < 1.1
    assert measured.errors[1] < 1.4 < measured.constant[1]
    assert (tmp_path / "beside.png").stat().st_size < 300_000
