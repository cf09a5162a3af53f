import pytest
import torch
from torch import nn

from torchsets.testing import assert_obeys_laws, random_sets
from torchsets.transformer import TransformerLayer

NORMS = pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])


def copy_attention(ours, theirs):
    parts = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.out.state_dict())


def layer(**options):
    torch.manual_seed(0)
    made = TransformerLayer(8, 2, hidden=16, **options).double()
    for part in made.modules():
        if isinstance(part, nn.LayerNorm):  # or all would be the same
            nn.init.normal_(part.weight)
            nn.init.normal_(part.bias)
    return made


@NORMS
def test_equals_the_encoder_layer_of_torch(norm_first, generator):
    ours = layer(norm_first=norm_first)
    theirs = nn.TransformerEncoderLayer(
        8, 2, dim_feedforward=16, dropout=0.0, batch_first=True, norm_first=norm_first
    ).double()
    copy_attention(ours.among, theirs.self_attn)
    theirs.norm1.load_state_dict(ours.norm_among.state_dict())
    theirs.norm2.load_state_dict(ours.norm_mlp.state_dict())
    theirs.linear1.load_state_dict(ours.mlp[0].state_dict())
    theirs.linear2.load_state_dict(ours.mlp[2].state_dict())
    elements, mask = random_sets([3, 1, 5], features=8, generator=generator)
    expected = theirs(elements.nan_to_num(), src_key_padding_mask=~mask)
    torch.testing.assert_close(ours(elements, mask)[mask], expected[mask])


@NORMS
def test_equals_the_decoder_layer_of_torch(norm_first, generator):
    ours = layer(norm_first=norm_first, tokens=8)
    theirs = nn.TransformerDecoderLayer(
        8, 2, dim_feedforward=16, dropout=0.0, batch_first=True, norm_first=norm_first
    ).double()
    copy_attention(ours.among, theirs.self_attn)
    copy_attention(ours.across, theirs.multihead_attn)
    theirs.norm1.load_state_dict(ours.norm_among.state_dict())
    theirs.norm2.load_state_dict(ours.norm_across.state_dict())
    theirs.norm3.load_state_dict(ours.norm_mlp.state_dict())
    theirs.linear1.load_state_dict(ours.mlp[0].state_dict())
    theirs.linear2.load_state_dict(ours.mlp[2].state_dict())
    elements, _ = random_sets([4, 4, 4], features=8, generator=generator)
    tokens, mask = random_sets([3, 1, 5], features=8, generator=generator)
    expected = theirs(elements, tokens.nan_to_num(), memory_key_padding_mask=~mask)
    torch.testing.assert_close(ours(elements, tokens=tokens, token_mask=mask), expected)


def test_positions_reach_queries_and_keys_but_not_values(generator):
    ours = layer(tokens=5)
    elements, _ = random_sets([4, 4], features=8, generator=generator)
    tokens, mask = random_sets([3, 5], features=5, generator=generator)
    positions = torch.randn(4, 8, generator=generator, dtype=torch.float64)
    places = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    placed = elements + positions
    expected = ours.norm_among(elements + ours.among(placed, placed, values=elements))
    looked = ours.across(expected + positions, tokens + places, mask, values=tokens)
    expected = ours.norm_across(expected + looked)
    expected = ours.norm_mlp(expected + ours.mlp(expected))
    got = ours(
        elements, tokens=tokens, token_mask=mask, positions=positions, token_positions=places
    )
    torch.testing.assert_close(got, expected)


def test_positions_of_padding_do_not_matter(generator):
    ours = layer()
    elements, mask = random_sets([2, 4], features=8, generator=generator)
    positions = torch.randn(2, 4, 8, generator=generator, dtype=torch.float64)
    expected = ours(elements, mask, positions=positions)
    hidden = positions.masked_fill(~mask.unsqueeze(-1), torch.nan)
    got = ours(elements, mask, positions=hidden)
    torch.testing.assert_close(got[mask], expected[mask])
    got[mask].sum().backward()
    assert all(weight.grad.isfinite().all() for weight in ours.parameters())


@NORMS
@pytest.mark.parametrize("sizes", [[3, 0, 2], [0, 0]], ids=str)
def test_obeys_the_laws_in_its_elements(sizes, norm_first, generator):
    elements, mask = random_sets(sizes, features=8, generator=generator)
    assert_obeys_laws(layer(norm_first=norm_first), elements, mask, equivariant=True)


@pytest.mark.parametrize("sizes", [[3, 0, 2], [0, 0]], ids=str)
def test_obeys_the_laws_in_its_tokens(sizes, generator):
    ours = layer(tokens=3)

    def look(tokens, mask):
        elements = torch.linspace(-1, 1, 32, dtype=torch.float64).view(1, 4, 8)
        return ours(elements.expand(len(tokens), -1, -1), tokens=tokens, token_mask=mask)

    assert_obeys_laws(look, *random_sets(sizes, features=3, generator=generator))


def test_dropout_is_for_training_only():
    ours = layer(dropout=0.5)
    elements = torch.rand(2, 3, 8, dtype=torch.float64)
    assert not torch.equal(ours(elements), ours(elements))
    ours.eval()
    torch.testing.assert_close(ours(elements), ours(elements))


@pytest.mark.parametrize(("built", "given"), [(None, 3), (3, None)])
def test_rejects_tokens_it_was_not_built_for(built, given):
    tokens = None if given is None else torch.zeros(1, 2, given)
    with pytest.raises(ValueError, match="tokens must be given if the layer was built for them"):
        TransformerLayer(8, 2, hidden=8, tokens=built)(torch.zeros(1, 4, 8), tokens=tokens)


def test_rejects_a_mask_of_another_size():
    with pytest.raises(ValueError, match=r"mask must have shape \(1, 4\) to match elements"):
        TransformerLayer(8, 2, hidden=8)(torch.zeros(1, 4, 8), torch.ones(1, 3) > 0)
