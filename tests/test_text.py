import pytest
import torch
from torch import nn

from torchsets.text import QuestionEncoder


def read_plainly(encoder, words):
    """The last hidden state of one question, without padding."""
    words = words.flip(0) if encoder.backwards else words
    return encoder.reader(encoder.embedding(words).unsqueeze(0))[0][0, -1]


@pytest.fixture(params=["lstm", "gru"])
def cell(request):
    return request.param


@pytest.mark.parametrize("backwards", [False, True])
def test_reads_the_words_of_each_question_alone(cell, backwards):
    torch.manual_seed(0)
    encoder = QuestionEncoder(9, 5, embedding=3, cell=cell, backwards=backwards).double()
    words, lengths = torch.randint(9, (4, 6)), torch.tensor([6, 1, 3, 4])
    found = encoder(words, lengths)
    for row, length, vector in zip(words, lengths, found, strict=True):
        torch.testing.assert_close(vector, read_plainly(encoder, row[:length]))


@pytest.mark.parametrize("backwards", [False, True])
def test_padding_may_hold_anything_and_has_no_gradient(cell, backwards):
    torch.manual_seed(0)
    encoder = QuestionEncoder(9, 5, cell=cell, backwards=backwards).double()
    words, lengths = torch.tensor([[1, 2, 0, 0], [3, 4, 5, 6]]), torch.tensor([2, 4])
    other = torch.tensor([[1, 2, 99, -7], [3, 4, 5, 6]])  # no such words
    torch.testing.assert_close(encoder(other, lengths), encoder(words, lengths))
    longer = nn.functional.pad(words, (0, 3), value=8)
    torch.testing.assert_close(encoder(longer, lengths), encoder(words, lengths))
    encoder(longer, lengths).square().sum().backward()
    assert not encoder.embedding.weight.grad[[0, 7, 8]].any()


def test_a_question_without_words_is_zeros(cell):
    encoder = QuestionEncoder(9, 5, cell=cell)
    assert (
        encoder(torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, dtype=torch.long)).eq(0).all()
    )
    vectors = encoder(torch.ones(2, 3, dtype=torch.long), torch.tensor([0, 2]))
    assert vectors[0].eq(0).all()
    assert vectors[1].any()


def test_says_what_is_wrong():
    words, lengths = torch.ones(2, 3, dtype=torch.long), torch.tensor([3, 2])
    encoder = QuestionEncoder(9, 5)
    with pytest.raises(ValueError, match=r"words must be integer, got torch\.float32"):
        encoder(words.float(), lengths)
    with pytest.raises(ValueError, match=r"lengths must have shape \(B,\)"):
        encoder(words, lengths[:1])
    with pytest.raises(ValueError, match='cell must be "lstm" or "gru", got \'rnn\''):
        QuestionEncoder(9, 5, cell="rnn")
