import lzma
import zipfile

import pytest
import torch

from torchsets.data import data_folder, read_tu, tu, tu_graphs

# Two graphs: nodes 1-2-3 with an edge listed twice and a self-loop, and 4, 5 with 5 isolated.
PARTS = {
    "A": "1, 2\n2, 1\n2, 1\n2, 3\n3, 2\n3, 3\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "1\n-1\n",
}
EDGES = [[0, 1, 1, 2], [1, 0, 2, 1]]
TEXT = "2\n3 2\n0 1 1\n0 2 0 2\n0 2 1 2\n2 0\n0 0\n0 0\n"


def write_zip(folder, parts=None, name="TOY", member="TOY//TOY_{}.txt"):
    path = folder / f"{name}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, text in (PARTS if parts is None else parts).items():
            archive.writestr(member.format(part), text)
    return path


def write_folder(folder):
    (folder / "TOY").mkdir()
    for part, text in PARTS.items():
        (folder / "TOY" / f"TOY_{part}.txt").write_text(text)
    return folder / "TOY"


def write_text(folder, text=TEXT):
    path = folder / "TOY.txt"
    path.write_text(text)
    return path


def write_xz(folder, text=TEXT):
    path = folder / "TOY.txt.xz"
    path.write_bytes(lzma.compress(text.encode()))
    return path


WRITERS = [write_zip, write_folder, write_text, write_xz]


@pytest.mark.parametrize("write", WRITERS)
def test_all_formats_hold_the_same_graphs(write, tmp_path):
    graphs, labels = read_tu(write(tmp_path))
    assert graphs.edges.tolist() == EDGES
    assert graphs.sizes.tolist() == [3, 2]  # the isolated nodes are there
    assert labels.tolist() == [1, 0]  # from -1, 1 and 0, 2
    batch = graphs.batch([0, 1])  # a constant, then the degree: 0, 1 or 2
    assert batch.nodes.tolist() == [
        [1, 0, 1, 0],
        [1, 0, 0, 1],
        [1, 0, 1, 0],
        [1, 1, 0, 0],
        [1, 1, 0, 0],
    ]
    bare, _ = read_tu(write_zip(tmp_path), degrees=False)
    assert bare.batch(0).nodes.tolist() == [[1.0]] * 3


