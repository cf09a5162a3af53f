"""Sets to learn from: generated, embedded, and downloaded once."""

from torchsets._catalogue import data_folder
from torchsets.data.cifar import cifar10_images
from torchsets.data.clevr import (
    clevr_scenes,
    read_clevr_scenes,
    scene_records,
    write_clevr_scenes,
)
from torchsets.data.clevr_images import clevr_pictures
from torchsets.data.colours import (
    CIFAR10_COLOURS,
    IMAGENET_COLOURS,
    MNIST_COLOURS,
    ColourScale,
)
from torchsets.data.contact_sheets import contact_sheet, draw_boxes, write_png
from torchsets.data.digits import small_digit_sets
from torchsets.data.idx import read_idx
from torchsets.data.minibatches import Minibatches, SizeBuckets
from torchsets.data.mnist import (
    idx_images,
    idx_point_sets,
    mnist_images,
    mnist_point_sets,
)
from torchsets.data.motifs import motif_graphs
from torchsets.data.picture_folders import PictureFolder, imagenet_pictures
from torchsets.data.point_sets import LabelledSets, add_noise, jitter, with_mask_feature
from torchsets.data.polygons import random_polygons, turned_polygons
from torchsets.data.questions import (
    Question,
    QuestionBatch,
    Questions,
    clevr_questions,
    generate_questions,
    read_questions,
    run_program,
    write_questions,
)
from torchsets.data.rendered_splits import ScenePictures, rendered_scenes
from torchsets.data.resize import resize_and_crop, resize_bilinear
from torchsets.data.scene_outlines import scene_boxes
from torchsets.data.scene_projection import scene_cameras, scene_lamps, scene_pixels
from torchsets.data.scene_rays import visible_share
from torchsets.data.scene_rendering import render_scenes
from torchsets.data.scene_sampling import sample_scenes
from torchsets.data.scenes import Scenes, scene_relations, scene_states, states_to_scenes
from torchsets.data.tiles import (
    gather_tiles,
    image_to_tiles,
    mosaic_size,
    shuffle_tiles,
    tiles_to_image,
)
from torchsets.data.toy_counting import CountingSets, toy_counting_sets
from torchsets.data.tu import LabelledGraphs, read_tu, tu_graphs
from torchsets.data.vqa import (
    FeatureStore,
    VQAQuestions,
    build_features,
    read_vqa_questions,
    vqa_questions,
)

__all__ = [
    "CIFAR10_COLOURS",
    "IMAGENET_COLOURS",
    "MNIST_COLOURS",
    "ColourScale",
    "CountingSets",
    "FeatureStore",
    "LabelledGraphs",
    "LabelledSets",
    "Minibatches",
    "PictureFolder",
    "Question",
    "QuestionBatch",
    "Questions",
    "ScenePictures",
    "Scenes",
    "SizeBuckets",
    "VQAQuestions",
    "add_noise",
    "build_features",
    "cifar10_images",
    "clevr_pictures",
    "clevr_questions",
    "clevr_scenes",
    "contact_sheet",
    "data_folder",
    "draw_boxes",
    "gather_tiles",
    "generate_questions",
    "idx_images",
    "idx_point_sets",
    "image_to_tiles",
    "imagenet_pictures",
    "jitter",
    "mnist_images",
    "mnist_point_sets",
    "mosaic_size",
    "motif_graphs",
    "random_polygons",
    "read_clevr_scenes",
    "read_idx",
    "read_questions",
    "read_tu",
    "read_vqa_questions",
    "render_scenes",
    "rendered_scenes",
    "resize_and_crop",
    "resize_bilinear",
    "run_program",
    "sample_scenes",
    "scene_boxes",
    "scene_cameras",
    "scene_lamps",
    "scene_pixels",
    "scene_records",
    "scene_relations",
    "scene_states",
    "shuffle_tiles",
    "small_digit_sets",
    "states_to_scenes",
    "tiles_to_image",
    "toy_counting_sets",
    "tu_graphs",
    "turned_polygons",
    "visible_share",
    "vqa_questions",
    "with_mask_feature",
    "write_clevr_scenes",
    "write_png",
    "write_questions",
]
