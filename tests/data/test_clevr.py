import gzip
import json

import pytest
import torch

from torchsets.data import (
    clevr_scenes,
    data_folder,
    read_clevr_scenes,
    sample_scenes,
    scene_relations,
    write_clevr_scenes,
)

# Two scenes of our own in CLEVR's form: a red ball left of, and behind, a small brown cylinder.
OBJECTS = [
    {
        "color": "red",
        "size": "large",
        "rotation": 12.5,
        "shape": "sphere",
        "3d_coords": [-2.0, 0.5, 0.7],
        "material": "metal",
        "pixel_coords": [100, 120, 11.5],
    },
    {
        "color": "brown",
        "size": "small",
        "rotation": 200.0,
        "shape": "cylinder",
        "3d_coords": [2.0, -0.5, 0.35],
        "material": "rubber",
        "pixel_coords": [300, 220, 8.5],
    },
]
SCENES = [
    {
        "image_index": 7,
        "image_filename": "CLEVR_val_000007.png",
        "split": "val",
        "objects": OBJECTS,
        "relationships": {
            "left": [[], [0]],
            "right": [[1], []],
            "front": [[1], []],
            "behind": [[], [0]],
        },
        "directions": {},
    },
    {
        "image_index": 8,
        "objects": OBJECTS[:1],
        "relationships": {name: [[]] for name in ("left", "right", "front", "behind")},
    },
]


def write(path, scenes=SCENES):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"info": {"split": "val"}, "scenes": scenes})
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["CLEVR_val_scenes.json", "CLEVR_val_scenes.json.gz"])
def test_reads_scenes(tmp_path, monkeypatch, name):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    write(tmp_path / "clevr" / "CLEVR_v1.0" / "scenes" / name)
    scenes = clevr_scenes("val")
    assert scenes.sizes.tolist() == [2, 1]
    assert scenes.numbers.tolist() == [7, 8]
    assert scenes.attributes.tolist() == [[4, 1, 0, 0], [7, 0, 2, 1], [4, 1, 0, 0]]
    torch.testing.assert_close(scenes.positions[1], torch.tensor([2.0, -0.5, 0.35]))
    assert scenes.rotations.tolist() == [12.5, 200.0, 12.5]
    assert scenes.pixels[1].tolist() == [300.0, 220.0, 8.5]
    assert scenes.relations.tolist() == [[0, 2, 2, 0], [1, 0, 0, 1], [0, 0, 0, 0]]
    assert torch.equal(scene_relations(scenes, recorded=False), scenes.relations)


def test_recorded_relations_go_before_computed_ones(tmp_path):
    turned = json.loads(json.dumps(SCENES))
    sides = turned[0]["relationships"]
    sides["left"], sides["right"] = sides["right"], sides["left"]
    scenes = read_clevr_scenes(write(tmp_path / "turned.json", turned))
    assert scene_relations(scenes)[0].tolist() == [2, 0, 2, 0]


def test_what_is_written_is_read(tmp_path):
    drawn = sample_scenes(20, seed=3, first=5)
    write_clevr_scenes(tmp_path / "ours.json", drawn, "val")
    read = read_clevr_scenes(tmp_path / "ours.json")
    for name in ("positions", "attributes", "rotations", "sizes", "numbers"):
        assert torch.equal(getattr(read, name), getattr(drawn, name))
    assert torch.equal(read.relations, scene_relations(drawn))
    assert read.pixels is None
    assert [path.name for path in tmp_path.iterdir()] == ["ours.json"]


def test_a_missing_file_says_what_to_download(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    with pytest.raises(
        FileNotFoundError, match=r"CLEVR_val_scenes.json is missing: download https.*no_images.zip"
    ):
        clevr_scenes("val")


def test_the_scenes_of_the_test_split_are_not_public():
    with pytest.raises(ValueError, match='split must be "train" or "val", got \'test\''):
        clevr_scenes("test")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((1, "objects", 0, "color"), "pink"),
        ((1, "objects", 0, "3d_coords"), [1.0, 2.0]),
        ((1, "relationships", "left"), []),
        ((1, "relationships", "left"), [[3]]),
        ((1, "relationships"), {}),
        ((1, "objects"), 5),
        ((1, "image_index"), "x"),
        ((1, "image_index"), 10**30),
    ],
)
def test_another_form_is_refused(tmp_path, path, value):
    scenes = json.loads(json.dumps(SCENES))
    *way, last = path
    place = scenes
    for step in way:
        place = place[step]
    place[last] = value
    with pytest.raises(ValueError, match="must hold scenes in CLEVR's form"):
        read_clevr_scenes(write(tmp_path / "scenes.json", scenes))


def test_endless_nesting_is_refused(tmp_path):
    path = tmp_path / "scenes.json"
    path.write_text('{"scenes": [' + "[" * 100_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_clevr_scenes(path)


def test_a_cut_off_file_is_refused(tmp_path):
    path = write(tmp_path / "scenes.json")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="is cut off or damaged"):
        read_clevr_scenes(path)


@pytest.mark.parametrize("split", ["train", "val"])
def test_relations_of_all_real_scenes_follow_from_the_positions(split):
    folder = data_folder() / "clevr" / "CLEVR_v1.0" / "scenes"
    if not list(folder.glob(f"CLEVR_{split}_scenes.json*")):
        pytest.skip(f"the scenes of CLEVR are not in {folder}")
    scenes = clevr_scenes(split)
    assert torch.equal(scene_relations(scenes, recorded=False), scenes.relations)
    assert len(scenes) >= 500
