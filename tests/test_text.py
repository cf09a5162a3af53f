import pytest
import torch
from torch import nn

from torchsets.text import QuestionEncoder, Vocabulary, split_words

LENGTHS = [4, 0, 6, 1]
CELLS = [pytest.param(nn.LSTM, id="lstm"), pytest.param(nn.GRU, id="gru")]


def make(cell=nn.LSTM, reverse=False):
    torch.manual_seed(0)
    return QuestionEncoder(9, embedding=4, hidden=5, cell=cell, reverse=reverse).double()


def questions(generator):
    tokens = torch.randint(1, 10, (len(LENGTHS), max(LENGTHS)), generator=generator)
    return tokens, torch.tensor(LENGTHS)


def load(encoder, numbers):
    state = {"embedding.weight": numbers["param.embedding.weight"]}
    for name, value in numbers.items():
        if name.startswith("param.lstm."):
            state["recurrent." + name.removeprefix("param.lstm.")] = value
    encoder.load_state_dict(state)
    return encoder


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("reverse", [False, True])
def test_matches_the_network_on_each_question_alone(generator, cell, reverse):
    encoder = make(cell, reverse)
    tokens, lengths = questions(generator)
    for row, length, result in zip(tokens, LENGTHS, encoder(tokens, lengths), strict=True):
        words = encoder.embedding(row[:length].flip(0) if reverse else row[:length])
        expected = encoder.recurrent(words)[0][-1] if length else torch.zeros(5).double()
        torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("content", [0, 3, -1, 10**6])
def test_padding_does_not_matter(generator, reverse, content):
    encoder = make(reverse=reverse)
    tokens, lengths = questions(generator)
    expected = encoder(tokens, lengths)
    longer = torch.cat([tokens, tokens[:, :2]], dim=1)
    behind = torch.arange(longer.shape[1]) >= lengths.unsqueeze(1)
    torch.testing.assert_close(encoder(longer.masked_fill(behind, content), lengths), expected)


@pytest.mark.parametrize("reverse", [False, True])
def test_padding_gets_no_gradient(generator, reverse):
    encoder = make(reverse=reverse)
    tokens, lengths = questions(generator)
    encoder(tokens.clamp(max=8), lengths).square().sum().backward()
    unread = torch.ones(10, dtype=torch.bool)
    for row, length in zip(tokens.clamp(max=8), LENGTHS, strict=True):
        unread[row[:length]] = False
    assert unread[0]
    assert (encoder.embedding.weight.grad[unread] == 0).all()
    assert (encoder.embedding.weight.grad[~unread] != 0).any(dim=1).all()


def test_a_question_gives_the_same_alone_as_in_a_batch(generator):
    encoder = make(reverse=True)
    tokens, lengths = questions(generator)
    batched = encoder(tokens, lengths)
    for place, length in enumerate(LENGTHS):
        alone = encoder(tokens[place : place + 1, :length], lengths[place : place + 1])
        torch.testing.assert_close(alone[0], batched[place])


def test_empty_questions_and_batches_give_zeros_with_a_gradient():
    encoder = make()
    assert encoder(torch.zeros(2, 3).long(), torch.zeros(2).long()).tolist() == [[0.0] * 5] * 2
    assert encoder(torch.zeros(2, 0).long()).tolist() == [[0.0] * 5] * 2
    nothing = encoder(torch.zeros(0, 3).long())
    assert nothing.shape == (0, 5)
    nothing.sum().backward()
    assert all((weight.grad == 0).all() for weight in encoder.parameters())