@pytest.mark.parametrize("write", WRITERS)
def test_a_name_finds_any_format(write, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    (tmp_path / "tu").mkdir()
    write(tmp_path / "tu")
    assert tu_graphs("TOY").graphs.features == 4
    assert tu_graphs("TOY", degrees=False).graphs.features == 1


def test_reddit_gets_no_degrees(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    (tmp_path / "tu").mkdir()
    write_text(tmp_path / "tu").rename(tmp_path / "tu" / "REDDIT-TOY.txt")
    assert tu_graphs("REDDIT-TOY").graphs.features == 1


def test_attributes_come_before_labels(tmp_path):
    parts = PARTS | {
        "node_labels": "3\n5\n3\n4\n4\n",
        "node_attributes": "0.5, 1\n1.5, 2\n2.5, 3\n3.5, 4\n4.5, 5\n",
    }
    graphs, _ = read_tu(write_zip(tmp_path, parts))
    expected = [[0.5, 1, 1, 0, 0], [1.5, 2, 0, 0, 1], [2.5, 3, 1, 0, 0]]
    assert graphs.batch(0).nodes.tolist() == expected
    only_attributes, _ = read_tu(write_zip(tmp_path, {**parts, "node_labels": "1\n" * 5}))
    assert only_attributes.features == 3


def test_tags_that_differ_are_labels(tmp_path):
    graphs, _ = read_tu(write_text(tmp_path, "1\n2 0\n4 1 1\n6 1 0\n"))
    assert graphs.batch(0).nodes.tolist() == [[1, 0, 0], [0, 0, 1]]


def test_a_missing_file_says_where_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    message = r"REDDIT-MULTI-5K.zip is missing: download it from https://.*REDDIT-MULTI-5K.zip"
    with pytest.raises(FileNotFoundError, match=message):
        tu_graphs("REDDIT-MULTI-5K")


@pytest.mark.parametrize("name", ["../TOY", "a/b", "", "TOY.zip"])
def test_a_name_is_no_path(name):
    with pytest.raises(ValueError, match="name must be letters, digits, - and _"):
        tu_graphs(name)


@pytest.mark.parametrize(
    "member", ["../TOY_{}.txt", "/TOY_{}.txt", "TOY/../../TOY_{}.txt", "OTHER/TOY_{}.txt"]
)
def test_members_outside_their_folder_are_not_read(member, tmp_path):
    path = write_zip(tmp_path, member=member)
    with pytest.raises(ValueError, match=r"it must hold TOY_A.txt, .* got no such file in it"):
        read_tu(path)
    assert [one.name for one in tmp_path.iterdir()] == ["TOY.zip"]
    assert not (tmp_path.parent / "TOY_A.txt").exists()


@pytest.mark.parametrize("write", WRITERS)
def test_bombs_are_refused(write, tmp_path, monkeypatch):
    monkeypatch.setattr(tu, "_LARGEST", 20)
    with pytest.raises(ValueError, match="must have at most 20 bytes unpacked, got more"):
        read_tu(write(tmp_path))


def test_a_bomb_that_hides_its_size_is_refused(tmp_path):
    """The archive says that a member is small; more comes out."""
    path = write_zip(tmp_path, PARTS | {"A": "1, 2\n" * 10_000})
    content = path.read_bytes()
    true = (50_000).to_bytes(4, "little")
    assert content.count(true) == 2
    path.write_bytes(content.replace(true, (10).to_bytes(4, "little")))
    with pytest.raises(ValueError, match=r"TOY.zip is damaged or no dataset of graphs: Bad CRC"):
        read_tu(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": "1, 2\n2"}, "A must hold pairs of nodes, got 3 numbers"),
        ({"A": "1, 9\n"}, "edges must be between its 5 nodes"),
        ({"A": "0, 1\n"}, "edges must be between its 5 nodes"),
        ({"A": "1, 4\n"}, "edges must join nodes of one graph"),
        ({"A": "1, two\n"}, "it must hold numbers only, got other text"),
        ({"graph_indicator": "1\n2\n1\n2\n2\n"}, "graph_indicator must rise from 1"),
        ({"graph_indicator": "0\n1\n1\n2\n2\n"}, "graph_indicator must rise from 1"),
        ({"graph_labels": "1\n"}, "graph_indicator must rise from 1 to the number of graph labels"),
        ({"node_labels": "1\n2\n"}, "node_labels must have one row for each node, got 2 numbers"),
        ({"node_attributes": "1\n2\n"}, "node_attributes must have one row for each node"),
        ({"node_labels": "1\n2\n3\n4\n900000\n"}, "node labels must span at most 65536 numbers"),
    ],
)
def test_wrong_parts_are_refused(change, message, tmp_path):
    with pytest.raises(ValueError, match=rf"TOY.zip is damaged or no .*: .*{message}"):
        read_tu(write_zip(tmp_path, PARTS | change))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT[:-6], "the file ends early"),
        ("", "the file ends early"),
        (TEXT + "7", "it must end with its last graph, got 1 numbers more"),
        (TEXT.replace("0 2 1 2", "0 2 1 3"), "neighbours of its own graph"),
        (TEXT.replace("0 2 1 2", "0 2 1 -1"), "neighbours of its own graph"),
        ("<html>not found</html>", "it must hold numbers only"),
        ("-1", "the number of graphs must be at least 0, got -1"),
        ("1\n-2 0\n", "the number of nodes must be at least 0, got -2"),
        ("1\n1 0\n0 -3\n", "the degree must be at least 0, got -3"),
    ],
)
def test_wrong_text_is_refused(text, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_tu(write_text(tmp_path, text))


def test_cut_off_archives_are_refused(tmp_path):
    for write in (write_zip, write_xz):
        path = write(tmp_path)
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(ValueError, match="is damaged or no dataset of graphs"):
            read_tu(path)


def test_a_member_twice_is_refused(tmp_path):
    path = write_zip(tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("TOY_A.txt", "1, 2\n")
    with pytest.raises(ValueError, match=r"it must hold TOY_A.txt once, got it twice"):
        read_tu(path)


def test_a_folder_without_its_files_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"_A.txt"):
        read_tu(tmp_path)


SLOW = pytest.mark.slow  # ten seconds: 24 million edges


@pytest.mark.parametrize(
    ("name", "graphs", "nodes", "largest", "edges", "features", "classes", "isolated"),
    [
        ("MUTAG", 188, 3371, 28, 7442, 7, [63, 125], 0),
        ("PTC_MR", 344, 4915, 64, 10108, 18, [192, 152], 0),
        ("PROTEINS", 1113, 43471, 620, 162088, 4, [663, 450], 5),
        ("NCI1", 4110, 122747, 111, 265506, 37, [2053, 2057], 428),
        ("IMDB-BINARY", 1000, 19773, 136, 193062, 137, [500] * 2, 0),
        ("IMDB-MULTI", 1500, 19502, 89, 197806, 90, [500] * 3, 0),
        ("REDDIT-BINARY", 2000, 859254, 3782, 1991016, 1, [1000] * 2, 21),
        pytest.param(
            *("COLLAB", 5000, 372474, 492, 24572158, 493, [2600, 775, 1625], 0), marks=SLOW
        ),
    ],
)
def test_published_datasets(name, graphs, nodes, largest, edges, features, classes, isolated):
    if not list((data_folder() / "tu").glob(f"{name}.*")):
        pytest.skip(f"{name} is not in {data_folder() / 'tu'}")
    all_graphs, labels = tu_graphs(name)
    assert len(all_graphs) == graphs
    assert len(all_graphs.nodes) == nodes
    assert int(all_graphs.sizes.max()) == largest
    assert all_graphs.edges.shape[1] == edges
    assert all_graphs.features == features
    assert labels.bincount().tolist() == classes
    assert int((torch.bincount(all_graphs.edges[0], minlength=nodes) == 0).sum()) == isolated
    batch = all_graphs.batch(range(5))
    assert batch.nodes.shape[1] == features
    assert int(batch.edges.max()) < len(batch.nodes)
