"""The public names and signatures that other people's code calls. Change them with a reason."""

import inspect
from importlib import import_module

import pytest

CONTRACT = {
    "torchsets:SetBatch.from_list": "(sets, *, size=None, dtype=None)",
    "torchsets:SetBatch.from_flat": "(values, sizes)",
    "torchsets:SetBatch.select": "(self, index)",
    "torchsets:Sets": "(values, sizes, *, labels=None, keys=None, names=None)",
    "torchsets:Sets.from_offsets": "(values, offsets)",
    "torchsets:Sets.from_table": "(frame, *, by, features=None, label=None, keys=None)",
    "torchsets:Sets.from_awkward": "(array, *, fields=None)",
    "torchsets:Sets.from_arrow": "(array)",
    "torchsets:SetPrediction.to_list": "(self, threshold=0.5)",
    "torchsets:pad": "(sets, *, size=None)",
    "torchsets:unpad": "(elements, mask)",
    "torchsets:collate": "(samples)",
    "torchsets.pooling:sum_pool": "(elements, mask=None)",
    "torchsets.pooling:mean_pool": "(elements, mask=None)",
    "torchsets.pooling:max_pool": "(elements, mask=None)",
    "torchsets.pooling:fspool": "(elements, weight, mask=None)",
    "torchsets.pooling:fspool_flat": "(values, sizes, weight)",
    "torchsets.pooling:FSPool.pool_flat": "(self, values, sizes)",
    "torchsets.pooling:SumPool.pool_flat": "(self, values, sizes)",
    "torchsets.pooling:by_size": "(module)",
    "torchsets:GraphBatch": "(nodes, edges, sizes)",
    "torchsets.encoders:GIN": (
        "(features, outputs, *, hidden, blocks=5, eps=0.0, pooling=<class "
        "'torchsets.pooling.sum.SumPool'>, dropout=0.0, norm_first=False)"
    ),
    "torchsets.encoders:GIN.forward": "(self, nodes, edges, sizes)",
    "torchsets.encoders:PointNet": (
        "(features, outputs, *, hidden=64, pooling=<class 'torchsets.pooling.max.MaxPool'>, "
        "transforms=False)"
    ),
    "torchsets.encoders:JanossyPooling": "(module, *, k=None, state='hidden', orders=20)",
    "torchsets.encoders:JanossyPooling.forward": "(self, elements, mask=None, *, generator=None)",
    "torchsets.encoders:JanossyPooling.vectors_by_order": (
        "(self, elements, mask=None, *, orders=None, generator=None)"
    ),
    "torchsets.encoders:OrderedEncoder": "(order, features, hidden, *, state='hidden')",
    "torchsets.encoders:OrderedEncoder.forward": "(self, elements, mask=None, *, weights=None)",
    "torchsets.encoders:BAN": (
        "(features, hidden, *, glimpses=8, counter=None, reader=None, dropout=0.0, "
        "rank_dropout=0.0)"
    ),
    "torchsets.encoders:BAN.forward": (
        "(self, elements, mask=None, *, words, word_mask=None, boxes=None)"
    ),
    "torchsets.pooling:GlimpsePool": "(features, context, *, hidden, glimpses=2, dropout=0.0)",
    "torchsets.pooling:GlimpsePool.forward": "(self, elements, mask=None, context=None)",
    "torchsets.metrics:vqa_accuracy": "(agreeing)",
    "torchsets.encoders:EquivariantLinear": "(features, outputs, *, centre='mean')",
    "torchsets.pooling:SortPool": "(k)",
    "torchsets.pooling:SortPool.pool_flat": "(self, values, sizes)",
    "torchsets.pooling:AttentionPool": "(features, *, queries=1, context=None)",
    "torchsets.pooling:AttentionPool.forward": "(self, elements, mask=None, context=None)",
    "torchsets.encoders:SetTransformer": (
        "(features, outputs, *, hidden=64, heads=4, layers=2, inducing=None, seeds=1, norm=False)"
    ),
    "torchsets.encoders:SetTransformer.forward": "(self, elements, mask=None)",
    "torchsets.encoders:SAB": "(features, outputs, *, heads=4, norm=False)",
    "torchsets.encoders:ISAB": "(features, outputs, *, inducing, heads=4, norm=False)",
    "torchsets.encoders:PMA": "(features, *, seeds=1, heads=4, norm=False)",
    "torchsets.pooling:FSPool": "(features, *, pieces=20, init='normal', temperature=None)",
    "torchsets.pooling:FSPool.forward": "(self, elements, mask=None)",
    "torchsets.pooling:FSPool.pool_with_order": "(self, elements, mask=None, *, temperature=None)",
    "torchsets.pooling:FSUnpool": "(features, *, pieces=20, init='normal')",
    "torchsets.pooling:FSUnpool.forward": "(self, vector, order, mask=None)",
    "torchsets.permutations:sinkhorn": "(scores, *, steps=4, temperature=1.0, mask=None)",
    "torchsets.permutations:neural_sort": "(scores, *, temperature=1.0, mask=None)",
    "torchsets.permutations:hard_permutation": "(soft, mask=None)",
    "torchsets.permutations:ordering_cost": "(permutation, costs, *, grid=None)",
    "torchsets.permutations:optimise_permutation": (
        "(costs, *, steps, step_size, initial=None, grid=None, mask=None, through_sinkhorn=False)"
    ),
    "torchsets.permutations:PairwiseCost": "(features, hidden, *, outputs=1)",
    "torchsets.permutations:LinearAssignment": "(features, positions, *, clip=None)",
    "torchsets.permutations:LinearAssignment.forward": (
        "(self, elements, mask=None, *, values=None)"
    ),
    "torchsets.permutations:LinearAssignment.permute": "(self, elements, mask=None)",
    "torchsets.permutations:PermutationOptimiser": "(cost, *, steps=4, initial=None, grid=None)",
    "torchsets.permutations:PermutationOptimiser.forward": (
        "(self, elements, mask=None, *, values=None)"
    ),
    "torchsets.permutations:PermutationOptimiser.permute": "(self, elements, mask=None)",
    "torchsets.permutations:GumbelSinkhorn": "(*, steps=20, temperature=1.0, noise=1.0)",
    "torchsets.permutations:GumbelSinkhorn.forward": "(self, scores, mask=None, *, generator=None)",
    "torchsets.losses:assign": "(cost, row_mask=None, column_mask=None, *, invalid='raise')",
    "torchsets.matching:assign_flat": "(cost, sizes, *, invalid='raise')",
    "torchsets.giou:box_giou": "(boxes, others, mask=None, other_mask=None)",
    "torchsets.boxes:centres_to_corners": "(boxes)",
    "torchsets.boxes:corners_to_centres": "(boxes)",
    "torchsets.interop.detr:DetrMatcher": (
        "(class_cost=1.0, bbox_cost=1.0, giou_cost=1.0, *, classes='probability')"
    ),
    "torchsets.interop.detr:DetrMatcher.forward": "(self, outputs, targets)",
    "torchsets.interop.detr:DetrMatcher.match_layers": "(self, layers, targets)",
    "torchsets.interop.hub:with_hub": "(model)",
    "torchsets.losses:chamfer_loss": (
        "(prediction, target, target_mask=None, *, prediction_mask=None, "
        "element='squared', reduction='sum')"
    ),
    "torchsets.losses:hungarian_loss": (
        "(prediction, target, target_mask=None, *, prediction_mask=None, "
        "element='squared', reduction='sum')"
    ),
    "torchsets.losses:sinkhorn_loss": (
        "(prediction, target, target_mask=None, *, prediction_mask=None, "
        "element='squared', epsilon=0.05, iterations=200, tolerance=0.001)"
    ),
    "torchsets.losses:sinkhorn_divergence": (
        "(prediction, target, target_mask=None, *, prediction_mask=None, "
        "element='squared', epsilon=0.05, iterations=200, tolerance=0.001)"
    ),
    "torchsets.losses:present_chamfer_loss": (
        "(prediction, presence, target, target_mask=None, *, element='huber', size_weight=1.0)"
    ),
    "torchsets.losses:set_size_loss": "(presence, sizes)",
    "torchsets.losses:nearest_neighbours": (
        "(elements, others, other_mask=None, *, mask=None, element='squared')"
    ),
    "torchsets.losses:SetPredictionLoss": (
        "(set_loss, *, presence=True, supervise='all', weight=0.1)"
    ),
    "torchsets.losses:SetPredictionLoss.forward": (
        "(self, prediction, target, target_mask=None, representation=None)"
    ),
    "torchsets.counting:Counter": "(objects=10, *, pieces=16, attention='weights')",
    "torchsets.counting:Counter.forward": "(self, boxes, attention, mask=None)",
    "torchsets.decoders:DSPN": (
        "(encoder, *, slots, features, steps=10, step_size=25.0, momentum=0.0, clip=None, "
        "tolerance=None, variable_size=True, representation_loss='huber', gradient='unrolled', "
        "project=None, pull=0.0)"
    ),
    "torchsets.decoders:DSPN.forward": "(self, vector, *, steps=None, initial=None, context=None)",
    "torchsets.decoders:DSPN.encode": "(self, elements, mask=None, *, context=None)",
    "torchsets.decoders:DSPN.representation_loss": (
        "(self, vector, elements, mask=None, *, context=None)"
    ),
    "torchsets.decoders:decode_adaptively": "(decoder, vector, *, steps=None, initial=None)",
    "torchsets.decoders:QueryDecoder": (
        "(inputs, hidden, *, slots, features, layers=6, heads=8, feedforward=None, dropout=0.0, "
        "norm_first=False, variable_size=True)"
    ),
    "torchsets.decoders:QueryDecoder.forward": "(self, tokens, token_mask=None)",
    "torchsets.decoders:SlotAttention": (
        "(inputs, hidden, *, slots, features, rounds=3, start='random', gradient='unrolled', "
        "variable_size=True)"
    ),
    "torchsets.decoders:SlotAttention.forward": (
        "(self, tokens, token_mask=None, *, rounds=None, initial=None, generator=None)"
    ),
    "torchsets.decoders:TSPNDecoder": (
        "(features, slots, *, inputs, hidden=128, layers=3, heads=4, feedforward=None, "
        "norm_first=True)"
    ),
    "torchsets.decoders:TSPNDecoder.forward": (
        "(self, vector, *, sizes=None, initial=None, generator=None)"
    ),
    "torchsets.decoders:TSPNDecoder.size_logits": "(self, vector)",
    "torchsets.decoders:TSPNDecoder.size_loss": "(self, vector, target_mask)",
    "torchsets.data:image_to_tiles": "(images, grid)",
    "torchsets.data:tiles_to_image": "(tiles, grid)",
    "torchsets.data:sample_scenes": ("(count, *, objects=(3, 10), seed=0, first=0, visible=False)"),
    "torchsets.data:scene_states": "(scenes, *, coding='one-hot')",
    "torchsets.data:states_to_scenes": "(elements, mask=None)",
    "torchsets.data:generate_questions": "(scenes, *, per_scene=10, families=None, seed=0)",
    "torchsets.text:QuestionEncoder.forward": "(self, tokens, lengths=None)",
    "torchsets.resnet:ResNet": (
        "(layers=18, *, outputs=1000, channels=3, width=64, stem='large', pool=None)"
    ),
    "torchsets.metrics:descent_progress": "(trajectory, *, tolerance=0.001)",
    "torchsets.metrics:set_size_error": "(presence, target_mask, *, threshold=0.5)",
    "torchsets.metrics:average_precision": "(recall, precision)",
    "torchsets.estimators:SetClassifier": (
        "(pooling='fspool', *, hidden=64, layers=2, network=None, max_epochs=50, batch_size=32, "
        "learning_rate=0.001, early_stopping=False, validation_fraction=0.1, patience=10, "
        "standardise=True, class_weight=None, device='auto', random_state=None, verbose=0)"
    ),
    "torchsets.estimators:SetClassifier.fit": "(self, X, y, sample_weight=None)",
    "torchsets.estimators:SetClassifier.partial_fit": (
        "(self, X, y, classes=None, sample_weight=None)"
    ),
    "torchsets.estimators:SetRegressor.fit": "(self, X, y, sample_weight=None)",
    "torchsets.estimators:SetPredictor.fit": "(self, X, y, sample_weight=None)",
    "torchsets.estimators:SetEncoder.transform": "(self, X)",
    "torchsets.estimators:SetStatistics": (
        "(statistics=('mean', 'std', 'min', 'max', 'sum'), *, size=True)"
    ),
    "torchsets.estimators:ElementTransformer": "(transformer)",
}
NAMES = [
    "torchsets.pooling:SumPool",
    "torchsets.pooling:MeanPool",
    "torchsets.pooling:MaxPool",
    "torchsets.counting:box_iou",
    "torchsets.data:Scenes",
    "torchsets.data:Questions",
    "torchsets.counting:count_by_nms",
    "torchsets.decoders:MLPDecoder",
    "torchsets.decoders:LSTMDecoder",
    "torchsets.encoders:DeepSets",
    "torchsets.encoders:RelationNetwork",
    "torchsets.encoders:OrderedEncoder",
    "torchsets.metrics:box_average_precision",
    "torchsets.metrics:state_average_precision",
    "torchsets.testing:assert_permutation_invariant",
    "torchsets.testing:assert_permutation_equivariant",
    "torchsets.testing:assert_ignores_padding",
    "torchsets.testing:assert_sets_independent",
]


def fetch(name):
    module, _, path = name.partition(":")
    value = import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    return value


def bare(signature):
    """The signature without annotations."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    return str(inspect.Signature(parameters))


@pytest.mark.parametrize(("name", "expected"), CONTRACT.items(), ids=list(CONTRACT))
def test_signature_is_the_agreed_one(name, expected):
    assert bare(inspect.signature(fetch(name))) == expected


@pytest.mark.parametrize("name", NAMES)
def test_name_exists(name):
    assert callable(fetch(name))