@pytest.mark.parametrize("cell", CELLS)
def test_runs_under_autocast(cell, generator):
    encoder = make(cell).float()
    expected = encoder(*questions(generator))
    generator.manual_seed(0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = encoder(*questions(generator))
    torch.testing.assert_close(half.float(), expected, rtol=0.1, atol=0.1)


def test_the_order_of_reading_matters(generator):
    tokens, lengths = questions(generator)
    assert not torch.allclose(make()(tokens, lengths)[0], make(reverse=True)(tokens, lengths)[0])


@pytest.mark.parametrize("name", ["clevr_full", "clevr_padded", "clevr_rn_full", "clevr_rn_padded"])
def test_agrees_with_the_authors_question_vector(golden, name):
    """His model reads the zeros behind a question as words: they are made part of it here."""
    numbers = golden(name)
    encoder = load(make(reverse=True), numbers)
    torch.testing.assert_close(encoder(numbers["questions"]), numbers["mid_question"])
    whole = numbers["lengths"] == numbers["questions"].shape[1]
    ours = encoder(numbers["questions"], numbers["lengths"])
    torch.testing.assert_close(ours[whole], numbers["mid_question"][whole])
    assert whole.any()
    assert torch.isclose(ours, numbers["mid_question"]).all(dim=1).equal(whole)


def test_agrees_with_the_authors_gru(golden):
    numbers = golden("vqa_question")
    encoder = QuestionEncoder(10, embedding=5, hidden=6, cell=nn.GRU, activation=nn.Tanh()).double()
    load(encoder, numbers)
    words = encoder.embedding
    out = encoder(numbers["tokens"], numbers["lengths"])
    torch.testing.assert_close(out, numbers["out"])
    (out * numbers["cot"]).sum().backward()
    for name, weight in encoder.recurrent.named_parameters():
        torch.testing.assert_close(weight.grad, numbers[f"grad.lstm.{name}"])
    # Row 0, unknown words, learns in ours and stands still in his.
    torch.testing.assert_close(words.weight.grad[1:], numbers["grad.embedding.weight"][1:])


@pytest.mark.parametrize(
    ("tokens", "lengths", "message"),
    [
        (torch.zeros(3).long(), None, r"tokens must have shape \(B, T\)"),
        (torch.zeros(3, 2), None, "tokens must be long, got torch.float32"),
        (torch.zeros(3, 2).long(), torch.ones(2).long(), r"lengths must have shape \(B,\) = \(3\)"),
    ],
)
def test_rejects_bad_input(tokens, lengths, message):
    with pytest.raises(ValueError, match=message):
        make()(tokens, lengths)


def test_rejects_bad_sizes():
    with pytest.raises(ValueError, match="hidden must be at least 1, got 0"):
        QuestionEncoder(3, hidden=0)


def test_words_are_numbered_in_order_of_appearance():
    vocabulary = Vocabulary.from_texts(["What is it?", "It is red, or it's not-red; is it?"])
    words = ["what", "is", "it", "?", "red", ",", "or", "it's", "not-red", ";"]
    assert list(vocabulary.words) == words
    assert repr(vocabulary) == "Vocabulary(10 words)"
    tokens, lengths = vocabulary.encode(["IS it?", "", "red"])
    assert tokens.tolist() == [[2, 3, 4], [0, 0, 0], [5, 0, 0]]
    assert lengths.tolist() == [3, 0, 1]
    assert vocabulary.decode(tokens[0].tolist()) == "is it ?"
    assert split_words(" ") == []
    assert vocabulary.encode([])[0].shape == (0, 0)


def test_unknown_and_repeated_words_are_errors():
    vocabulary = Vocabulary(["red", "ball"])
    with pytest.raises(ValueError, match="words must be among the 2 of the vocabulary, got 'blue'"):
        vocabulary.encode(["red blue ball"])
    with pytest.raises(ValueError, match="words must be different, got 'red' twice"):
        Vocabulary(["red", "ball", "red"])


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
def test_many_texts_are_read_in_groups_of_similar_length(cell, generator):
    torch.manual_seed(0)
    encoder = QuestionEncoder(9, embedding=3, hidden=4, cell=cell, reverse=True).double()
    tokens = torch.randint(1, 10, (150, 12), generator=generator)
    lengths = torch.randint(0, 13, (150,), generator=generator)
    found = encoder(tokens, lengths)
    alone = torch.cat([encoder(tokens[i : i + 1], lengths[i : i + 1]) for i in range(150)])
    torch.testing.assert_close(found, alone)
    assert encoder(tokens, torch.zeros_like(lengths)).eq(0).all()


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (torch.tensor([4]), "lengths must be from 0 to 2, got 4"),
        (torch.tensor([-1]), "lengths must be from 0 to 2, got -1"),
        (torch.tensor([1.0]), r"lengths must be long, got torch\.float32"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(lengths, message):
    with pytest.raises(ValueError, match=message):
        QuestionEncoder(3, hidden=4)(torch.ones(1, 2, dtype=torch.long), lengths)


@pytest.mark.parametrize("number", [-1, 3])
def test_numbers_of_no_word_are_refused(number):
    vocabulary = Vocabulary(("a", "b"))
    assert vocabulary.decode([1, 0, 2]) == "a b"
    with pytest.raises(ValueError, match=r"numbers must be from 0 to 2, got \["):
        vocabulary.decode([number])
